import Codecs
import Testing

/// Map keys and identifiers: their length, and keys that are equal only after normalisation.
@Suite struct KeyTests {
    /// Text of `bytes` bytes whose normalisation takes quadratic time: a letter, then combining marks of two classes in
    /// alternation.
    private static func marks(_ bytes: Int) -> String {
        var scalars = String.UnicodeScalarView("a".unicodeScalars)
        for index in 0..<(bytes - 1) / 2 { scalars.append(index % 2 == 0 ? "\u{301}" : "\u{316}") }
        return String(scalars)
    }

    /// A chat message in protobuf with one field, whose number is `field` and whose content is `bytes`.
    private static func protobuf(_ field: UInt8, _ bytes: [UInt8]) -> [UInt8] {
        var message = [field << 3 | 2]
        var length = bytes.count
        while length >= 0x80 {
            message.append(UInt8(length & 0x7f) | 0x80)
            length >>= 7
        }
        return message + [UInt8(length)] + bytes
    }

    private static func read<M: WireMessage>(_ format: WireFormat, _ bytes: [UInt8], _ type: M.Type) throws -> M {
        try format.codec().decode(type, from: bytes)
    }

    /// A map of attributes with one entry for each key, in every format.
    private static func attributes(_ keys: [String]) -> [(WireFormat, [UInt8])] {
        let json = keys.map { "\"\($0)\":\"v\"" }.joined(separator: ",")
        let entries = keys.flatMap { key in
            protobuf(10, protobuf(1, Array(key.utf8)) + protobuf(2, Array("v".utf8)))
        }
        let elements = keys.map { "<attributes key=\"\($0)\">v</attributes>" }.joined()
        return [
            (.json, Array("{\"attributes\":{\(json)}}".utf8)), (.protobuf, entries),
            (.xml, Array("<message>\(elements)</message>".utf8)),
        ]
    }

    @Test("A key longer than the limit is rejected before it is hashed, in every format")
    func longKey() {
        for (format, bytes) in Self.attributes([Self.marks(250_001)]) {
            let error = codecError { try Self.read(format, bytes, ChatMessage.self) }
            #expect(error?.code == .keyTooLong && error?.field == "attributes", "\(format)")
        }
    }

    @Test("A key as long as the limit is read, whatever its normal form")
    func longestKey() throws {
        for key in [Self.marks(255) + "b", String(repeating: "k", count: 256), String(repeating: "é", count: 128)] {
            for (format, bytes) in Self.attributes([key]) {
                let message = try Self.read(format, bytes, ChatMessage.self)
                #expect(message.attributes.keys.map { Array($0.utf8) } == [Array(key.utf8)])
            }
        }
    }

    @Test("The limit of the key length is a setting of the codec")
    func setting() throws {
        let limits = CodecLimits(maximumKeyLength: 3)
        for (format, bytes) in Self.attributes(["abcd"]) {
            #expect(
                codecError { try format.codec(limits: limits).decode(ChatMessage.self, from: bytes) }?.code
                    == .keyTooLong
            )
        }
        for (format, bytes) in Self.attributes(["abc"]) {
            #expect(try format.codec(limits: limits).decode(ChatMessage.self, from: bytes).attributes == ["abc": "v"])
        }
    }

    @Test("An identifier longer than the limit is rejected, in every format")
    func longIdentifier() throws {
        let (long, longest) = (Self.marks(257), Self.marks(255))
        for (number, name) in [(1, "id"), (2, "conversation"), (3, "sender"), (7, "replyTo"), (8, "mentions")] {
            func documents(_ text: String) -> [(WireFormat, [UInt8])] {
                let value = name == "mentions" ? "[\"b\",\"\(text)\"]" : "\"\(text)\""
                return [
                    (.json, Array("{\"\(name)\":\(value)}".utf8)),
                    (.protobuf, Self.protobuf(UInt8(number), Array(text.utf8))),
                    (.xml, Array("<message><\(name)>b</\(name)><\(name)>\(text)</\(name)></message>".utf8)),
                ]
            }
            for (format, bytes) in documents(long) {
                let error = codecError { try Self.read(format, bytes, ChatMessage.self) }
                #expect(error?.code == .keyTooLong && error?.field == name, "\(format)")
            }
            for (format, bytes) in documents(longest) { _ = try Self.read(format, bytes, ChatMessage.self) }
        }
        // A text that is not an identifier may be as long as the message.
        for format in WireFormat.allCases {
            let text = Self.marks(10_001)
            let bytes =
                switch format {
                case .json: Array("{\"text\":\"\(text)\"}".utf8)
                case .protobuf: Self.protobuf(6, Array(text.utf8))
                case .xml: Array("<message><text>\(text)</text></message>".utf8)
                }
            #expect(try Self.read(format, bytes, ChatMessage.self).text.utf8.elementsEqual(text.utf8))
        }
    }

    @Test("Two keys that are equal only after normalisation are rejected, so that neither is lost")
    func ambiguousKeys() {
        for keys in [["\u{e9}", "e\u{301}"], ["e\u{301}", "x", "\u{e9}"], ["K", "\u{212a}"]] {
            for (format, bytes) in Self.attributes(keys) {
                let error = codecError { try Self.read(format, bytes, ChatMessage.self) }
                #expect(error?.code == .ambiguousKey && error?.field == "attributes", "\(format) \(keys)")
            }
        }
    }

    @Test("The last value of a key that is repeated with the same bytes counts")
    func repeatedKey() throws {
        for (format, bytes) in Self.attributes(["e\u{301}", "e\u{301}"]) {
            #expect(try Self.read(format, bytes, ChatMessage.self).attributes.count == 1, "\(format)")
        }
    }

    /// A map whose keys are compared by their bytes.
    private struct ByBytes: WireMessage {
        var attributes: [UTF8Key: String] = [:]
        mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
            try visitor.field(10, "attributes", &attributes)
        }
    }

    @Test("A map of UTF8Key keeps keys that are equal only after normalisation, and writes them again")
    func byBytes() throws {
        for (format, bytes) in Self.attributes(["\u{e9}", "e\u{301}"]) {
            let message = try Self.read(format, bytes, ByBytes.self)
            #expect(message.attributes.count == 2 && message.attributes["\u{e9}"] == "v")
            let again = try Self.read(format, try format.codec().encode(message), ByBytes.self)
            #expect(again.attributes == message.attributes)
        }
        for (format, bytes) in Self.attributes([Self.marks(257)]) {
            #expect(codecError { try Self.read(format, bytes, ByBytes.self) }?.code == .keyTooLong)
        }
    }

    @Test("Chat messages are equal only if the bytes of their texts are equal")
    func equality() {
        var (composed, decomposed) = (ChatMessage(), ChatMessage())
        (composed.text, decomposed.text) = ("\u{e9}", "e\u{301}")
        #expect(composed != decomposed)
        (composed.text, decomposed.text) = ("", "")
        #expect(composed == decomposed && composed.hashValue == decomposed.hashValue)
        (composed.attributes, decomposed.attributes) = (["\u{e9}": ""], ["e\u{301}": ""])
        #expect(composed != decomposed)
        decomposed.attributes = composed.attributes
        (composed.replyTo, decomposed.replyTo) = ("", nil)
        #expect(composed != decomposed)
    }
}
