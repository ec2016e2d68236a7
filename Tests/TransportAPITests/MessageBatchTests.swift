import Testing

@testable import TransportAPI

@Suite("A batch of messages")
struct MessageBatchTests {
    private func texts(_ batch: borrowing MessageBatch) -> [String] {
        var texts: [String] = []
        batch.forEach { bytes, kind in
            texts.append("\(kind) " + bytes.withUnsafeBytes { String(decoding: $0, as: UTF8.self) })
        }
        return texts
    }

    private func filled(_ numbers: Range<Int>, _ kind: Payload.Kind = .binary) throws -> MessageBatch {
        var batch = MessageBatch()
        for number in numbers { try batch.append(Array("\(number)".utf8).span.bytes, kind: kind) }
        return batch
    }

    @Test("gives back what was put in, in order, each with its kind")
    func order() throws {
        var batch = try filled(0..<3)
        try batch.append(Array("é".utf8).span.bytes, kind: .text)
        try batch.append([UInt8]().span.bytes)
        let (count, byteCount, isEmpty) = (batch.count, batch.byteCount, batch.isEmpty)
        #expect(count == 5 && byteCount == 5 && !isEmpty)
        #expect(texts(batch) == ["binary 0", "binary 1", "binary 2", "text é", "binary "])
        let kinds = batch.payloads().map(\.kind)
        #expect(kinds == [.binary, .binary, .binary, .text, .binary])
    }

    @Test("keeps topics and all else that is said of a message")
    func heads() throws {
        let payloads = [
            Payload([1]), Payload([2], topic: "a", isRetained: true), Payload([3], qos: .atMostOnce),
            Payload(text: "x"),
        ]
        var batch = MessageBatch()
        let hadProperties = batch.hasProperties
        for payload in payloads { try batch.append(payload) }
        let (kept, hasProperties) = (batch.payloads(), batch.hasProperties)
        #expect(kept == payloads && hasProperties && !hadProperties)
        var texts = MessageBatch()
        try texts.append(Payload(text: "x"))
        let textHasProperties = texts.hasProperties
        #expect(!textHasProperties)
    }

    @Test("is as new once emptied, and asks for no memory again")
    func reuse() throws {
        var batch = try filled(0..<5000, .text)
        let held = batch.heldBytes
        batch.removeAll()
        let (isEmpty, bytes, payloads) = (batch.isEmpty, batch.byteCount, batch.payloads())
        #expect(isEmpty && bytes == 0 && payloads.isEmpty && texts(batch).isEmpty)
        for number in 0..<5000 { try batch.append(Array("\(number)".utf8).span.bytes) }
        let (heldThen, refilled) = (batch.heldBytes, batch.payloads())
        #expect(heldThen == held)
        #expect(refilled == (0..<5000).map { Payload(Array("\($0)".utf8)) })
    }

    @Test("stops where its reader throws")
    func stops() throws {
        struct Enough: Error {}
        var seen = 0
        let batch = try filled(0..<9)
        #expect(throws: Enough.self) {
            try batch.forEach { _, _ throws(Enough) in
                seen += 1
                if seen == 3 { throw Enough() }
            }
        }
        #expect(seen == 3)
    }

    @Test(
        "is taken in runs that keep to the room there is, but for one that is larger by itself",
        arguments: [1, 5, 12, 13, 1000]
    )
    func runs(room: Int) throws {
        var batch = try filled(8..<12)
        try batch.append([UInt8](repeating: 7, count: 100).span.bytes)
        var cursor = MessageBatch.Cursor()
        var again = MessageBatch()
        var bytes = 0
        while cursor.index < batch.count {
            let before = cursor.index
            var taken: [UInt8] = []
            batch.takeRun(from: &cursor, room: room) { taken = Array($0) }
            let count = cursor.index - before
            #expect(count > 0 && (taken.count <= room || count == 1))
            bytes += taken.count
            taken.withUnsafeBytes { again.append(run: $0, count: count, longest: 100) }
        }
        let (expected, parts, whole) = (batch.byteCount + 4 * batch.count, again.payloads(), batch.payloads())
        #expect(bytes == expected && parts == whole)
    }

    @Test("lets go of its last message")
    func removingLast() throws {
        var batch = try filled(0..<3, .text)
        batch.removeLast(of: 1)
        #expect(texts(batch) == ["text 0", "text 1"])
        try batch.append([UInt8(0x39)].span.bytes)
        #expect(texts(batch) == ["text 0", "text 1", "binary 9"])
    }
}

@Suite("The outcomes of a batch")
struct SendOutcomesTests {
    private static let refused = SendOutcome.rejected(TransportError(.bufferFull, .open, "full"))

    @Test("are one for each message, in their order")
    func order() {
        var outcomes = SendOutcomes()
        #expect(outcomes.isEmpty && outcomes.isSuccess)
        var expected: [SendOutcome] = []
        for (outcome, count) in [
            (SendOutcome.written, 3), (.written, 2), (Self.refused, 1), (.acknowledged, 0), (.written, 4),
            (.expired, 1),
        ] {
            outcomes.append(outcome, count: count)
            expected += Array(repeating: outcome, count: count)
        }
        #expect(Array(outcomes) == expected)
        #expect(outcomes.count == 11 && !outcomes.isSuccess)
        #expect(outcomes.firstIndex { !$0.isSuccess } == 5)
    }

    @Test("are a success only if all are")
    func success() {
        var outcomes = SendOutcomes()
        outcomes.append(.written, count: 1000)
        outcomes.append(.acknowledged)
        #expect(outcomes.isSuccess)
        outcomes.append(.expired)
        #expect(!outcomes.isSuccess)
    }
}
