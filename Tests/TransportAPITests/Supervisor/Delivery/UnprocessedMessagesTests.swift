import Testing

@testable import TransportAPI

/// Tests the acknowledgements that an app gives, and the order in which they are sent to the peer.
@Suite("Messages that were not processed")
struct UnprocessedMessagesTests {
    private var messages = UnprocessedMessages()

    private mutating func add(_ sequences: ClosedRange<UInt64>) -> [UInt64] {
        var keys: [UInt64] = []
        for sequence in sequences { keys.append(messages.add(sequence: sequence, mark: nil, at: .zero)) }
        return keys
    }

    private mutating func settle(_ key: UInt64, isAbandoned: Bool = false) -> Int? {
        messages.settle(key, isAbandoned: isAbandoned)?.released
    }

    @Test("Acknowledgements are released in the order of receipt, whatever the order in which the app gives them")
    mutating func order() {
        let keys = add(1...4)
        var released: [Int?] = []
        for index in [2, 1, 0, 3] { released.append(settle(keys[index])) }
        #expect(released == [0, 0, 3, 1])
        #expect(messages.count == 0 && messages.firstSequence == nil)
    }

    @Test("A message is acknowledged once, and not after it was removed")
    mutating func once() {
        let keys = add(1...2)
        let first = settle(keys[1])
        let again = settle(keys[1])
        messages.removeAll()
        let late = settle(keys[0])
        let key = messages.add(sequence: 1, mark: nil, at: .zero)
        let next = settle(key)
        #expect(first == 0 && again == nil && late == nil && next == 1)
    }

    @Test("An abandoned message holds back those behind it until it is delivered again and acknowledged")
    mutating func abandoned() {
        let keys = add(1...3)
        let steps = [settle(keys[0], isAbandoned: true), settle(keys[1])]
        #expect(steps == [0, 0] && messages.firstSequence == 1)
        let others = [2, 3, 4].map { (number: UInt64) in messages.giveAgain(number, at: .zero) }
        #expect(others == [nil, nil, nil])
        let again = messages.giveAgain(1, at: .zero)
        #expect(again == keys[0])
        let released = settle(keys[0])
        #expect(released == 2 && messages.firstSequence == 3)
    }

    @Test("Messages that the app did not receive are counted in their order")
    mutating func leftOut() {
        let first = messages.add(sequence: 0, mark: nil, at: .zero)
        let steps = [messages.addProcessed(at: .zero), settle(first), messages.addProcessed(at: .zero)]
        #expect(steps == [0, 2, 1])
    }

    @Test("A reminder is due when the oldest message has waited for the interval, and after each further interval")
    mutating func reminders() {
        func time(_ seconds: Int) -> Instant { Instant.zero.advanced(by: .seconds(seconds)) }
        let interval = Duration.seconds(30)
        #expect(messages.reminder(every: interval) == nil)
        let first = messages.add(sequence: 1, mark: nil, at: time(1))
        let second = messages.add(sequence: 2, mark: nil, at: time(20))
        #expect(messages.reminder(every: interval) == time(31))
        let early = messages.remind(at: time(30), every: interval)
        #expect(early == nil)
        let report = messages.remind(at: time(31), every: interval)
        #expect(report == UnacknowledgedMessages(count: 2, oldest: .seconds(30), isAbandoned: false))
        #expect(messages.reminder(every: interval) == time(61))
        _ = settle(first)
        #expect(messages.reminder(every: interval) == time(61))
        _ = settle(second, isAbandoned: true)
        let next = messages.remind(at: time(61), every: interval)
        #expect(next == UnacknowledgedMessages(count: 1, oldest: .seconds(41), isAbandoned: true))
        _ = messages.giveAgain(2, at: time(70))
        #expect(messages.reminder(every: interval) == time(100))
        _ = settle(second)
        #expect(messages.reminder(every: interval) == nil)
    }

    @Test("Many messages that pass leave nothing stored")
    mutating func many() {
        var released = 0
        for _ in 0..<10_000 {
            let keys = add(1...3)
            for key in keys.reversed() { released += settle(key) ?? 0 }
        }
        #expect(released == 30_000 && messages.count == 0)
    }
}
