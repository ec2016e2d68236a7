import Testing

@testable import TransportAPI

/// Tests which messages are sent again over a connection that loses messages.
@Suite("Retransmission in sessions")
struct RetransmissionTests {
    private var retransmission = Retransmission()
    private var numbers = SentNumbers()
    private var inFlight: Int { Int(numbers.last - numbers.acknowledged) }

    private mutating func send(_ count: UInt64) {
        numbers.sent(numbers.last + count)
        retransmission.sent(at: .zero)
    }

    private mutating func timeOut() -> Range<Int> {
        retransmission.timedOut(at: .zero, inFlight: inFlight)
    }

    private mutating func acknowledge(_ count: UInt64) throws -> Range<Int> {
        let verdict = try numbers.acknowledge(through: numbers.acknowledged + count)
        guard verdict == .new else { return 0..<0 }
        return retransmission.acknowledged(Int(count), after: nil, inFlight: inFlight)
    }

    @Test("When the timer fires, the oldest messages are sent again, and the next pause is twice as long")
    mutating func timer() {
        #expect(retransmission.deadline == nil)
        send(20)
        let first = retransmission.deadline
        #expect(first == Instant.zero.advanced(by: retransmission.roundTrip.timeout))
        #expect(timeOut() == 0..<Retransmission.mostAfterTimeout)
        #expect(retransmission.deadline == first?.advanced(by: .seconds(1)))
        for _ in 1...10 { _ = timeOut() }
        #expect(retransmission.deadline == Instant.zero.advanced(by: Retransmission.longestPause))
    }

    @Test("After each acknowledgement, twice as many messages are sent again, up to the last one that was in flight")
    mutating func recovery() throws {
        send(12)
        #expect(timeOut() == 0..<8)
        send(5)
        let once = try acknowledge(1)
        // The messages 2 to 8 were sent again. The next ones are 9 and 10.
        #expect(once == 7..<9)
        // The messages 9 and 10 were sent again. Of the next eight only 11 and 12 were in flight then.
        let more = try acknowledge(4)
        #expect(more == 5..<7)
        let nothing = try acknowledge(1)
        #expect(nothing.isEmpty)
        let last = try acknowledge(6)
        let later = try acknowledge(1)
        #expect(last.isEmpty && later.isEmpty)
    }

    @Test("An acknowledgement of nothing new repeats one message, until the timer fires or a message is acknowledged")
    mutating func prompted() throws {
        send(3)
        #expect(retransmission.prompted(inFlight: inFlight) == 0..<1)
        #expect(retransmission.prompted(inFlight: inFlight).isEmpty)
        #expect(timeOut() == 0..<3)
        #expect(retransmission.prompted(inFlight: inFlight) == 0..<1)
        _ = try acknowledge(1)
        #expect(retransmission.prompted(inFlight: inFlight) == 0..<1)
    }

    @Test("Nothing is sent again without messages in flight, or over a new connection")
    mutating func nothing() throws {
        #expect(timeOut().isEmpty)
        #expect(retransmission.prompted(inFlight: 0).isEmpty)
        send(4)
        _ = timeOut()
        retransmission.opened()
        #expect(retransmission.deadline == nil)
        let afterwards = try acknowledge(1)
        #expect(afterwards.isEmpty)
        retransmission.restart(at: .zero, inFlight: 0)
        #expect(retransmission.deadline == nil)
    }

    @Test("Acknowledgements are new, repeated or overtaken, and of no message that was not sent")
    mutating func acknowledgements() throws {
        numbers.sent(5)
        // A message that is sent again has an earlier number.
        numbers.sent(3)
        #expect(numbers.next == 6)
        #expect(try numbers.acknowledge(through: 4) == .new)
        #expect(try numbers.acknowledge(through: 4) == .repeated)
        #expect(try numbers.acknowledge(through: 2) == .overtaken)
        #expect(throws: TransportError.self) { try numbers.acknowledge(through: 6) }
        #expect(numbers.acknowledged == 4)
    }
}
