import CSocketIO

/// Keeps a port of 127.0.0.1 for this process, from its making until it is let go: the system gives it to nobody else, whether
/// somebody serves at it or not. While nobody does, who connects there is refused, and datagrams are answered by ICMP as if
/// nobody had the port. A ``ListeningSocket`` or a bound ``DatagramSocket`` of this process may take the port, one at a time
/// and as often as is wanted; so may another process, if it asks for this very port as one that may be in use.
package final class ReservedPort: Sendable {
    private struct Key: Hashable, Sendable {
        let address: SocketAddress
        let isDatagram: Bool
    }

    /// All that are kept now.
    private static let kept = Locked<Set<Key>>([])

    private let descriptor: Descriptor
    private let key: Key
    /// Where it is.
    package var address: SocketAddress { key.address }
    /// The port.
    package var port: UInt16 { address.port }

    /// Takes a port that the system chooses.
    package init(isDatagram: Bool) throws(SystemError) {
        guard let any = SocketAddress(numeric: "127.0.0.1", port: 0) else { throw SystemError("bind", EADDRNOTAVAIL) }
        let type = isDatagram ? Platform.datagramSocket : Platform.streamSocket
        let socket = try Platform.socket(family: any.family, type: type)
        let raw = socket.raw
        // A stream socket that is bound and does not listen refuses. It must be shared before it is bound.
        if !isDatagram { Self.share(raw, true) }
        guard any.withPointer({ csocketio_bind(raw, $0, $1) }) == 0 else { throw SystemError("bind") }
        guard let local = SocketAddress.filled(by: { csocketio_getsockname(raw, $0, $1) }) else {
            throw SystemError("getsockname")
        }
        if isDatagram {
            // A port that is shared already might have been chosen for it, too.
            guard Self.silence(raw, at: local) else { throw SystemError("connect") }
        }
        key = Key(address: local, isDatagram: isDatagram)
        descriptor = consume socket
        Self.kept.withLock { _ = $0.insert(key) }
    }

    deinit {
        Self.kept.withLock { _ = $0.remove(key) }
    }

    /// Lets a datagram socket that is bound to `local` take nothing more, and others be bound there too.
    ///
    /// One that is connected takes datagrams from its peer alone, and this one's peer is itself, which sends none.
    static func silence(_ raw: Int32, at local: SocketAddress) -> Bool {
        guard local.withPointer({ csocketio_connect(raw, $0, $1) }) == 0 else { return false }
        share(raw, true)
        return true
    }

    /// Binds a socket of this process, also to a port that is kept.
    static func bind(_ raw: Int32, to address: SocketAddress, isDatagram: Bool) throws(SystemError) {
        let isKept = kept.withLock { $0.contains(Key(address: address, isDatagram: isDatagram)) }
        if isKept { share(raw, true) }
        guard address.withPointer({ csocketio_bind(raw, $0, $1) }) == 0 else { throw SystemError("bind") }
        // Several may be bound to a stream port, and one listens; of datagram sockets only one is to be bound.
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
