import Codecs
import Testing

/// Documents that a strict parser accepts or rejects. Each is read as the value of an undeclared field, as the value of a
/// declared field if it fits, and alone.
@Suite struct JSONSyntaxTests {
    static let accepted = [
        "null", "true", "false", "0", "-0", "-1", "10", "1.5", "0.5", "1e5", "1E+5", "1e-05", "-0.0e0",
        "123456789012345678901234",
        "\"\"", "\"a\"", #""\"\\\/\b\f\n\r\t""#, #""\u0000""#, #""\u00e9\u00E9""#, #""\ud83d\ude00""#, #""\uFFFF""#,
        "\"\u{7F}\"", "\"é你😀\"", "[]", "[ ]", "{}", "{ }", "[1]", "[1,2]", " [ 1 , [ ] ] ", "[[[[]]]]", #"{"":0}"#,
        #"{"a":1,"a":2}"#, #"{"a":{"b":[null]}}"#, "\t\n\r 1", "[\"12345678\",\"1234567\\n\"]", #"{"é":1}"#,
        #""12345678\u0031234567""#, "-0.0", "0e0", "0E-0", "1e0000000001", "1.0E+2", "123123e-10000", "-1e-0", "true ",
        "\r\n1\r\n",
        "\"/\"", "\"'\"", "\"\u{2028}\u{2029}\"", "\"\u{FEFF}\"", "\"\u{FFFE}\u{FFFF}\u{10FFFF}\"", #""\uFFFE\ufdd0""#,
        #""\uD800\uDC00\uDBFF\uDFFF""#, #""\uD7FF\uE000""#, #""\\ud800""#, #""\\\"""#, #""\u0022\u005C\u002F""#,
        #""null""#,
        "[null,true,false,0,\"\",[],{}]", #"{"a":{},"b":[]}"#, #"{"\u0000":0,"\n":1," ":2}"#, "[[[],[]],[[]]]",
        "[\n1\n,\n2\n]", "{\n\"a\"\n:\n1\n,\n\"b\"\n:\n2\n}", "[-1,-0,0.1,1e1]",
    ]

    static let refused = [
        "", " ", "nul", "nulL", "True", "truefalse", "tru e", "01", "-", "-01", "+1", ".5", "1.", "1.e5", "1e", "1e+",
        "1.5.5", "0x10",
        "1_000", "--1", "NaN", "Infinity", "-Infinity", "1a", "\"", "\"a", "'a'", "\"\\\"", #""\a""#, #""\u""#,
        #""\u12""#,
        #""\u12g4""#, #""\U0041""#, #""\x41""#, #""\ud800""#, #""\udc00""#, #""\ud800\u0041""#, #""\ud800\ud800""#,
        #""\ud800x""#,
        #""\ud83d\n\ude00""#, "\"\n\"", "\"\t\"", "\"\u{0}\"", "\"\u{1F}\"", "\"1234567\u{1}89\"", "[", "]", "[1",
        "[1,", "[1,]", "[,1]",
        "[1,,2]", "[1 2]", "[1}", "{", "}", "{\"a\"}", "{\"a\":}", "{\"a\" 1}", "{a:1}", "{1:1}", "{\"a\":1,}", "{,}",
        "{\"a\":1 \"b\":2}",
        "{\"a\"::1}", "{\"a\":1]", "// c\n1", "/* c */ 1", "1 // c", "\u{FEFF}1", "\u{A0}1", "\u{C}1", "#", "1,",
        "[1],", "\\u0031", "&", "- 1", "1 .5", "1. 5", "1e 5", "1e1.5", "1e+-1", "1ee1", "0.e1", "00", "-00", "0b1",
        "1,000", "１",
        "1\u{0}", "0x", "∞", "NULL", "nullx", "n", "t", "fals", "falsey", "undefined", "\"a\"b", "\"a\" \"b\"", "“a”",
        "\"\u{7}\"",
        "\"\r\"", #""\""#, #""\\\""#, #""\u+123""#, #""\u 041""#, #""\u004""#, #""\u{41}""#, #""\0""#, #""\'""#,
        #""\\\u""#,
        #""\ud800\""#, #""\ud800\u""#, #""\ud800\ud7ff""#, #""\udbff\ue000""#, #""\udc00\ud800""#, #""\ud800\\udc00""#,
        "[1,2", "[1 ", "[[1]", "[1]]", "[\"a\" 1]", "[1;2]", "[1:2]", "[\"a\":1]", "[1,\n]", "[...]", "(1)", "<1>",
        "{}}", "{{}}",
        "{\"a\":1,,\"b\":2}", "{\"a\",\"b\"}", "{\"a\":1:2}", "{\"a\"=1}", "{'a':1}", "{null:1}", "{[]:1}",
        "{\"a\":1}{", "{\"a\":1;}",
        "{\"a\":/**/1}", "[1]//", "[1]#", "-- 1", "\u{B}1", "\u{85}1", "\u{2028}1", "\u{2060}1", "1\u{A0}", "*", "@",
        "$a", "{\"a\" :\u{C}1}",
    ]

    @Test("Valid JSON is accepted, also where it is skipped", arguments: accepted)
    func accepts(document: String) throws {
        #expect(try fromJSON("{\"other\":\(document)}", as: AllTypes.self) == AllTypes())
        #expect(try fromJSON("{\"other\":[\(document),\(document)],\"int32\":1}", as: AllTypes.self).int32 == 1)
        #expect(try fromJSON(" {\"string\":\"a\",\"o\":{\"p\":\(document)}} ", as: AllTypes.self).string == "a")
        _ = try JSONValue(json: Array(document.utf8), limits: CodecLimits())
    }

