import SocketIO

/// A client of a server that has not sent anything yet.
package struct AcceptedClient: Sendable {
    /// The client's address; `nil` if the system does not tell, or without a socket.
    package let address: SocketAddress?
    /// Whether the client is on this machine: its address is a loopback address, or the one at which it has reached the
    /// server. The packets of a program to another address of its own machine come from that same address.
    package let isLocal: Bool

    init() {
        address = nil
        isLocal = false
    }

    init(_ stream: StreamSocket) {
        address = stream.peer
        isLocal = stream.isPeerLocal
    }
}
