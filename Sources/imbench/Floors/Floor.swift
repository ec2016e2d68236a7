/// The bare round trips against which transports are held. Each is what one would write in C for nothing but this, so no
/// transport that waits in the same way can be faster.
enum FloorKind: String, Sendable, Hashable, CaseIterable {
    /// Two threads that block in recv on a TCP connection over loopback.
    case tcpBlocking = "tcp-blocking"
    /// Two threads that wait in epoll for a TCP connection over loopback (in poll(2), on systems without epoll).
    case tcpEpoll = "tcp-epoll"
    /// Two threads that block in recv on UDP sockets over loopback.
    case udpBlocking = "udp-blocking"
    /// Two threads that wait in epoll for UDP sockets over loopback.
    case udpEpoll = "udp-epoll"
    /// Two threads that wake each other through eventfds: no network, no bytes, only the price of waking.
    case wakeUp = "wake-up"

    /// The most bytes it can carry; a UDP datagram over IPv4 holds 65507 (RFC 768, RFC 791).
    var maximumSize: Int {
        switch self {
        case .udpBlocking, .udpEpoll: 65_507
        case .tcpBlocking, .tcpEpoll: 1 << 24
        case .wakeUp: 8
        }
    }

    /// Sets up sockets and the answering thread for round trips of `bytes` bytes each way. The answering thread stays on
    /// `farCore`, if one is given.
    func open(bytes: Int, farCore: Int? = nil) throws(SystemFailure) -> any Floor {
        guard bytes >= 1, bytes <= maximumSize else {
            throw SystemFailure("message of \(bytes) bytes is over the limit of \(maximumSize) of \(rawValue)")
        }
        switch self {
        case .tcpBlocking: return try BlockingFloor(.stream(), bytes: bytes, farCore)
        case .tcpEpoll: return try PollingFloor(.stream(), bytes: bytes, farCore)
        case .udpBlocking: return try BlockingFloor(.datagram(), bytes: bytes, farCore)
        case .udpEpoll: return try PollingFloor(.datagram(), bytes: bytes, farCore)
        case .wakeUp: return try WakeUpFloor(farCore)
        }
    }
}

/// A floor that is set up once, measured in slices, and closed when it is released. One thread at a time may use it.
protocol Floor: AnyObject {
    /// Does round trips until the slice is used up, and records the time of each.
    func run(_ slice: FloorSlice, into histogram: inout Histogram) throws(SystemFailure)
}

/// How long a slice is: it ends after `rounds` round trips, or after the first that ends later than `deadline`.
struct FloorSlice: Sendable, Hashable {
    var rounds = Int.max
    /// On the monotonic clock, in nanoseconds.
    var deadline = Int64.max
}
