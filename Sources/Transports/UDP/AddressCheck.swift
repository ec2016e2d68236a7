/// Decides when a client compares its local address with that of a new socket.
///
/// A socket that is connected keeps the local address that it got then. IPv6 sends from a removed address without an error, so
/// a peer that is silent causes a check as well as a failure does.
struct AddressCheck {
    /// The shortest time between two checks because of failures or silence, in nanoseconds.
    static let pause: Int64 = 1_000_000_000
    /// The time without a datagram of the peer after which the next datagram to it causes a check, in nanoseconds.
    static let silence: Int64 = 5_000_000_000

    private var lastHeard: Int64
    private var nextAt: Int64 = 0

    /// Creates the check of a socket that is new.
    init(now: Int64) {
        lastHeard = now
    }

    /// Notes that the peer has sent something.
    mutating func heard(now: Int64) {
        lastHeard = now
    }

    /// Whether the peer was silent for so long that a check is due.
    func isDue(now: Int64) -> Bool { now - lastHeard >= Self.silence }

    /// Returns whether a check may begin now, and counts it if so.
    mutating func begin(now: Int64) -> Bool {
        guard nextAt <= now else { return false }
        nextAt = now + Self.pause
        return true
    }
}
