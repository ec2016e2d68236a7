import Codecs
import Foundation
import Testing

/// Compares with Google's implementation for Python under the same schema. Each side reads the other's messages in both
/// formats and writes the same bytes. Only the order of map entries may differ, because no specification defines it.
/// Messages are compared by their bytes, because NaN differs from itself.
@Suite(.protobufForPython)
struct ProtobufCrossingTests {
    private let protobuf = ProtobufCodec()
    private let json = JSONCodec()

    /// Whether Python's bytes and ours encode the same message, and differ at most in the order of map entries.
    private func isSame<M: WireMessage>(_ theirs: [UInt8], _ ours: [UInt8], as type: M.Type) throws -> Bool {
        guard theirs != ours else { return true }
        return try theirs.count == ours.count && theirs.sorted() == ours.sorted()
            && protobuf.encode(protobuf.decode(type, from: theirs)) == ours
    }

    private func rewritten<M: WireMessage>(_ messages: [M], proto: String, type: String, _ comment: Comment) throws {
        let encoded = try messages.map { (protobuf: try protobuf.encode($0), json: try json.encode($0)) }
        let answers = try PythonPeer.answers(
            to: encoded.flatMap { [$0.protobuf, $0.json] },
            script: PythonScripts.rewrite,
            arguments: [type],
            proto: proto
        )
        try #require(answers.count == messages.count * 3)
        for (index, message) in encoded.enumerated() {
            let answer = answers[index * 3..<index * 3 + 3].map { $0 }
            let comment: Comment = "message \(index), \(comment)"
            #expect(try isSame(answer[0], message.protobuf, as: M.self), comment)
            #expect(try isSame(answer[2], message.protobuf, as: M.self), comment)
            #expect(try protobuf.encode(try json.decode(M.self, from: answer[1])) == message.protobuf, comment)
        }
    }

    @Test("Python reads this package's chat messages with Protos/chat.proto and writes the same bytes")
    func chat() throws {
        let root = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let proto = try String(contentsOf: root.appending(path: "Protos/chat.proto"), encoding: .utf8)
        var random = SeededGenerator(state: 7)
        try rewritten((0..<200).map { _ in random.chatMessage() }, proto: proto, type: "ChatMessage", "seed 7")
    }

    @Test("Python reads 1,000 random messages of this package and writes the same bytes", arguments: [8])
    func ours(seed: UInt64) throws {
        var random = SeededGenerator(state: seed)
        let messages = (0..<1000).map { _ in
            var message = random.allTypes(depth: 1, oneIn: 6)
            if random.oneIn(20) { (message.double, message.floats) = (.nan, [.nan]) }
            return message
        }
        try rewritten(messages, proto: AllTypes.proto, type: "AllTypes", "seed \(seed)")
    }

    @Test(
        "This package reads 1,000 random messages of Python, also in two parts, and writes the same bytes",
        arguments: [9]
    )
    func theirs(seed: UInt64) throws {
        let count = 1000
        let parts = try PythonPeer.answers(
            to: [],
            script: PythonScripts.invent,
            arguments: ["AllTypes", "\(count)", "\(seed)"],
            proto: AllTypes.proto
        )
        try #require(parts.count == count * 3)
        for index in 0..<count {
            let comment: Comment = "message \(index), seed \(seed)"
            let joined = try protobuf.encode(try protobuf.decode(AllTypes.self, from: parts[index * 3]))
            #expect(try isSame(parts[index * 3 + 1], joined, as: AllTypes.self), comment)
            #expect(try protobuf.encode(try json.decode(AllTypes.self, from: parts[index * 3 + 2])) == joined, comment)
        }
    }

    @Test(
        "Both implementations reject the same of 10,000 damaged messages and read the others alike",
        arguments: [10]
    )
    func damaged(seed: UInt64) throws {
        var random = SeededGenerator(state: seed)
        let messages = try (0..<10_000).map { _ in
            random.damaged(try protobuf.encode(random.allTypes(depth: 1, oneIn: 10)))
        }
        let answers = try PythonPeer.answers(
            to: messages,
            script: PythonScripts.judge,
            arguments: ["AllTypes"],
            proto: AllTypes.proto
        )
        try #require(answers.count == messages.count)
        let listed = try Deviation.listed()
        #expect(listed.contains(Deviation.tenthByte.rawValue) && listed.contains(Deviation.entryFields.rawValue))
        var counts = (read: 0, refused: 0, tenthByte: 0, entryFields: 0)
        for ((index, bytes), answer) in zip(messages.enumerated(), answers) {
            let comment: Comment = "message \(index), seed \(seed): \(bytes)"
            let ours: [UInt8]
            do throws(CodecError) {
                ours = try protobuf.encode(try protobuf.decode(AllTypes.self, from: bytes).withoutUnknown)
            } catch {
                let isTenthByte = error.code == .varintOverflow && bytes[error.offset] < 0x80 && !answer.isEmpty
                if isTenthByte { counts.tenthByte += 1 } else { counts.refused += 1 }
                #expect(answer.isEmpty || isTenthByte, comment)
                continue
            }
            if answer.first == 2 {
                counts.entryFields += 1
            } else {
                counts.read += 1
                #expect(try !answer.isEmpty && isSame(Array(answer.dropFirst()), ours, as: AllTypes.self), comment)
            }
        }
        #expect(counts.read > 1000 && counts.refused > 2000, "there are too few messages of one kind: \(counts)")
    }
}

@Suite("The peer of the codecs")
struct CodecPeerTests {
    @Test("protoc and Python's protobuf work together when peers are required")
    func required() {
        guard ProcessInfo.processInfo.environment["IM_REQUIRE_PEERS"] != nil else { return }
        #expect(PythonPeer.problemOfProtobuf == nil, "\(PythonPeer.problemOfProtobuf ?? "")")
    }
}