    @Test("Broken JSON is rejected, both where it is skipped and where it is read", arguments: refused)
    func refuses(document: String) {
        for member in ["other", "int32", "string", "double", "bool", "bytes", "colour", "ints", "inner", "byName"] {
            #expect(throws: CodecError.self, "\(member)") {
                try fromJSON("{\"\(member)\":\(document)}", as: AllTypes.self)
            }
        }
        #expect(throws: CodecError.self) { try fromJSON(document, as: AllTypes.self) }
        #expect(throws: CodecError.self) { try JSONValue(json: Array(document.utf8), limits: CodecLimits()) }
        // An array with only white space between its brackets is valid.
        guard document.contains(where: { !$0.isWhitespace }) else { return }
        #expect(throws: CodecError.self) { try fromJSON("{\"other\":[\(document)]}", as: AllTypes.self) }
    }

    @Test(
        "Only a single object is a message",
        arguments: [
            ("[]", .wrongType), ("1", .wrongType), ("null", .wrongType), ("\"{}\"", .wrongType),
            ("{}{}", .trailingBytes),
            ("{} x", .trailingBytes), ("{},", .trailingBytes), ("{}\0", .trailingBytes), ("", .truncated),
            ("{", .truncated),
            ("{\"a\"", .truncated), ("\u{FEFF}{}", .unexpectedCharacter), ("{\"string\":\"\u{1}\"}", .controlCharacter),
            ("{\"string\":\"\\ud800\"}", .loneSurrogate), ("{\"string\":\"\\q\"}", .invalidEscape),
            ("{\"int32\":-}", .invalidNumber),
            ("{\"int32\":2147483648}", .numberOutOfRange), ("{\"int32\":1.5}", .numberOutOfRange),
            ("{\"uint32\":-1}", .numberOutOfRange), ("{\"uint64\":18446744073709551616}", .numberOutOfRange),
            ("{\"int64\":\"9223372036854775808\"}", .numberOutOfRange),
            ("{\"int64\":\"-9223372036854775809\"}", .numberOutOfRange),
            ("{\"int64\":1e30}", .numberOutOfRange), ("{\"double\":1e400}", .numberOutOfRange),
            ("{\"float\":3.5e38}", .numberOutOfRange), ("{\"int32\":\" 1\"}", .invalidNumber),
            ("{\"int32\":\"1 \"}", .invalidNumber),
            ("{\"int32\":\"\"}", .invalidNumber), ("{\"double\":\"nan\"}", .invalidNumber),
            ("{\"double\":\"Inf\"}", .invalidNumber),
            ("{\"int32\":true}", .wrongType), ("{\"string\":1}", .wrongType), ("{\"bool\":\"true\"}", .wrongType),
            ("{\"bool\":1}", .wrongType), ("{\"ints\":1}", .wrongType), ("{\"inner\":[]}", .wrongType),
            ("{\"byNumber\":{\"a\":\"\"}}", .invalidNumber),
        ] as [(String, CodecError.Code)]
    )
    func codes(document: String, code: CodecError.Code) {
        #expect(codecError { try fromJSON(document, as: AllTypes.self) }?.code == code)
    }

    @Test(
        "Text that is not UTF-8 is rejected wherever it occurs",
        arguments: [
            "FF", "80", "C0AF", "C3", "C328", "E08080", "EDA080", "F08080AF", "F4908080", "F5808080", "E4BD", "F09F98",
            "FE",
        ]
    )
    func invalidUTF8(text: String) {
        for padding in ["", "1234567", "12345678é"] {
            let bad = Array(padding.utf8) + hex(text)
            for (before, after) in [
                ("{\"string\":\"", "\"}"), ("{\"other\":\"", "\"}"), ("{\"", "\":1}"), ("{\"string\":\"\\n", "\"}"),
                ("{\"byName\":{\"", "\":1}}"), ("{\"o\":{\"", "\":1}}"), ("{\"colour\":\"", "\"}"),
            ] {
                let error = codecError {
                    try JSONCodec().decode(AllTypes.self, from: Array(before.utf8) + bad + Array(after.utf8))
                }
                #expect(error?.code == .invalidUTF8)
                #expect(before.hasPrefix("{\"byName") || error?.offset == before.utf8.count + padding.utf8.count)
            }
        }
    }

    @Test("A surrogate pair becomes the one character that it names")
    func surrogates() throws {
        #expect(
            try fromJSON(#"{"string":"\ud83d\ude00\uD800\uDC00\uDBFF\uDFFFx"}"#, as: AllTypes.self).string
                == "😀\u{10000}\u{10FFFF}x"
        )
    }

    @Test("The nesting of skipped values counts towards the limit")
    func depth() throws {
        func nested(_ levels: Int) -> String {
            "{\"o\":" + String(repeating: "[", count: levels - 1) + String(repeating: "]", count: levels - 1) + "}"
        }
        #expect(try fromJSON(nested(64), as: AllTypes.self) == AllTypes())
        #expect(codecError { try fromJSON(nested(65), as: AllTypes.self) }?.code == .tooDeep)
        let bomb = "{\"o\":" + String(repeating: "[", count: 1_000_000)
        #expect(codecError { try fromJSON(bomb, as: AllTypes.self) }?.code == .tooDeep)
        let objects = String(repeating: "{\"inner\":", count: 100_000)
        #expect(codecError { try fromJSON(objects, as: AllTypes.self) }?.code == .tooDeep)
    }
}
