import Testing
import TransportAPI

@testable import Measuring
@testable import imbench

@Suite struct SequenceTrackerTests {
    @Test("The accounts of messages answered in order have no losses")
    func inOrder() {
        var tracker = SequenceTracker(window: 16)
        for number in 0..<100 as Range<UInt64> {
            #expect(tracker.send() == number)
            #expect(tracker.isOutstanding(number))
            #expect(tracker.answer(number) == .first(late: false))
        }
        #expect(tracker.accounts == DeliveryCounts(sent: 100, acked: 100))
        #expect(tracker.accounts.closes)
    }

    @Test("Duplicates and reorderings have separate counts")
    func duplicatesAndReorderings() {
        var tracker = SequenceTracker(window: 16)
        for _ in 0..<4 { _ = tracker.send() }
        _ = tracker.answer(1)
        _ = tracker.answer(0)
        #expect(tracker.answer(0) == .duplicate)
        _ = tracker.answer(3)
        #expect(tracker.accounts == DeliveryCounts(sent: 4, acked: 3, inFlight: 1, duplicated: 1, reordered: 1))
        #expect(tracker.accounts.closes)
    }

    @Test("A message without an answer in time is lost, until its answer arrives")
    func lateAnswer() {
        var tracker = SequenceTracker(window: 16)
        _ = tracker.send()
        tracker.lose(0)
        tracker.lose(0)
        #expect(tracker.accounts == DeliveryCounts(sent: 1, lost: 1))
        #expect(tracker.answer(0) == .first(late: true))
        #expect(tracker.accounts == DeliveryCounts(sent: 1, acked: 1))
    }

    @Test("A message that leaves the window unanswered is lost, and its answer is unexpected")
    func window() {
        var tracker = SequenceTracker(window: 16)
        for _ in 0..<17 { _ = tracker.send() }
        #expect(tracker.accounts == DeliveryCounts(sent: 17, lost: 1, inFlight: 16))
        #expect(tracker.answer(0) == .unexpected)
        #expect(tracker.accounts.closes)
    }

    @Test("Answers to messages that were never sent are unexpected", arguments: [0, 1, .max] as [UInt64])
    func neverSent(_ number: UInt64) {
        var tracker = SequenceTracker(window: 16)
        #expect(tracker.answer(number) == .unexpected)
        tracker.lose(number)
        #expect(tracker.accounts == DeliveryCounts(unexpected: 1))
    }

    @Test("The accounts close after any events in any order")
    func random() {
        var generator = RandomSource.seeded(5)
        var tracker = SequenceTracker(window: 64)
        for _ in 0..<100_000 {
            let number = UInt64(max(0, tracker.accounts.sent - Int.random(in: -2...80, using: &generator)))
            switch Int.random(in: 0...3, using: &generator) {
            case 0, 1: _ = tracker.send()
            case 2: _ = tracker.answer(number)
            default: tracker.lose(number)
            }
        }
        #expect(tracker.accounts.closes)
        #expect(tracker.accounts.sent > 40_000)
    }

    @Test("Accounts whose counts do not add up do not close")
    func notClosing() {
        #expect(!DeliveryCounts(sent: 3, acked: 1, lost: 1).closes)
        #expect(!DeliveryCounts(sent: 1, acked: 2, lost: -1).closes)
        #expect((DeliveryCounts(sent: 1, acked: 1) + DeliveryCounts(sent: 2, lost: 1, inFlight: 1)).closes)
    }
}
