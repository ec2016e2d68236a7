import Codecs
import Testing

/// The schema of ``XMLCodec``: which element stands for which field.
@Suite struct XMLTests {
    private func content(_ text: String) throws -> AllTypes { try fromXML("<message>\(text)</message>") }

    private func failure(_ text: String) -> CodecError? { codecError { try content(text) } }

    @Test("A message of default values is an empty element")
    func empty() throws {
        #expect(try xml(AllTypes()) == "<message/>")
        for text in ["<message/>", "<message />", "<message></message>", " <message>\n\t\r </message >\n"] {
            #expect(try fromXML(text, as: AllTypes.self) == AllTypes(), "\(text)")
        }
    }

    @Test("A chat message has the text that the schema defines")
    func chatText() throws {
        var message = ChatMessage(
            id: "m1",
            conversation: "c",
            sender: "ann",
            sentAtMs: 1_700_000_000_123,
            text: "h\"é\n<&>"
        )
        message.kind = .image
        message.replyTo = ""
        message.mentions = ["bo", ""]
        message.attachment = [0, 255, 254]
        message.attributes = ["k": "v", "a": ""]
        let expected =
            "<message><id>m1</id><conversation>c</conversation><sender>ann</sender><sentAtMs>1700000000123</sentAtMs>"
            + "<kind>KIND_IMAGE</kind><text>h\"é\n&lt;&amp;&gt;</text><replyTo/><mentions>bo</mentions><mentions/>"
            + "<attachment>AP/+</attachment><attributes key=\"a\"/><attributes key=\"k\">v</attributes></message>"
        #expect(try xml(message) == expected)
        #expect(try fromXML(expected, as: ChatMessage.self) == message)
    }

    @Test("Every type has the text that the schema defines")
    func typeText() throws {
        var message = AllTypes()
        message.bool = true
        message.int32 = -7
        message.uint64 = .max
        message.float = 1.5
        message.double = 1e100
        message.bytes = [1]
        message.colour = .blue
        message.inner = Inner()
        message.maybeInt = 0
        message.maybeBytes = []
        message.ints = [0, -2_147_483_648]
        message.doubles = [.nan, -.infinity, .infinity]
        message.colours = [.red, Colour(rawValue: 9)]
        message.inners = [Inner(number: 1), Inner()]
        message.byNumber = [-3: "x", 2: ""]
        message.byKey = [7: Inner(snakeCase: "s")]
        message.byFlag = [true: false]
        let expected =
            "<message><bool>true</bool><int32>-7</int32><uint64>18446744073709551615</uint64><float>1.5</float>"
            + "<double>1e+100</double><bytes>AQ==</bytes><colour>COLOUR_BLUE</colour><inner/><maybeInt>0</maybeInt>"
            + "<ints>0</ints><ints>-2147483648</ints><doubles>NaN</doubles><doubles>-INF</doubles><doubles>INF</doubles>"
            + "<colours>COLOUR_RED</colours><colours>9</colours><inners><number>1</number></inners><inners/>"
            + "<byNumber key=\"-3\">x</byNumber><byNumber key=\"2\"/>"
            + "<byKey key=\"7\"><snakeCase>s</snakeCase></byKey><maybeBytes/><byFlag key=\"true\">false</byFlag></message>"
        #expect(try xml(message) == expected)
        let back: AllTypes = try fromXML(expected)
        #expect(back.maybeBytes == [] && back.byNumber == [-3: "x", 2: ""] && back.doubles[0].isNaN)
        #expect(try xml(back) == expected)
    }

