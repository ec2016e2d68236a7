import Codecs
import Testing

/// A message with `unsafeEncodesInPlace` is written without a copy. This must not change any result.
@Suite struct VisitInPlaceTests {
    @Test(
        "Encoding in place gives the same bytes as encoding a copy, also nested, and changes nothing",
        arguments: WireFormat.allCases
    )
    func sameBytes(format: WireFormat) throws {
        var random = SeededGenerator(state: 13)
        let codec = format.codec()
        for _ in 0..<60 {
            let (all, chats) = (random.allTypes(), [random.chatMessage(), random.chatMessage()])
            var (letter, copied) = (Letter<InPlace>(all, chats), Letter<Copied>(all, chats))
            let bytes = try codec.encode(copied)
            #expect(try codec.encode(letter) == bytes)
            #expect(try codec.encode(letter) == bytes)
            #expect(try codec.encode(codec.decode(Letter<InPlace>.self, from: bytes)) == bytes)
            let before = letter
            letter.chats[0].text += "!"
            copied.chats[0].text += "!"
            #expect(try codec.encode(letter) == codec.encode(copied))
            #expect(try codec.encode(before) == bytes)
        }
    }

    @Test("Encoding in place that fails changes neither the message nor the bytes before it")
    func failure() throws {
        var random = SeededGenerator(state: 14)
        let letter = Letter<InPlace>(random.allTypes(), [random.chatMessage()])
        let bytes = try ProtobufCodec().encode(letter)
        for limits in [CodecLimits(maximumDepth: 1), CodecLimits(maximumLength: bytes.count - 1)] {
            for room in [0, 64, 4 * bytes.count] {
                var output: [UInt8] = [1, 2]
                output.reserveCapacity(room)
                let error = codecError { try ProtobufCodec(limits: limits).encode(letter, into: &output) }
                #expect(error?.code == (limits.maximumDepth == 1 ? .tooDeep : .tooLong))
                #expect(output == [1, 2])
            }
        }
        #expect(try ProtobufCodec().encode(letter) == bytes)
    }

    @Test("Several threads may write one message at the same time", arguments: WireFormat.allCases)
    func threads(format: WireFormat) async throws {
        var random = SeededGenerator(state: 15)
        let letter = Letter<InPlace>(random.allTypes(), [random.chatMessage()])
        let codec = format.codec()
        let bytes = try codec.encode(letter)
        await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<8 {
                group.addTask { (0..<20).allSatisfy { _ in (try? codec.encode(letter)) == bytes } }
            }
            for await isSame in group { #expect(isSame) }
        }
    }

    @Test("A reused buffer stops growing once messages of its size have been written", arguments: WireFormat.allCases)
    func reusedMemory(format: WireFormat) throws {
        var message = ChatMessage(id: "m1", conversation: "c", sender: "ann", sentAtMs: 1 << 40, text: "")
        for size in 0..<2000 {
            message.text = String(repeating: "x", count: size)
            var bytes: [UInt8] = []
            var capacities: [Int] = []
            for _ in 0..<4 {
                bytes.removeAll(keepingCapacity: true)
                try format.codec().encode(message, into: &bytes)
                capacities.append(bytes.capacity)
            }
            #expect(capacities[3] == capacities[2], "a text of \(size) bytes")
        }
    }
}

private protocol Visits: Sendable { static var areInPlace: Bool { get } }
private enum InPlace: Visits { static let areInPlace = true }
private enum Copied: Visits { static let areInPlace = false }

private struct Letter<V: Visits>: WireMessage {
    var all = AllTypes()
    var chats: [ChatMessage] = []
    var last: ChatMessage?
    var named: [String: ChatMessage] = [:]
    var answers: [Letter] = []

    init() {}

    init(_ all: AllTypes, _ chats: [ChatMessage]) {
        self.all = all
        self.chats = chats
        last = chats.last
        named = ["first": chats[0], "": ChatMessage()]
        answers = [Letter()]
        answers[0].chats = [chats[0]]
    }

    static var unsafeEncodesInPlace: Bool { V.areInPlace }

    mutating func visitFields<F: FieldVisitor>(_ visitor: inout F) throws(CodecError) {
        try visitor.field(1, "all", &all)
        try visitor.field(2, "chats", &chats)
        try visitor.field(3, "last", &last)
        try visitor.field(4, "named", &named)
        try visitor.field(5, "answers", &answers)
    }
}
