import Codecs
import Testing

/// Choices that RFC 8259 leaves to the parser, as Docs/reference/codecs.md documents them. ``JSONSyntaxTests`` covers the rest.
@Suite struct JSONChoicesTests {
    private func node(_ text: String) throws -> String {
        JSONRendering.text(try JSONValue(json: Array(text.utf8), limits: CodecLimits()))
    }

    private func refusal(_ bytes: [UInt8]) -> CodecError.Code? {
        let node = codecError { try JSONValue(json: bytes, limits: CodecLimits()) }?.code
        // The document must also be an error inside a message, as the value of a declared and of an undeclared field.
        for member in ["other", "double", "string"] {
            let document = Array("{\"\(member)\":".utf8) + bytes + Array("}".utf8)
            guard codecError({ try JSONCodec().decode(AllTypes.self, from: document) }) != nil else { return nil }
        }
        return node
    }

    @Test("A document keeps repeated names in order, and a message takes the last value (section 4)")
    func repeatedNames() throws {
        let document = try JSONValue(json: Array(#"{"a":1,"\u0061":2,"a":3}"#.utf8), limits: CodecLimits())
        guard case .object(let members) = document.kind else {
            Issue.record("the document is not an object")
            return
        }
        #expect(members.map(\.name) == ["a", "a", "a"])
        #expect(
            members.map { JSONRendering.text($0.value) } == [
                "D3ff0000000000000", "D4000000000000000", "D4008000000000000",
            ]
        )
        #expect(try fromJSON(#"{"int32":1,"\u0069nt32":2}"#, as: AllTypes.self).int32 == 2)
        #expect(try fromJSON(#"{"snakeCase":"a","snake_case":"b"}"#, as: Inner.self).snakeCase == "b")
    }

    @Test("A number too large for a double is rejected if it is read, and one too small is zero (section 6)")
    func hugeNumbers() throws {
        for text in [
            "1e309", "-1e309", "1.7976931348623159e308", "1e99999999999999999999",
            "1" + String(repeating: "0", count: 400),
        ] {
            #expect(codecError { try node(text) }?.code == .numberOutOfRange)
            #expect(codecError { try fromJSON("{\"double\":\(text)}", as: AllTypes.self) }?.code == .numberOutOfRange)
            #expect(codecError { try fromJSON("{\"float\":\(text)}", as: AllTypes.self) }?.code == .numberOutOfRange)
            #expect(codecError { try fromJSON("{\"int64\":\(text)}", as: AllTypes.self) }?.code == .numberOutOfRange)
            #expect(
                try fromJSON("{\"other\":\(text)}", as: AllTypes.self) == AllTypes(),
                "the size of a skipped number is not checked"
            )
        }
        for text in ["1e-400", "0e309", "1e-99999999999999999999", "0." + String(repeating: "0", count: 400) + "1"] {
            #expect(try node(text) == "D0000000000000000")
            #expect(try node("-" + text) == "D8000000000000000")
        }
        #expect(try node("5e-324") == "D0000000000000001" && node("2.4703282292062328e-324") == "D0000000000000001")
        #expect(try node("1.7976931348623157e308") == "D7fefffffffffffff")
    }

    @Test("64-bit integers are exact, as numbers and as strings, however they are written (section 6)")
    func exactIntegers() throws {
        func int64(_ text: String) throws -> Int64 { try fromJSON("{\"int64\":\(text)}", as: AllTypes.self).int64 }
        #expect(try int64("9223372036854775807") == .max && int64("\"-9223372036854775808\"") == .min)
        #expect(try int64("9007199254740993.0") == 9_007_199_254_740_993)
        #expect(try int64("922337203685477580700e-2") == .max && int64("9.223372036854775807e18") == .max)
        #expect(try int64("1." + String(repeating: "0", count: 100)) == 1 && int64("-0.0e99") == 0)
        #expect(try int64("0." + String(repeating: "0", count: 500_000) + "7e500001") == 7)
        #expect(try fromJSON(#"{"uint64":1.8446744073709551615E19}"#, as: AllTypes.self).uint64 == .max)
    }

    @Test(
        "A number that is not an integer of its field's type is rejected and never rounded (section 6)",
        arguments: [
            "1e-400", "1.00000000000000000001", "0.99999999999999999999", "9223372036854775807.5",
            "9223372036854775808",
            "-9223372036854775809", "9.223372036854775808e18", "1e19", "1e100000000000000000000", "0.1", "-1.5", "1e-1",
        ]
    )
    func inexactIntegers(text: String) {
        for text in [text, "\"\(text)\""] {
            let error = codecError { try fromJSON("{\"int64\":\(text)}", as: AllTypes.self) }
            #expect(error?.code == .numberOutOfRange)
        }
    }

    @Test("A byte order mark and encodings other than UTF-8 are rejected (section 8.1)")
    func encodings() {
        #expect(refusal([0xEF, 0xBB, 0xBF, 0x31]) == .unexpectedCharacter)
        #expect(
            refusal([0xFE, 0xFF, 0, 0x31]) == .unexpectedCharacter
                && refusal([0xFF, 0xFE, 0x31, 0]) == .unexpectedCharacter
        )
        #expect(refusal([0, 0x31]) == .unexpectedCharacter && refusal([0x31, 0]) == .trailingBytes)
        #expect(refusal([0, 0, 0, 0x31]) == .unexpectedCharacter)
    }

    @Test("Half a surrogate pair is rejected, as an escape and as bytes (section 8.2)")
    func surrogates() {
        for text in [
            #""\ud800""#, #""\udfff""#, #""a\uD83Da""#, #""\ud83d\ud83d\ude00""#, #""\ude00\ud83d""#, #""\ud800\n""#,
        ] {
            #expect(refusal(Array(text.utf8)) == .loneSurrogate)
        }
        #expect(refusal(hex("22 EDA0BD EDB880 22")) == .invalidUTF8)
    }

    @Test("A document beyond the limits of depth and of elements is rejected (section 9)")
    func limits() {
        let deep = String(repeating: "[", count: 64) + String(repeating: "]", count: 64)
        #expect(throws: Never.self) { try node(deep) }
        #expect(codecError { try node("[\(deep)]") }?.code == .tooDeep)
        let wide = String(repeating: "0,", count: 65_535)
        #expect(throws: Never.self) { try node("[\(wide)0]") }
        #expect(codecError { try node("[\(wide)0,0]") }?.code == .tooManyElements)
    }

    @Test("A string is the same with and without escapes, also as the name of an enum value (section 8.3)")
    func escapes() throws {
        let message: AllTypes = try fromJSON(
            #"{"colour":"COLOUR\u005fGREEN","colours":["\u0043OLOUR_BLUE"],"byFlag":{"true":false},"string":"\u006a"}"#
        )
        #expect(
            message.colour == .green && message.colours == [.blue] && message.byFlag == [true: false]
                && message.string == "j"
        )
    }

    @Test("A map key has the text of its type, and any other text is rejected")
    func mapKeys() throws {
        #expect(
            try json(try fromJSON(#"{"byFlag":{"true":false,"false":true}}"#, as: AllTypes.self))
                == #"{"byFlag":{"false":true,"true":false}}"#
        )
        for key in ["", "1", "True", "null"] {
            #expect(
                codecError { try fromJSON("{\"byFlag\":{\"\(key)\":true}}", as: AllTypes.self) }?.code == .wrongType
            )
        }
        for key in ["", "a", "1 ", "01", "1.5", "2147483648"] {
            #expect(throws: CodecError.self) { try fromJSON("{\"byNumber\":{\"\(key)\":\"\"}}", as: AllTypes.self) }
        }
    }
}
