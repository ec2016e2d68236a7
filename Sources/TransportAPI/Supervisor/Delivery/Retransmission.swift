/// Decides which messages of a session are sent again over a connection that loses messages, and when.
///
/// It counts messages and not their numbers, of which some can be left out.
struct Retransmission: Sendable {
    /// The repetition of the messages that were in flight when one of them seemed to be lost.
    private struct Recovery: Sendable {
        /// The number of messages that are acknowledged once all are that were in flight then.
        let end: UInt64
        /// The number of messages that were acknowledged or sent again.
        var sentAgain: UInt64
        /// Whether an acknowledgement of nothing new was the reason, and since then neither the timer has fired nor a
        /// message was acknowledged.
        var isPrompted: Bool
    }

    /// The longest pause before the oldest messages in flight are sent again. The 60 s of RFC 6298, section 2.5, protect a
    /// path that carries nothing. Here the keepalive ends the connection over such a path, and over one that works, some
    /// losses in a row must not stop a conversation for minutes.
    static let longestPause = Duration.seconds(10)
    /// How many messages are sent again when the timer fires. The peer keeps early messages, so it most likely lacks the
    /// oldest few.
    static let mostAfterTimeout = 8

    var roundTrip: RoundTripTime
    /// The time at which the oldest messages in flight are sent again.
    private(set) var deadline: Instant?
    private var recovery: Recovery?
    /// The number of messages that were acknowledged.
    private var acknowledged: UInt64 = 0

    init() {
        var bounds = RoundTripTime.Bounds()
        bounds.maximum = Self.longestPause
        roundTrip = RoundTripTime(bounds)
    }

    /// Records that a connection is attached, over which nothing was sent yet.
    mutating func opened() {
        deadline = nil
        recovery = nil
        roundTrip.answered()
    }

    /// Stops the timer, because there is no connection, or no message is sent any more.
    mutating func stop() {
        deadline = nil
    }

    /// Ends the recovery, because the peer has begun another session.
    mutating func restarted() {
        recovery = nil
    }

    /// Records that a message was sent for the first time over the connection.
    mutating func sent(at now: Instant) {
        if deadline == nil { deadline = now.advanced(by: roundTrip.timeout) }
    }

    /// The timer has fired.
    ///
    /// - Parameters:
    ///   - now: The current time.
    ///   - inFlight: The number of messages in flight.
    /// - Returns: The positions of the messages that are sent again, counted from the oldest in flight.
    mutating func timedOut(at now: Instant, inFlight: Int) -> Range<Int> {
        roundTrip.timedOut()
        deadline = now.advanced(by: roundTrip.timeout)
        guard inFlight > 0 else { return 0..<0 }
        recovery = Recovery(end: acknowledged + UInt64(inFlight), sentAgain: acknowledged, isPrompted: false)
        return next(Self.mostAfterTimeout, inFlight: inFlight)
    }

    /// The peer has acknowledged nothing new. So it lacks the oldest message in flight, which was lost or overtaken, or
    /// which it has dropped because it had no room. It may have room now, so the message is sent again without waiting
    /// for the timer: once, until the timer fires or a message is acknowledged.
    ///
    /// - Returns: The positions of the messages that are sent again.
    mutating func prompted(inFlight: Int) -> Range<Int> {
        guard recovery?.isPrompted != true else { return 0..<0 }
        recovery = Recovery(end: acknowledged + UInt64(inFlight), sentAgain: acknowledged, isPrompted: true)
        return next(1, inFlight: inFlight)
    }

    /// The peer has acknowledged `count` messages. If messages were sent again, the rest can arrive too. For each
    /// acknowledged message two are sent, without waiting for the timer (the slow start after a timeout of RFC 5681,
    /// section 3.1).
    ///
    /// - Parameters:
    ///   - count: The number of messages that are acknowledged for the first time.
    ///   - sample: The time since the last of them was sent; `nil` if it says nothing about the round trip.
    ///   - inFlight: The number of messages in flight.
    /// - Returns: The positions of the messages that are sent again.
    mutating func acknowledged(_ count: Int, after sample: Duration?, inFlight: Int) -> Range<Int> {
        acknowledged += UInt64(count)
        if let sample { roundTrip.measured(sample) } else { roundTrip.answered() }
        guard let recovery else { return 0..<0 }
        guard acknowledged < recovery.end else {
            self.recovery = nil
            return 0..<0
        }
        self.recovery?.sentAgain = max(acknowledged, recovery.sentAgain)
        self.recovery?.isPrompted = false
        return next(2 * min(count, 32), inFlight: inFlight)
    }

    /// Starts the timer again after an acknowledgement, if messages are in flight.
    mutating func restart(at now: Instant, inFlight: Int) {
        deadline = inFlight > 0 ? now.advanced(by: roundTrip.timeout) : nil
    }

    /// Returns the positions of the next messages of the recovery, and counts them as sent again.
    private mutating func next(_ most: Int, inFlight: Int) -> Range<Int> {
        guard let recovery else { return 0..<0 }
        let first = Int(clamping: recovery.sentAgain - acknowledged)
        let end = min(first + most, inFlight, Int(clamping: recovery.end - acknowledged))
        guard first < end else { return 0..<0 }
        self.recovery?.sentAgain += UInt64(end - first)
        return first..<end
    }
}