    @Test("A carriage return is a reference, in a key also a tab and a line feed, so that all are read as they were")
    func whiteSpace() throws {
        var message = ChatMessage()
        message.text = " \t\r\n\r\u{85}\u{2028} "
        message.attributes = ["\t\n\r \"'": "\r"]
        let text = try xml(message)
        #expect(
            text == "<message><text> \t&#13;\n&#13;\u{85}\u{2028} </text>"
                + "<attributes key=\"&#9;&#10;&#13; &quot;'\">&#13;</attributes></message>"
        )
        #expect(try fromXML(text, as: ChatMessage.self) == message)
    }

    @Test("A text that XML cannot represent is base64 of its UTF-8, and says so")
    func unrepresentable() throws {
        let forbidden = (0..<0x20).filter { ![0x09, 0x0A, 0x0D].contains($0) } + [0xFFFE, 0xFFFF]
        for scalar in forbidden.compactMap({ Unicode.Scalar(UInt32($0)) }) {
            for text in ["\(scalar)", "ab<\(scalar)", "0123456789\(scalar)é"] {
                var message = ChatMessage()
                message.id = text
                message.text = text
                message.mentions = [text, "plain"]
                message.attributes = [text: text]
                let written = try xml(message)
                #expect(written.contains("<text encoding=\"base64\">"), "\(written)")
                #expect(written.contains("keyEncoding=\"base64\" encoding=\"base64\">"), "\(written)")
                #expect(written.contains("<mentions>plain</mentions>"))
                #expect(try fromXML(written, as: ChatMessage.self) == message, "\(written)")
            }
        }
        #expect(
            try xml(Inner(snakeCase: "\u{1}")) == "<message><snakeCase encoding=\"base64\">AQ==</snakeCase></message>"
        )
        for text in ["\u{7F}", "\u{9F}", "\u{D7FF}\u{E000}\u{FFFD}\u{FEFF}", "\u{1FFFE}\u{1FFFF}\u{10FFFF}", "，。（"] {
            #expect(try xml(Inner(snakeCase: text)) == "<message><snakeCase>\(text)</snakeCase></message>")
            #expect(try fromXML(xml(Inner(snakeCase: text)), as: Inner.self).snakeCase.utf8.elementsEqual(text.utf8))
        }
    }

    @Test("Any text is read as it was written, at every length and place in the blocks that are searched")
    func blocks() throws {
        for special in ["&", "<", ">", "\r", "\"", "\u{1}", "\u{FFFF}", "\u{FF0C}", "]]>", "\t", "é", "😀"] {
            for before in 0..<20 {
                for after in [0, 1, 7, 8, 9] {
                    let text = String(repeating: "a", count: before) + special + String(repeating: "b", count: after)
                    var message = ChatMessage()
                    message.text = text
                    message.attributes = [text: text]
                    #expect(try fromXML(xml(message), as: ChatMessage.self) == message)
                }
            }
        }
    }

    @Test("Text that is declared as base64 is decoded, also if it could be written plainly; bytes are base64 anyway")
    func encodings() throws {
        #expect(try content("<string encoding='base64'>aMOp</string>").string == "hé")
        #expect(try content("<string encoding=\"b&#97;se64\"> aM\nOp </string>").string == "hé")
        #expect(try content("<int32 encoding='base64'>LTc=</int32>").int32 == -7)
        #expect(try content("<bytes encoding='base64'>AQ==</bytes>").bytes == [1])
        #expect(try content("<byName key='aw==' keyEncoding='base64'>5</byName>").byName == ["k": 5])
        #expect(failure("<string encoding='base64'>aM*</string>")?.code == .invalidBase64)
        #expect(failure("<string encoding='base64'>/w==</string>")?.code == .invalidUTF8)
        #expect(failure("<string encoding='hex'>00</string>")?.code == .unsupportedEncoding)
        #expect(failure("<byName key='a' keyEncoding=''>1</byName>")?.code == .unsupportedEncoding)
    }

    @Test("Elements are read in any order, the values of one field also apart, and unknown elements are skipped")
    func anyOrder() throws {
        let message = try content(
            "<zz><a>1<b/></a>text</zz><string>s</string><ints>1</ints><new><bool>true</bool></new><int32>3</int32>"
                + "<ints>2</ints><bool>true</bool><byName key='a'>1</byName><ns:int32>9</ns:int32><ints>3</ints>"
                + "<byName key='b'>2</byName><x>&#233;<![CDATA[<int32>]]></x><snake_case>no</snake_case>"
        )
        #expect(message.string == "s" && message.int32 == 3 && message.bool && message.ints == [1, 2, 3])
        #expect(message.byName == ["a": 1, "b": 2])
    }

    @Test("The last value of a field counts as a whole, and the last value of a key")
    func duplicates() throws {
        let message = try content(
            "<int32>5</int32><inner><number>1</number></inner><maybeInt>1</maybeInt><byName key='a'>1</byName>"
                + "<inner><snakeCase>x</snakeCase></inner><int32>6</int32><maybeInt/><byName key='a'>2</byName>"
        )
        #expect(message.int32 == 6 && message.maybeInt == 0 && message.byName == ["a": 2])
        #expect(message.inner == Inner(snakeCase: "x"))
    }

    @Test("An element without text is the default of its type, and an optional field is then present")
    func emptyElements() throws {
        let message = try content(
            "<bool/><int64></int64><double> </double><string/><colour/><maybeInt/><maybeString></maybeString>"
                + "<maybeColour/><maybeDouble/><maybeBytes/><inner/><ints/><ints>1</ints><bools/><byName key=''/>"
        )
        #expect(
            message.string.isEmpty && message.maybeInt == 0 && message.maybeString == "" && message.maybeDouble == 0
        )
        #expect(message.maybeColour == .red && message.maybeBytes == [] && message.inner == Inner())
        #expect(message.ints == [0, 1] && message.bools == [false] && message.byName == ["": 0])
        #expect(failure("<byNumber key=''/>")?.code == .invalidNumber)
        #expect(failure("<byFlag key=''/>")?.code == .wrongType)
    }

    @Test("White space around a number, a truth value, an enum and base64 does not count, and in a text it does")
    func trimming() throws {
        let message = try content(
            "<bool>\n true\t</bool><int32> 7 </int32><double>\r\n1.5 </double><colour> COLOUR_GREEN </colour>"
                + "<bytes> AQ\n== </bytes><string> s </string><byNumber key=' 3&#10;'> v </byNumber>"
        )
        #expect(message.bool && message.int32 == 7 && message.double == 1.5 && message.colour == .green)
        #expect(message.bytes == [1] && message.string == " s " && message.byNumber == [3: " v "])
    }

    @Test("Truth values are those of XML Schema")
    func truth() throws {
        #expect(
            try content("<bools>true</bools><bools>1</bools><bools>false</bools><bools>0</bools>").bools
                == [true, true, false, false]
        )
        for text in ["True", "yes", "10", "t"] {
            #expect(failure("<bool>\(text)</bool>")?.code == .wrongType, "\(text)")
        }
    }

    @Test(
        "An integer is a sign and digits, and is never rounded",
        arguments: [
            ("+7", 7), ("-7", -7), ("007", 7), ("-0", 0), ("9223372036854775807", .max),
            ("-9223372036854775808", .min), ("00000000000000000000000000001", 1),
        ] as [(String, Int64)]
    )
    func integers(text: String, value: Int64) throws {
        #expect(try content("<int64>\(text)</int64>").int64 == value)
    }

    @Test(
        "What is not an integer of its field's type is refused",
        arguments: [
            ("7.0", .invalidNumber), ("1e3", .invalidNumber), ("7 7", .invalidNumber), ("0x7", .invalidNumber),
            ("-", .invalidNumber), ("+", .invalidNumber), ("--7", .invalidNumber), ("NaN", .invalidNumber),
            ("9223372036854775808", .numberOutOfRange), ("-9223372036854775809", .numberOutOfRange),
            ("18446744073709551616", .numberOutOfRange), ("99999999999999999999999", .numberOutOfRange),
            ("99999999999999999999999x", .invalidNumber),
        ] as [(String, CodecError.Code)]
    )
    func notIntegers(text: String, code: CodecError.Code) {
        let error = failure("<int64>\(text)</int64>")
        #expect(error?.code == code && error?.field == "int64" && error?.offset == 16)
        #expect(failure("<uint32>-1</uint32>")?.code == .numberOutOfRange)
        #expect(failure("<uint32>4294967296</uint32>")?.code == .numberOutOfRange)
    }

    @Test("Decimal numbers are those of XML Schema")
    func decimals() throws {
        let texts = ["1", "-1.5", "+.5", "1.", "1E2", "1e+2", "1.5e-3", "-0.0", "INF", "+INF", "-INF", "0001.50"]
        let values: [Double] = [1, -1.5, 0.5, 1, 100, 100, 0.0015, -0.0, .infinity, .infinity, -.infinity, 1.5]
        #expect(try content(texts.map { "<doubles>\($0)</doubles>" }.joined()).doubles == values)
        #expect(try content(texts.map { "<floats>\($0)</floats>" }.joined()).floats == values.map { Float($0) })
        for text in [".", "e5", "1e", "1e+", "1.5.5", "Infinity", "inf", "nan", "0x1p3", "1 2", "1,5", "--1", "INF1"] {
            #expect(failure("<double>\(text)</double>")?.code == .invalidNumber, "\(text)")
            #expect(failure("<float>\(text)</float>")?.code == .invalidNumber, "\(text)")
        }
        #expect(failure("<double>1e309</double>")?.code == .numberOutOfRange)
        #expect(failure("<float>1e39</float>")?.code == .numberOutOfRange)
        #expect(try content("<double>1e-400</double>").double == 0)
    }

    @Test("An enum is a name or a number, and an unknown name counts as absent")
    func enums() throws {
        let message = try content(
            "<colour>-5</colour><maybeColour>MAUVE</maybeColour><colours>COLOUR_GREEN</colours><colours>MAUVE</colours>"
                + "<colours>77</colours><colourByName key='a'>MAUVE</colourByName><colourByName key='b'>1</colourByName>"
        )
        #expect(message.colour == .blue && message.maybeColour == nil)
        #expect(message.colours == [.green, Colour(rawValue: 77)] && message.colourByName == ["b": .green])
        #expect(failure("<colour>2147483648</colour>")?.code == .numberOutOfRange)
        #expect(failure("<colour>1x</colour>")?.code == .invalidNumber)
    }

    @Test("A value of another type is refused at its place, with the path to its field")
    func wrongTypes() {
        let cases: [(String, CodecError.Code, Int, String?)] = [
            ("<string><b/></string>", .wrongType, 17, "string"), ("<inner>text</inner>", .wrongType, 16, "inner"),
            ("text", .wrongType, 9, nil), ("<![CDATA[]]>", .wrongType, 9, nil), ("&#32;", .wrongType, 9, nil),
            ("<children><inner><number>x</number></inner></children>", .invalidNumber, 34, "children.inner.number"),
            ("<byName>1</byName>", .missingKey, 10, "byName"), ("<bytes>*</bytes>", .invalidBase64, 16, "bytes"),
            ("<byKey key='x'/>", .invalidNumber, 21, "byKey"),
        ]
        for (text, code, offset, field) in cases {
            let error = failure(text)
            #expect(error?.code == code && error?.offset == offset && error?.field == field, "\(text): \(error as Any)")
        }
    }

    private struct Choice: WireMessage, Equatable {
        enum Source: Equatable { case url(String), size(Int32), colour(Colour) }
        var source: Source?

        mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
            try visitor.oneof(1, "url", &source) {
                if case .url(let url) = $0 { url } else { nil }
            } set: {
                .url($0)
            }
            try visitor.oneof(2, "size", &source) {
                if case .size(let size) = $0 { size } else { nil }
            } set: {
                .size($0)
            }
            try visitor.oneof(3, "colour", &source) {
                if case .colour(let colour) = $0 { colour } else { nil }
            } set: {
                .colour($0)
            }
        }
    }

    @Test("A oneof that is set twice is refused, and a member that is an unknown enum counts as absent")
    func oneofs() throws {
        #expect(try fromXML("<message><size/></message>", as: Choice.self).source == .size(0))
        for text in ["<url>a</url><size>1</size>", "<size>1</size><url>a</url>", "<url/><url/>"] {
            #expect(codecError { try fromXML("<message>\(text)</message>", as: Choice.self) }?.code == .repeatedOneof)
        }
        let text = "<message><colour>MAUVE</colour><size>1</size><colour>MAUVE</colour></message>"
        #expect(try fromXML(text, as: Choice.self).source == .size(1))
    }

    private struct Document: WireMessage, Equatable {
        var value = JSONValue.null
        var maybe: JSONValue?
        var list: [JSONValue] = []

        mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
            try visitor.field(1, "value", &value)
            try visitor.field(2, "maybe", &maybe)
            try visitor.field(3, "list", &list)
        }
    }

    @Test("A JSON value is its text, with the escapes of both formats")
    func jsonValues() throws {
        var message = Document()
        message.value = ["a": [1, nil, "x"]]
        message.maybe = .null
        message.list = ["<&>", "\u{1}\r", "\u{FFFF}", nil, 1.5]
        let text = try xml(message)
        let expected =
            #"<message><value>{"a":[1,null,"x"]}</value><maybe>null</maybe><list>"&lt;&amp;&gt;"</list>"#
            + #"<list>"\u0001\r"</list><list encoding="base64">Iu+/vyI=</list><list>null</list><list>1.5</list></message>"#
        #expect(text == expected)
        #expect(try fromXML(text, as: Document.self) == message)
        let other = "<message><value>\n<![CDATA[{\"a\":]]> &#91;1]} </value><maybe/></message>"
        #expect(try fromXML(other, as: Document.self).value == ["a": [1]])
        #expect(try fromXML(other, as: Document.self).maybe == .null)
        let error = codecError { try fromXML("<message><value>[1,}</value></message>", as: Document.self) }
        #expect(error?.code == .unexpectedCharacter && error?.offset == 19 && error?.field == "value")
    }

    @Test("Every prefix of a document is reported as truncated")
    func truncated() throws {
        var message = AllTypes()
        message.string = "a\u{1}\"b"
        message.maybeString = "é&\r😀"
        message.doubles = [1.5, -2e300]
        message.inners = [Inner(number: 1), Inner()]
        message.byName = ["k\n": -1]
        let documents = [
            try xml(message),
            "\u{FEFF}<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>\r\n<!-- c --><?pi data?>\n<message a='1'>"
                + "<!-- - --><string><![CDATA[ ]] ]]>&#x41;&amp;<?p?></string><x y=\"&lt;\"><z/></x></message>",
        ]
        for bytes in documents.map({ Array($0.utf8) }) {
            #expect(throws: Never.self) { try XMLCodec().decode(AllTypes.self, from: bytes) }
            for count in 0..<bytes.count {
                let error = codecError { try XMLCodec().decode(AllTypes.self, from: Array(bytes[..<count])) }
                let isCutCharacter = error?.code == .invalidUTF8
                #expect(error?.code == .truncated || isCutCharacter, "\(count): \(error as Any)")
                #expect(error?.offset == count || isCutCharacter, "\(count): \(error as Any)")
            }
        }
    }

    @Test("A character that XML does not allow is an error at its offset, with its field, wherever it is")
    func forbidden() {
        for (bytes, code) in [
            ([0x01], .forbiddenCharacter), ([0x00], .forbiddenCharacter), ([0x1F], .forbiddenCharacter),
            ([0xEF, 0xBF, 0xBE], .forbiddenCharacter), ([0xEF, 0xBF, 0xBF], .forbiddenCharacter),
            ([0xFF], .invalidUTF8), ([0xC0, 0x80], .invalidUTF8), ([0xED, 0xA0, 0x80], .invalidUTF8),
        ] as [([UInt8], CodecError.Code)] {
            for (before, after, field) in [
                ("<message><string>ab", "c</string></message>", "string"),
                ("<message><other>", "</other></message>", nil),
                ("<message><!-- ", "--></message>", nil), ("<message a='", "'/>", nil), ("<message/>", "", nil),
                ("<message><inner><snakeCase><![CDATA[", "]]></snakeCase></inner></message>", "inner.snakeCase"),
                ("", "<message/>", nil), ("<message><str", "ing/></message>", nil),
            ] as [(String, String, String?)] {
                let document = Array(before.utf8) + bytes + Array(after.utf8)
                let error = codecError { try XMLCodec().decode(AllTypes.self, from: document) }
                #expect(
                    error?.code == code && error?.offset == before.utf8.count && error?.field == field,
                    "\(before): \(error as Any)"
                )
            }
        }
    }

    private struct WithColon: WireMessage {
        var inner = Nested()
        mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
            try visitor.field(1, "inner", &inner)
        }

        struct Nested: WireMessage {
            var text = ""
            mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
                try visitor.field(1, "a:b", &text)
            }
        }
    }

    private struct WithNumber: WireMessage {
        var text = ""
        mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
            try visitor.field(1, "1st", &text)
        }
    }

    @Test("A type with a name that XML does not have is refused by this codec alone, in writing and in reading")
    func names() throws {
        for _ in 0..<2 {
            #expect(try json(WithColon()) == #"{"inner":{}}"#)
            let error = codecError { try xml(WithColon()) }
            #expect(error?.code == .invalidSchema)
            #expect(
                error?.problem == "Nested declares the field 'a:b', which is not the name of an XML element; "
                    + "use JSON or protobuf, or another name"
            )
            #expect(codecError { try fromXML("<message/>", as: WithNumber.self) }?.code == .invalidSchema)
            #expect(try fromJSON("{}", as: WithNumber.self).text.isEmpty)
        }
    }
}
