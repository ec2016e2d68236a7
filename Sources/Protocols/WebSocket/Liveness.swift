import TransportAPI

/// Pings and pongs (RFC 6455, sections 5.5.2 and 5.5.3): counts this side's pings and their answers, and stores the
/// pong that is not written yet.
///
/// The pings of this side carry numbers. A pong with number n also answers all pings before it, because the peer may
/// answer only the latest of several. Unsolicited and repeated pongs are ignored.
struct Liveness: Sendable, Hashable {
    /// If the peer has left this many bytes of output unread, pongs are delayed, and only the latest is stored.
    static let outputBound = 64 << 10
    /// How often a delayed pong is tried again.
    static let retryInterval: Duration = .milliseconds(100)

    private var sent: UInt64 = 0
    private var answered: UInt64 = 0
    private var reported: UInt64 = 0

    /// The body of the delayed pong.
    private(set) var delayedPong: [UInt8]?
    /// When to try to write the delayed pong again.
    private(set) var pongDue: Instant?

    /// Returns the body of the next ping.
    mutating func nextPing() -> [UInt8] {
        sent &+= 1
        return withUnsafeBytes(of: sent.bigEndian) { Array($0) }
    }

    /// Counts the ping that a pong answers, and all before it. Returns `false` if the pong answers no pending ping.
    mutating func noteAnswer(_ payload: [UInt8]) -> Bool {
        guard payload.count == 8 else { return false }
        let number = payload.reduce(0) { $0 << 8 | UInt64($1) }
        guard number > answered, number <= sent else { return false }
        answered = number
        return true
    }

    /// Returns whether there is another answer to report, and marks it as reported.
    @inline(__always)
    mutating func takeAnswer() -> Bool {
        guard reported < answered else { return false }
        reported &+= 1
        return true
    }

    mutating func delayPong(_ payload: [UInt8], now: Instant) {
        delayedPong = payload
        pongDue = now.advanced(by: Self.retryInterval)
    }

    mutating func dropDelayedPong() {
        delayedPong = nil
        pongDue = nil
    }
}
