import Codecs
import Testing

/// Exchanges messages of random schemas with Google's implementation for Python. The tests run one at a time, because each
/// waits for processes on a thread that all tests share.
@Suite(.protobufForPython, .serialized)
struct SchemaCrossingTests {
    private typealias Message = DynamicMessage<Outermost>

    /// The number of messages of each schema in each direction.
    private static let count = 500
    private static let schemas = 1...20

    @Test("Random messages of a random schema go to Python and back unchanged", arguments: schemas)
    func random(seed: Int) throws {
        var random = SeededGenerator(state: UInt64(seed))
        let levels = random.levels()
        let proto = DynamicSchema.proto(levels)
        let parts = try PythonPeer.answers(
            to: [],
            script: PythonScripts.invent,
            arguments: ["Outermost", "\(Self.count)", "\(seed)"],
            proto: proto
        )
        try #require(parts.count == Self.count * 3)
        let ours = try DynamicSchema.$levels.withValue(levels) {
            try (0..<Self.count).map { index in
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
        try #require(answers.count == Self.count * 3)
        for index in 0..<Self.count {
            // Both sides are compared in Python's encoding.
            let theirs = parts[index * 3 + 1]
            let comment: Comment = "message \(index) of\n\(proto)"
            #expect(answers[index * 3] == theirs && answers[index * 3 + 2] == theirs, comment)
        }
        #expect(parts.contains { $0.count > 100 })
    }

    @Test(
        "Random messages of this package reach Python field by field unchanged, and come back unchanged",
        arguments: schemas
    )
    func drawn(seed: Int) throws {
        var random = SeededGenerator(state: UInt64(seed))
        let levels = random.levels()
        let proto = DynamicSchema.proto(levels)
        try DynamicSchema.$levels.withValue(levels) {
            let messages = (0..<Self.count).map { _ in Message.drawn(by: &random) }
            let parts = try messages.flatMap {
                [Array($0.literal.utf8), try ProtobufCodec().encode($0), try JSONCodec().encode($0)]
            }
            let answers = try PythonPeer.answers(
                to: parts,
                script: PythonScripts.examine,
                arguments: ["Outermost"],
                proto: proto
            )
            try #require(answers.count == Self.count * 4)
            for (index, message) in messages.enumerated() {
                let answer = Array(answers[index * 4..<index * 4 + 4])
                let comment: Comment = "message \(index) of seed \(seed): \(message.literal) of\n\(proto)"
                #expect(String(decoding: answer[0], as: UTF8.self) == "", comment)
                #expect(String(decoding: answer[1], as: UTF8.self) == "", comment)
                #expect(try ProtobufCodec().decode(Message.self, from: answer[2]).literal == message.literal, comment)
                #expect(try JSONCodec().decode(Message.self, from: answer[3]).literal == message.literal, comment)
            }
            #expect(Set(messages.map(\.literal)).count > Self.count / 2)
        }
    }
}
