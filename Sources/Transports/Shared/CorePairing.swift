import Protocols
import TransportAPI

/// The two cores of one connection, to join them in memory without a driver and without sockets.
package struct CorePairing {
    /// Reads an endpoint and returns a function that makes the two cores of each connection.
    package typealias Make =
        @Sendable (Endpoint) throws(TransportError) -> @Sendable () throws(TransportError) -> CorePairing

    /// The client's core.
    package var client: any PackageCore
    /// The server's core.
    package var server: any PackageCore
    /// Whether the client's core has been started already, because the server was made from its first bytes.
    package var isClientStarted = false
    /// Bytes that the client has sent to the server already.
    package var sent: [UInt8] = []

    /// Creates a pair.
    package init(client: any PackageCore, server: any PackageCore) {
        self.client = client
        self.server = server
    }
}
