import Testing

@testable import TransportAPI

/// Tests the messages that wait for room in the outbox.
@Suite("Messages that wait for room")
struct WaitingMessagesTests {
    private func waiting(_ policy: OutboxConfiguration.Policy = .wait) -> WaitingMessages {
        var configuration = OutboxConfiguration()
        configuration.maximumCount = 3
        configuration.maximumBytes = 100
        configuration.whenFull = policy
        return WaitingMessages(configuration)
    }

    private func payload(_ size: Int) -> Payload { Payload([UInt8](repeating: 1, count: size)) }

    @Test("Only with the policy that waits do messages wait", arguments: OutboxConfiguration.Policy.allCases)
    func policies(policy: OutboxConfiguration.Policy) {
        var waiting = waiting(policy)
        #expect(waiting.append(MessageID(1), payload(1), expiry: nil) == (policy == .wait))
        #expect(waiting.isEmpty == (policy != .wait))
    }

    @Test("As many wait as fit into the outbox, in number and in bytes")
    func limits() {
        var many = waiting()
        for number in 1...3 as ClosedRange<UInt64> {
            #expect(many.append(MessageID(number), payload(1), expiry: nil) == true)
        }
        #expect(many.append(MessageID(4), payload(1), expiry: nil) == false)
        #expect(many.count == 3 && many.bytes == 3)
        var large = waiting()
        #expect(large.append(MessageID(1), payload(60), expiry: nil) == true)
        #expect(large.append(MessageID(2), payload(41), expiry: nil) == false)
        #expect(large.append(MessageID(3), payload(40), expiry: nil) == true)
        #expect(large.bytes == 100)
    }

    @Test("Each removal frees its bytes, and a message is removed once")
    func removals() {
        var waiting = waiting()
        for number in 1...3 as ClosedRange<UInt64> {
            _ = waiting.append(MessageID(number), payload(Int(number)), expiry: nil)
        }
        let isRemoved = waiting.remove(MessageID(2))
        let isRemovedAgain = waiting.remove(MessageID(2))
        #expect(isRemoved && !isRemovedAgain && waiting.bytes == 4)
        waiting.removeFirst()
        #expect(waiting.first?.id == MessageID(3) && waiting.bytes == 3)
        let all = waiting.removeAll()
        #expect(all == [MessageID(3)] && waiting.bytes == 0 && waiting.isEmpty)
    }

    @Test("Messages that are too old are removed, the oldest first")
    func expiry() {
        func after(_ seconds: Int) -> Instant { Instant.zero.advanced(by: .seconds(seconds)) }
        var waiting = waiting()
        for number in 1...2 { _ = waiting.append(MessageID(UInt64(number)), payload(1), expiry: after(number)) }
        #expect(waiting.nextExpiry == after(1))
        #expect(waiting.removeExpired(at: .zero) == nil)
        let expired = waiting.removeExpired(at: after(1))
        let other = waiting.removeExpired(at: after(1))
        #expect(expired == MessageID(1) && other == nil && waiting.nextExpiry == after(2))
    }
}
