import CSocketIO

/// Reserves a port of an address for this process as long as the instance exists. The system assigns the port to no
/// other process, whether a server uses it or not.
///
/// While no server uses the port, connections to it are refused, and datagrams are answered by ICMP. A
/// ``ListeningSocket`` or a bound ``DatagramSocket`` of this process may use the port, one at a time and repeatedly.
/// Another process may use it too if it requests this port with address reuse.
package final class ReservedPort: Sendable {
    private struct Key: Hashable, Sendable {
        let address: SocketAddress
        let isDatagram: Bool
    }

    /// All ports that are reserved now.
    private static let kept = Locked<Set<Key>>([])

    private let descriptor: Descriptor
    private let key: Key
    /// The reserved address.
    package var address: SocketAddress { key.address }
    /// The reserved port.
    package var port: UInt16 { address.port }

    /// Reserves a port that the system chooses.
    ///
    /// - Parameter host: the address, as a number.
    package init(isDatagram: Bool, host: String = "127.0.0.1") throws(SystemError) {
        guard let any = SocketAddress(numeric: host, port: 0) else { throw SystemError("bind", EADDRNOTAVAIL) }
        let type = isDatagram ? Platform.datagramSocket : Platform.streamSocket
        let socket = try Platform.socket(family: any.family, type: type)
        let raw = socket.raw
        // A stream socket that is bound and does not listen refuses connections. Address reuse must be set before it is
        // bound.
        if !isDatagram { Self.share(raw, true) }
        guard any.withPointer({ csocketio_bind(raw, $0, $1) }) == 0 else { throw SystemError("bind") }
        guard let local = SocketAddress.filled(by: { csocketio_getsockname(raw, $0, $1) }) else {
            throw SystemError("getsockname")
        }
        if isDatagram {
            // Otherwise, the system could have chosen a port that another socket shares.
            guard Self.silence(raw, at: local) else { throw SystemError("connect") }
        }
        key = Key(address: local, isDatagram: isDatagram)
        descriptor = consume socket
        Self.kept.withLock { _ = $0.insert(key) }
    }

    deinit {
        Self.kept.withLock { _ = $0.remove(key) }
    }

    /// Makes a datagram socket that is bound to `local` receive nothing more, and lets other sockets be bound to that
    /// address.
    ///
    /// A connected socket receives datagrams from its peer only. The peer of this one is the socket itself, which sends
    /// none.
    static func silence(_ raw: Int32, at local: SocketAddress) -> Bool {
        guard local.withPointer({ csocketio_connect(raw, $0, $1) }) == 0 else { return false }
        share(raw, true)
        return true
    }

    /// Binds a socket of this process. The port may be reserved.
    static func bind(_ raw: Int32, to address: SocketAddress, isDatagram: Bool) throws(SystemError) {
        let isKept = kept.withLock { $0.contains(Key(address: address, isDatagram: isDatagram)) }
        if isKept { share(raw, true) }
        guard address.withPointer({ csocketio_bind(raw, $0, $1) }) == 0 else { throw SystemError("bind") }
        // Several sockets may be bound to a stream port, of which one listens. Only one datagram socket may be bound.
        if isKept, isDatagram { share(raw, false) }
    }

    private static func share(_ raw: Int32, _ on: Bool) {
        #if os(Linux)
        Platform.setOption(raw, SOL_SOCKET, SO_REUSEADDR, on ? 1 : 0)
        #else
        Platform.setOption(raw, SOL_SOCKET, SO_REUSEPORT, on ? 1 : 0)
        #endif
    }
}
