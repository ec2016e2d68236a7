import TransportAPI

/// Pings and pongs (RFC 6455, sections 5.5.2 and 5.5.3): numbers this side's pings, and stores the pong that is not written
/// yet.
///
/// The payload of a ping is its number. A pong also answers all pings before it, because the peer may answer only the
/// latest of several. Unsolicited pongs are ignored.
struct Liveness: Sendable, Hashable {
    /// If the peer has left this many bytes of output unread, pongs are delayed, and only the latest is stored.
    static let outputBound = 64 << 10
    /// How often a delayed pong is tried again.
    static let retryInterval: Duration = .milliseconds(100)

    /// The number of the last ping.
    private(set) var lastPing: UInt64 = 0

    /// The body of the delayed pong.
    private(set) var delayedPong: [UInt8]?
    /// When to try to write the delayed pong again.
    private(set) var pongDue: Instant?

    /// Returns the body of the next ping.
    mutating func nextPing() -> [UInt8] {
        lastPing &+= 1
        return withUnsafeBytes(of: lastPing.bigEndian) { Array($0) }
    }

    /// Returns the number of the ping that a pong answers, or `nil` if it answers none.
    func ping(answeredBy payload: [UInt8]) -> UInt64? {
        guard payload.count == 8 else { return nil }
        let number = payload.reduce(0) { $0 << 8 | UInt64($1) }
        return number > 0 && number <= lastPing ? number : nil
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
