import CSocketIO

/// OpenSSL for tests and measurements without set-up. A server without a certificate gets one of an authority that exists
/// for this process and its child processes. Clients trust that authority in addition to others.
///
/// It takes the place of plain OpenSSL in processes that have the environment variable ``variable``, which the tests and
/// imbench set. It does not help an attacker, because the key of the authority is in no file.
package struct TrialTLS: TLSProvider {
    /// The variable. Its value is any text, or the credentials of the parent process.
    package static let variable = "IM_TRIAL_TLS"

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

        /// Reads the credentials of the parent process. Each text in PEM format ends with one line of END.
        fileprivate init?(_ text: String) {
            var parts = [""]
            for line in text.split(separator: "\n") {
                parts[parts.count - 1] += line + "\n"
                if line.hasPrefix("-----END ") { parts.append("") }
            }
            guard parts.count == 4 else { return nil }
            (authority, certificate, key) = (parts[0], parts[1], parts[2])
        }

        private init(authority: String, certificate: String, key: String) {
            (self.authority, self.certificate, self.key) = (authority, certificate, key)
        }
    }

    /// Whether this process has the variable.
    package static let isOn = getenv(variable) != nil

    /// The credentials of this process.
    package static let credentials: Result<Credentials, ThrowAwayAuthority.Failure> = {
        if let inherited = getenv(variable).flatMap({ Credentials(String(cString: $0)) }) { return .success(inherited) }
        do throws(ThrowAwayAuthority.Failure) {
            return .success(try .make())
        } catch {
            return .failure(error)
        }
    }()

    /// The entry of the environment that gives a child process the same credentials; `nil` without trial certificates.
    package static var environmentEntry: String? {
        guard isOn, let made = try? credentials.get() else { return nil }
        return "\(variable)=\(made.authority)\(made.certificate)\(made.key)"
    }

    /// Creates the library.
    package init() {}

    package var readsFiles: Bool { true }

    package func makeContext(
        _ settings: TLSSettings,
        password: (@Sendable (String) -> String?)?
    ) throws(TLSSetupError) -> any TLSContext {
        guard OpenSSL.shared is OpenSSL else { return try OpenSSL.shared.makeContext(settings, password: password) }
        let credentials: Credentials
        switch Self.credentials {
        case .success(let made): credentials = made
        case .failure(let error): throw .busy(error.description)
        }
        var settings = settings
        if settings.side == .client {
            settings.furtherAuthority = credentials.authority
        } else if settings.certificate == nil {
            settings.certificate = TLSFile(credentials.certificate)
            settings.key = TLSFile(credentials.key)
        }
        return try OpenSSL.shared.makeContext(settings, password: password)
    }
}
