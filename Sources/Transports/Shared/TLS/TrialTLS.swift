import SocketIO
import TransportAPI

extension TransportRegistry {
    /// The transports of ``standard`` for tests and measurements on one machine. The encrypted ones need no set-up:
    /// servers without a certificate get one of an authority that exists for this process, and clients without `ca`
    /// trust it. Without OpenSSL on the machine, the encrypted transports are left out.
    package static let trial: TransportRegistry = {
        let plain = TransportRegistry.standard.transports.filter { !$0.isEncrypted }
        guard OpenSSL.shared is OpenSSL else { return TransportRegistry(plain) }
        let contexts = TLSContexts(TrialTLS())
        let security = StreamSecurity(contexts: contexts)
        let securityForHTTP = StreamSecurity(contexts: contexts, protocols: ["http/1.1"])
        let encrypted: [TransportDescriptor] = [
            .tcp(security), .webSocket(compressor: ZLib.shared, securityForHTTP), .mqtt(security),
            .mqttWebSocket(securityForHTTP),
        ]
        return TransportRegistry(plain + encrypted)
    }()
}

/// OpenSSL with certificates of an authority that exists for this process.
package struct TrialTLS: TLSProvider {
    /// The certificate and the key of servers, and the certificate of their authority, in PEM format.
    package struct Credentials: Sendable {
        /// The certificate of the authority.
        package var authority: String
        /// The certificate of a server on this machine, and its key.
        package var server: ThrowAwayAuthority.Issued
    }

    /// The credentials of this process.
    package static let credentials: Result<Credentials, ThrowAwayAuthority.Failure> = {
        do throws(ThrowAwayAuthority.Failure) {
            let authority = try ThrowAwayAuthority("Throw-away authority of one process")
            let names = ["DNS:localhost", "IP:127.0.0.1", "IP:0:0:0:0:0:0:0:1"]
            let server = try authority.issue(.init("localhost", names: names))
            return .success(Credentials(authority: authority.certificate, server: server))
        } catch {
            return .failure(error)
        }
    }()

    package var readsFiles: Bool { true }

    package func makeContext(
        _ settings: TLSSettings,
        password: (@Sendable (String) -> String?)?
    ) throws(TLSSetupError) -> any TLSContext {
        let credentials: Credentials
        switch Self.credentials {
        case .success(let made): credentials = made
        case .failure(let error): throw .busy(error.description)
        }
        var settings = settings
        switch settings.side {
        case .server where settings.certificate == nil:
            settings.certificate = TLSFile(credentials.server.certificate)
            settings.key = TLSFile(credentials.server.key)
        case .client where settings.authorities == nil && settings.verifiesServer:
            settings.authorities = TLSFile(credentials.authority)
        default: break
        }
        return try OpenSSL.shared.makeContext(settings, password: password)
    }
}
