import SocketIO

/// OpenSSL for tests and measurements without set-up. A server without a certificate gets one of an authority that exists
/// for this process. Clients trust that authority in addition to others.
///
/// Only imbench and tests link this module, and they choose it in code: ``/Transports/TransportRegistry/trial``. The key
/// of the authority is in no file.
package struct TrialTLS: TLSProvider {
    /// The address of servers in the test networks of imbench, in the range for measurements of networks (RFC 2544, appendix
    /// C.2.2).
    package static let labAddress = "198.18.0.2"

    /// The certificate and the key of servers, and the certificate of their authority, in PEM format.
    package struct Credentials: Sendable {
        /// The certificate of the authority.
        package var authority: String
        /// The certificate of a server on this machine.
        package var certificate: String
        /// Its private key.
        package var key: String

        fileprivate static func make() throws(ThrowAwayAuthority.Failure) -> Credentials {
            // OpenSSL finds an authority by its name, so each one has a name of its own.
            let number = UInt64.random(in: 0 ... .max)
            let authority = try ThrowAwayAuthority("Throw-away authority \(String(number, radix: 36))")
            let names = ["DNS:localhost", "IP:127.0.0.1", "IP:0:0:0:0:0:0:0:1", "IP:\(labAddress)"]
            let server = try authority.issue(.init("localhost", names: names))
            return Credentials(authority: authority.certificate, certificate: server.certificate, key: server.key)
        }
    }

    /// The credentials of this process.
    package static let credentials: Result<Credentials, ThrowAwayAuthority.Failure> = {
        do throws(ThrowAwayAuthority.Failure) {
            return .success(try .make())
        } catch {
            return .failure(error)
        }
    }()

    /// The authority of another process, whose servers this process connects to; `nil` for its own.
    private let authority: String?

    /// Creates the provider.
    ///
    /// - Parameter authority: the certificate that clients trust (PEM), if the servers belong to another process.
    package init(trusting authority: String? = nil) {
        self.authority = authority
    }

    package var readsFiles: Bool { true }

    package func makeContext(
        _ settings: TLSSettings,
        password: (@Sendable (String) -> String?)?
    ) throws(TLSSetupError) -> any TLSContext {
        guard OpenSSL.shared is OpenSSL else { return try OpenSSL.shared.makeContext(settings, password: password) }
        var settings = settings
        if settings.side == .server, settings.certificate == nil {
            let credentials = try Self.made()
            (settings.certificate, settings.key) = (TLSFile(credentials.certificate), TLSFile(credentials.key))
        }
        let context = try OpenSSL.shared.makeContext(settings, password: password)
        if settings.side == .client, let context = context as? OpenSSLContext {
            let trusted = if let authority { authority } else { try Self.made().authority }
            try context.trust(TLSFile(trusted))
        }
        return context
    }

    private static func made() throws(TLSSetupError) -> Credentials {
        do throws(ThrowAwayAuthority.Failure) {
            return try credentials.get()
        } catch {
            throw .busy(error.description)
        }
    }
}
