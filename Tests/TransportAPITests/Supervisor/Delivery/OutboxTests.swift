import Testing

@testable import TransportAPI

/// Tests the queue of messages that have not ended.
@Suite("An outbox")
struct OutboxTests {
    private var outbox = Outbox(OutboxConfiguration())

    private mutating func add(_ sizes: [Int]) {
        for (index, size) in sizes.enumerated() {
            let payload = Payload([UInt8](repeating: 1, count: size))
            #expect(outbox.append(MessageID(UInt64(index + 1)), payload, expiry: nil) == .accepted)
        }
    }

    private var numbers: [UInt64] { (0..<outbox.count).map { outbox[$0].id.number } }

    @Test("Its number of bytes is that of the payloads that it has")
    mutating func bytes() {
        add([1, 20, 300])
        #expect(outbox.bytes == 321)
        outbox.giveUp(1)
        #expect(outbox.bytes == 301 && outbox.count == 3)
        outbox.remove(at: 1)
        #expect(outbox.bytes == 301)
        outbox.remove(at: 0)
        #expect(outbox.bytes == 300)
        outbox.remove(at: 0)
        #expect(outbox.bytes == 0 && outbox.isEmpty)
    }

    @Test("Messages are handed over in order, and again after they were taken back, with the same numbers")
    mutating func order() {
        add([1, 1, 1])
        #expect(outbox.handNext(to: 1, at: .zero, firstNumber: 1)?.id.number == 1)
        #expect(outbox.handNext(to: 1, at: .zero, firstNumber: 2)?.id.number == 2)
        #expect(outbox.sentCount == 2 && outbox.hasUnsent)
        outbox.noteSettled(0, by: 1, .rejected(.outboxFull))
        outbox.noteSettled(1, by: 1, .written)
        outbox.takeBackAll()
        for _ in 0..<3 { #expect(outbox.handNext(to: 2, at: .zero, firstNumber: 3)?.payload?.bytes == [1]) }
        #expect(outbox.handNext(to: 2, at: .zero, firstNumber: 4)?.id == nil)
        #expect((0..<3).map { outbox[$0].firstNumber } == [1, 2, 3])
        // The first one was returned unsent.
        #expect((0..<3).map { outbox[$0].isRepeated } == [false, true, false])
    }

    @Test("With a store, messages are handed over as far as it has them")
    mutating func stored() {
        outbox = Outbox(OutboxConfiguration(), isStored: true)
        add([1, 1, 1, 1, 1])
        #expect(!outbox.hasUnsent && outbox.handNext(to: 1, at: .zero, firstNumber: 1) == nil)
        outbox.stored(through: MessageID(2))
        #expect(outbox.handNext(to: 1, at: .zero, firstNumber: 1)?.id.number == 1)
        #expect(outbox.hasUnsent && outbox.isUnstored(2) && !outbox.isUnstored(1))
        outbox.remove(at: 3)
        outbox.remove(at: 0)
        #expect(outbox.handNext(to: 1, at: .zero, firstNumber: 2)?.id.number == 2)
        #expect(!outbox.hasUnsent)
        outbox.stored(through: MessageID(1))
        #expect(!outbox.hasUnsent)
        // One that was removed meanwhile.
        outbox.stored(through: MessageID(4))
        #expect(outbox.handNext(to: 1, at: .zero, firstNumber: 3)?.id.number == 3)
        #expect(!outbox.hasUnsent && numbers == [2, 3, 5])
        _ = outbox.removeAll(amongOldest: 3) { $0.id.number != 3 }
        #expect(numbers == [3] && !outbox.isUnstored(0))
    }

    @Test("Whether a message is unsent follows from what the connection that has it last says")
    mutating func unsent() {
        add([1])
        #expect(outbox[0].isUnsent && outbox[0].isRemovable)
        _ = outbox.handNext(to: 1, at: .zero, firstNumber: 0)
        #expect(!outbox[0].isUnsent)
        outbox.noteSettled(0, by: 2, .rejected(.outboxFull))
        #expect(!outbox[0].isUnsent)
        outbox.noteSettled(0, by: 1, .rejected(.outboxFull))
        #expect(outbox[0].isUnsent && outbox[0].isRemovable)
    }

    @Test("A removed message ends with one outcome, and with none if its caller has one already")
    mutating func outcomes() {
        add([1, 1, 1])
        outbox.noteReported(1)
        outbox.giveUp(2)
        var actions: [SupervisorAction] = []
        for _ in 1...3 { outbox.remove(at: 0).finish(.written, &actions) }
        let finished = actions.compactMap { if case .finish(let id, .written) = $0 { id.number } else { nil } }
        #expect(finished == [1] && actions.count == 1)
    }

    @Test("Messages are found by their identifiers while others are added and removed")
    mutating func positions() {
        var expected: [UInt64] = []
        var random = RandomSource.seeded(3)
        for number in 1...2000 as ClosedRange<UInt64> {
            _ = outbox.append(MessageID(number), Payload([]), expiry: nil)
            expected.append(number)
            while expected.count > 90 || (!expected.isEmpty && random.next() % 3 == 0) {
                // Mostly the oldest one, as in use.
                let position = random.next() % 4 == 0 ? Int(random.next() % UInt64(expected.count)) : 0
                #expect(outbox.remove(at: position).id.number == expected.remove(at: position))
            }
        }
        #expect(numbers == expected)
        for (position, number) in expected.enumerated() { #expect(outbox.position(of: MessageID(number)) == position) }
        #expect(outbox.position(of: MessageID(5000)) == nil)
    }

    @Test("Messages are removed in one pass, and the others keep their order and their state")
    mutating func passes() {
        var random = RandomSource.seeded(4)
        for _ in 0..<200 {
            outbox = Outbox(OutboxConfiguration())
            add((0..<Int.random(in: 0...150, using: &random)).map { _ in 2 })
            for _ in 0..<Int.random(in: 0...outbox.count, using: &random) { outbox.remove(at: 0) }
            for _ in 0..<Int.random(in: 0...outbox.count, using: &random) {
                _ = outbox.handNext(to: 1, at: .zero, firstNumber: 0)
            }
            let (before, sent) = (numbers, outbox.sentCount)
            let oldest = Int.random(in: 0...outbox.count, using: &random)
            let gone = Set(before.prefix(oldest).filter { _ in random.next() % 3 == 0 })
            let removed = outbox.removeAll(amongOldest: oldest) { gone.contains($0.id.number) }
            #expect(removed.map(\.id.number) == before.filter(gone.contains))
            #expect(numbers == before.filter { !gone.contains($0) })
            #expect(outbox.sentCount == before.prefix(sent).count { !gone.contains($0) })
            #expect(outbox.bytes == 2 * outbox.count)
        }
    }

    @Test("The next message that is too old is the oldest one that has not ended")
    mutating func expiry() {
        func after(_ seconds: Int) -> Instant { Instant.zero.advanced(by: .seconds(seconds)) }
        for number in 1...2 as ClosedRange<UInt64> {
            _ = outbox.append(MessageID(number), Payload([]), expiry: after(Int(number)))
        }
        #expect(outbox.nextExpiry == after(1))
        outbox.giveUp(0)
        #expect(outbox.nextExpiry == after(2))
        outbox.giveUp(1)
        #expect(outbox.nextExpiry == nil)
    }

    @Test("A session that starts again forgets the numbers, and the messages that were given up")
    mutating func forgets() {
        add([1, 1, 1])
        for number in 1...2 as ClosedRange<UInt64> { _ = outbox.handNext(to: 1, at: .zero, firstNumber: number) }
        outbox.giveUp(0)
        outbox.forgetNumbers()
        #expect(numbers == [2, 3] && outbox.sentCount == 0 && outbox[0].firstNumber == 0)
    }
}
