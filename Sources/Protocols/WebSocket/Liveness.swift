import TransportAPI

/// Pings and pongs (RFC 6455, sections 5.5.2 and 5.5.3): which of our pings were answered, and which pong we still owe.
///
/// Our pings carry numbers. A pong that answers number n answers all before it too, since the peer may answer only the
/// latest of several; pongs that nobody asked for, or that repeat, are ignored.
struct Liveness: Sendable, Hashable {
    /// Above this many bytes of output that the peer has not read, pongs wait, and only the latest is kept.
    static let outputBound = 64 << 10
    /// When to look again whether there is room.
    static let retryInterval: Duration = .milliseconds(100)

    private var sent: UInt64 = 0
    private var answered: UInt64 = 0
    private var reported: UInt64 = 0

    /// The body of the pong that waits for room.
    private(set) var delayedPong: [UInt8]?
    /// When to try again to write it.
    private(set) var pongDue: Instant?

    /// The body of our next ping.
    mutating func nextPing() -> [UInt8] {
        sent &+= 1
        return withUnsafeBytes(of: sent.bigEndian) { Array($0) }
    }

    /// A pong has arrived; whether it answers a ping that was not answered yet.
    mutating func noteAnswer(_ payload: [UInt8]) -> Bool {
        guard payload.count == 8 else { return false }
        let number = payload.reduce(0) { $0 << 8 | UInt64($1) }
        guard number > answered, number <= sent else { return false }
        answered = number
        return true
    }

    /// Whether there is one more answer to report, counted off.
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
