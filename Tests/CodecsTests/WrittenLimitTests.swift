import Codecs
import Testing

/// A codec writes only what a codec with the same limits reads. Otherwise a message would be sent, acknowledged, and dropped
/// by the app that receives it.
@Suite struct WrittenLimitTests {
    @Test("An identifier or a key over the limit is refused in writing, with its field", arguments: WireFormat.allCases)
    func longKeys(format: WireFormat) throws {
        let (longest, long) = (String(repeating: "é", count: 128), String(repeating: "k", count: 257))
        let fill: [(String, (inout ChatMessage, String) -> Void)] = [
            ("id", { $0.id = $1 }), ("conversation", { $0.conversation = $1 }), ("sender", { $0.sender = $1 }),
            ("replyTo", { $0.replyTo = $1 }), ("mentions", { $0.mentions = ["a", $1] }),
            ("attributes", { $0.attributes = ["a": "b", $1: "c"] }),
        ]
        for (field, fill) in fill {
            var message = ChatMessage()
            fill(&message, longest)
            #expect(try format.codec().decode(ChatMessage.self, from: format.codec().encode(message)) == message)
            fill(&message, long)
            let error = codecError { try format.codec().encode(message) }
            #expect(error?.code == .keyTooLong && error?.field == field, "\(error as Any)")
        }
    }

    @Test("Too many elements are refused in writing, with the path to the field", arguments: WireFormat.allCases)
    func manyElements(format: WireFormat) throws {
        var message = AllTypes()
        message.children = [AllTypes()]
        message.children[0].ints = Array(repeating: 7, count: 65_536)
        #expect(try format.codec().decode(AllTypes.self, from: format.codec().encode(message)) == message)
        message.children[0].ints.append(7)
        let error = codecError { try format.codec().encode(message) }
        #expect(error?.code == .tooManyElements && error?.field == "children.ints", "\(error as Any)")
    }

    @Test("The elements of a JSON value count in writing as in reading", arguments: WireFormat.allCases)
    func jsonValues(format: WireFormat) throws {
        let codec = format.codec(limits: CodecLimits(maximumElements: 3))
        var message = Document(value: ["a": [1, 2]])
        #expect(try codec.decode(Document.self, from: codec.encode(message)) == message)
        message.value = ["a": [1, 2], "b": 3]
        #expect(codecError { try codec.encode(message) }?.code == .tooManyElements)
        #expect(
            codecError { try message.value.json(limits: CodecLimits(maximumElements: 3)) }?.code == .tooManyElements
        )
    }

    @Test(
        "Whatever a codec writes, a codec with the same limits reads; and it writes whatever it could read",
        arguments: WireFormat.allCases
    )
    func property(format: WireFormat) throws {
        var random = SeededGenerator(state: 44)
        let wide = format.codec(
            limits: CodecLimits(maximumDepth: 256, maximumCount: .max, maximumElements: .max, maximumKeyLength: .max)
        )
        var (written, refused) = (0, 0)
        for _ in 0..<2000 {
            let limits = CodecLimits(
                maximumDepth: Int.random(in: 1...5, using: &random),
                maximumLength: Int.random(in: 0...4000, using: &random),
                maximumCount: Int.random(in: -1...6, using: &random),
                maximumElements: Int.random(in: -1...60, using: &random),
                maximumKeyLength: Int.random(in: -1...30, using: &random)
            )
            let codec = format.codec(limits: limits)
            let message = random.allTypes(depth: 2, oneIn: Int.random(in: 1...30, using: &random))
            let bytes = try wide.encode(message)
            let refusal = codecError { try codec.encode(message) }
            let error = codecError { try codec.decode(AllTypes.self, from: bytes) }
            // Several limits may be exceeded, and a reader meets them in another order.
            #expect((refusal == nil) == (error == nil), "\(refusal as Any) in writing, \(error as Any) in reading")
            if refusal == nil { written += 1 } else { refused += 1 }
        }
        #expect(written > 100 && refused > 100, "\(written) written, \(refused) refused")
    }
}

private struct Document: WireMessage, Equatable {
    var value = JSONValue.null

    init() {}
    init(value: JSONValue) { self.value = value }

    mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
        try visitor.field(1, "value", &value)
    }
}
