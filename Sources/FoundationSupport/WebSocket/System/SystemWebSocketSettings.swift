import Primitives
import Protocols
import SocketIO
import TransportAPI
import Transports

/// What speaks the WebSocket of a connection.
enum WebSocketEngine: String, Sendable, CaseIterable {
    /// The system, by `URLSessionWebSocketTask`.
    case system
    /// This package, over OpenSSL.
    case openssl

    /// The one of a URL that names none: the system's on an Apple system without OpenSSL, otherwise that of this package.
    static let standard: WebSocketEngine = {
        #if canImport(Darwin)
        OpenSSL.shared is MissingTLS ? .system : .openssl
        #else
        .openssl
        #endif
    }()
}

/// The settings of a client whose WebSocket the system speaks.
struct SystemWebSocketSettings: Sendable {
    var handshake = HandshakeSettings()
    var configuration = WebSocketConfiguration()
    var limits = ConnectionLimits()
    var pins: [[UInt8]] = []
    var authorities: TLSFile?
    var minimumVersion = TLSSettings.Version.tls12
    var verifiesServer = true
    /// Whether the server may get the client's certificate.
    var presentsIdentity = true

    /// The settings of `ws` or of `wss`.
    static func list(isEncrypted: Bool) -> SettingList<SystemWebSocketSettings> {
        var list = SettingList(SystemWebSocketSettings())
        list.append(HandshakeSettings.list, at: \.handshake)
        list.append(ConnectionLimits.settings(keepalive: .seconds(30)), at: \.limits)
        list = list.adding([
            .init(
                "redirects",
                .integer(0...20),
                \.configuration.redirects,
                "the most redirects in a row that are followed"
            ),
            .init(
                "subprotocol",
                each: .text("a token"),
                \.configuration.subprotocols,
                "a subprotocol, the preferred one first; may be repeated"
            ),
            .maximumMessageSize(\.configuration.maximumMessageSize, atMost: WebSocketConfiguration.largestMessage),
        ])
        guard isEncrypted else { return list }
        return list.adding([
            .init("pin", each: .pin, \.pins, "a public key that must be in the server's chain; may be repeated"),
            .init(
                "ca",
                SettingFormat.file("a file, or a text in PEM format").orAbsent("those of the system"),
                \.authorities,
                "the authorities that are trusted"
            ),
            .init("min-tls", .word, \.minimumVersion, "the oldest TLS version that is accepted"),
            .init(
                "dangerously-trust-any-certificate",
                SettingFormat.flag.map({ !$0 }, back: { !$0 }),
                \.verifiesServer,
                "whether all checks of the server's certificate are skipped, so that an attacker can read along"
            ),
        ])
    }

    /// Which servers are trusted.
    ///
    /// - Throws: `.invalidConfiguration` if the file of `ca` cannot be read.
    func trust() throws(TransportError) -> TrustPolicy {
        guard verifiesServer || pins.isEmpty && authorities == nil else {
            throw .configuration(
                "dangerously-trust-any-certificate",
                "is on, but pin or ca is set, which would not be checked; leave one of them out"
            )
        }
        var policy = TrustPolicy(pins: Set(pins), verifiesServer: verifiesServer)
        policy.requiresTLS13 = minimumVersion == .tls13
        guard let authorities else { return policy }
        guard let text = authorities.readText(atMost: 1 << 20) else {
            throw .configuration("ca", "has \(authorities), which cannot be read")
        }
        guard let certificates = PEMCertificates.read(text) else {
            throw .configuration("ca", "has \(authorities), which has no certificates in PEM format")
        }
        policy.authorities = certificates
        return policy
    }
}

extension TLSFile {
    /// The text, or the content of the file of this path; `nil` if it cannot be read or is longer than `limit` bytes.
    fileprivate func readText(atMost limit: Int) -> String? {
        guard !PEM.isText(text) else { return text.utf8.count <= limit ? text : nil }
        guard let file = fopen(text, "rb") else { return nil }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: limit + 1)
        let count = fread(&bytes, 1, bytes.count, file)
        guard count <= limit, ferror(file) == 0 else { return nil }
        return String(validating: bytes[..<count], as: UTF8.self)
    }
}
