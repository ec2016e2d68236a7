import Codecs
import Testing

/// Schemas that nobody has thought of, between Google's implementation for Python and ours.
@Suite(.enabled(if: PythonPeer.hasProtobuf, "needs protoc, and protobuf for Python"))
struct SchemaCrossingTests {
    private typealias Message = DynamicMessage<Outermost>

    @Test("random messages of a random schema go to Python and back unchanged", arguments: 1...12)
    func random(seed: Int) throws {
        var random = SeededGenerator(state: UInt64(seed))
        let levels = random.levels()
        let proto = DynamicSchema.proto(levels)
        let parts = try PythonPeer.answers(
            to: [],
            script: PythonScripts.invent,
            arguments: ["Outermost", "300", "\(seed)"],
            proto: proto
        )
        try #require(parts.count == 900)
        let ours = try DynamicSchema.$levels.withValue(levels) {
            try (0..<300).map { index in
                let message = try ProtobufCodec().decode(Message.self, from: parts[index * 3])
                let bytes = try ProtobufCodec().encode(message)
                let fromJSON = try JSONCodec().decode(Message.self, from: parts[index * 3 + 2])
                #expect(try ProtobufCodec().encode(fromJSON) == bytes, "message \(index) of\n\(proto)")
                return (protobuf: bytes, json: try JSONCodec().encode(message))
            }
        }
        let answers = try PythonPeer.answers(
            to: ours.flatMap { [$0.protobuf, $0.json] },
            script: PythonScripts.rewrite,
            arguments: ["Outermost"],
            proto: proto
        )
        try #require(answers.count == 900)
        for index in 0..<300 {
            // As Python writes it: what was not packed in its schema is there packed by us.
            let theirs = parts[index * 3 + 1]
            let comment: Comment = "message \(index) of\n\(proto)"
            #expect(answers[index * 3] == theirs && answers[index * 3 + 2] == theirs, comment)
        }
        #expect(parts.contains { $0.count > 100 })
    }
}
