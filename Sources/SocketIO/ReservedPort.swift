/// Keeps a port while nobody serves at it, so that the system gives it to nobody else: who connects there is refused, and
/// datagrams are answered by ICMP as if nobody had the port. Given up when it is let go.
public final class ReservedPort: Sendable {
    private let descriptor: Descriptor
    /// The port.
    public let port: UInt16

    /// Takes the port of `address`, which must be free; 0 lets the system choose one.
    public init(_ address: SocketAddress, isDatagram: Bool) throws(SystemError) {
        let type = isDatagram ? Platform.datagramSocket : Platform.streamSocket
        let socket = try Platform.socket(family: address.family, type: type)
        let raw = socket.raw
        // A stream socket that is bound and does not listen refuses; connections that were accepted here may linger.
        if !isDatagram { Platform.setOption(raw, SOL_SOCKET, SO_REUSEADDR, 1) }
        guard address.withPointer({ bind(raw, $0, $1) }) == 0 else { throw SystemError("bind") }
        guard let local = SocketAddress.filled(by: { getsockname(raw, $0, $1) }) else {
            throw SystemError("getsockname")
        }
        port = local.port
        // A datagram socket that is connected takes datagrams from its peer alone; from itself it sends none.
        if isDatagram {
            guard local.withPointer({ connect(raw, $0, $1) }) == 0 else { throw SystemError("connect") }
        }
        descriptor = consume socket
    }
}
