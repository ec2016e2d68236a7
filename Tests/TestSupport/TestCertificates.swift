import SocketIO
import TrialCertificates

/// The certificates of one test: an authority, and what it has issued.
package struct TestCertificates: Sendable {
    /// The certificate of the authority.
    package let authority: String
    /// For a server at `localhost` and 127.0.0.1.
    package let server: ThrowAwayAuthority.Issued
    /// For the client `ann`.
    package let client: ThrowAwayAuthority.Issued

    /// Makes them.
    package init() throws {
        let authority = try ThrowAwayAuthority("Test authority")
        self.authority = authority.certificate
        server = try authority.issue(.init("localhost", names: ["DNS:localhost", "IP:127.0.0.1"]))
        client = try authority.issue(.init("ann"))
    }
}
