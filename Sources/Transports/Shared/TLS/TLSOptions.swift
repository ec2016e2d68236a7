import Primitives
import SocketIO
import TransportAPI

extension TransportOption {
    /// The options of the encrypted transports.
    static let tls = [
        TransportOption(
            "ca",
            "a file, a directory, or a text in PEM format",
            "the authorities that are trusted; a server trusts them for certificates of clients (the system's)"
        ),
        TransportOption(
            "certificate",
            "a file, or a text in PEM format",
            "this side's certificate, followed by those between it and its authority (none; a server needs one)"
        ),
        TransportOption(
            "key",
            "a file, or a text in PEM format",
            "the private key of the certificate (in the file of certificate)"
        ),
        TransportOption(
            "pin",
            "sha256/ and 44 characters of Base64",
            "a public key that must be in the peer's chain; may be repeated, then one of them must (none)"
        ),
        TransportOption(
            "crl",
            "a file, or a text in PEM format",
            "the revocation lists that certificates are checked with (none)"
        ),
        TransportOption("min-tls", "1.2 or 1.3", "the oldest TLS version that is accepted (1.2)"),
        TransportOption("max-tls", "1.2 or 1.3", "the newest TLS version that is used (1.3)"),
        TransportOption("alpn", "a name", "offered application protocol; may be repeated (http/1.1 for WebSocket)"),
        TransportOption(
            "server-name",
            "a host name",
            "the name that the server's certificate must have (the host of the URL)"
        ),
        TransportOption(
            "resumption",
            "on or off",
            "whether a client continues the TLS session of an earlier connection (on)"
        ),
        TransportOption(
            "client-certificates",
            "off, optional or required",
            "whether a server requests the certificate of a client (off)",
            side: .server
        ),
        TransportOption(
            "tls-timeout",
            "a time such as 10s",
            "how long the TLS handshake may take at a server (10s)",
            side: .server
        ),
        TransportOption(
            "dangerously-trust-any-certificate",
            "on or off",
            "whether a client skips all checks of the server's certificate, so that an attacker can read along (off)"
        ),
    ]
}

extension TLSSettings {
    /// Reads the settings of one side from the options of its URL.
    ///
    /// - Parameters:
    ///   - protocols: The application protocols without the option `alpn`.
    ///   - isDatagram: Whether records are datagrams.
    init(
        _ side: Side,
        _ options: OptionReader,
        protocols: [String],
        isDatagram: Bool = false
    ) throws(TransportError) {
        self.init(side)
        self.isDatagram = isDatagram
        authorities = try Self.file(options, "ca")
        certificate = try Self.file(options, "certificate")
        key = try Self.file(options, "key")
        revocationLists = try Self.file(options, "crl")
        for text in options.strings("pin") { pins.insert(try Self.pin(text)) }
        let version = try options.choice("min-tls", Version.allCases.map(\.rawValue))
        minimumVersion = version.flatMap(Version.init) ?? .tls12
        guard !isDatagram || minimumVersion == .tls12 else {
            throw .configuration("min-tls", "is 1.3, but DTLS has version 1.2 here; allowed is 1.2")
        }
        let newest = try options.choice("max-tls", Version.allCases.map(\.rawValue))
        maximumVersion = newest.flatMap(Version.init) ?? .tls13
        guard minimumVersion == .tls12 || maximumVersion == .tls13 else {
            throw .configuration("max-tls", "is 1.2, but min-tls is 1.3; allowed is 1.3")
        }
        let names = options.strings("alpn")
        self.protocols = names.isEmpty ? protocols : names
        if let wrong = names.first(where: { !(1...255).contains($0.utf8.count) }) {
            throw .configuration("alpn", "has a name of \(wrong.utf8.count) bytes; 1 to 255 are allowed")
        }
        resumesSessions = try options.flag("resumption") ?? true
        verifiesServer = try options.flag("dangerously-trust-any-certificate") != true
        let requested = try options.choice("client-certificates", ClientCertificates.allCases.map(\.rawValue))
        clientCertificates = requested.flatMap(ClientCertificates.init) ?? .off
        if side == .server { try checkServer() }
        if side == .client, !verifiesServer, !pins.isEmpty || authorities != nil || revocationLists != nil {
            throw .configuration(
                "dangerously-trust-any-certificate",
                "is on, but pin, ca or crl is set, which would not be checked"
            )
        }
    }

    private func checkServer() throws(TransportError) {
        if clientCertificates != .off, authorities == nil {
            throw .configuration(
                "client-certificates",
                "is \(clientCertificates.rawValue), which needs ca: the file of the authority of the clients"
            )
        }
        guard clientCertificates == .off else { return }
        let unchecked = [("ca", authorities != nil), ("crl", revocationLists != nil), ("pin", !pins.isEmpty)]
        if let name = unchecked.first(where: \.1)?.0 {
            throw .configuration(
                "client-certificates",
                "is off, but \(name) is set, which checks certificates of clients; allowed is optional or required"
            )
        }
    }

    /// Reads an option that is a file, or a text in PEM format.
    static func file(_ options: OptionReader, _ name: String) throws(TransportError) -> TLSFile? {
        guard let path = try options.string(name) else { return nil }
        guard !path.isEmpty, !path.utf8.contains(0) else {
            throw .configuration(name, "must be the path of a file, or a text in PEM format")
        }
        return TLSFile(path)
    }

    private static func pin(_ text: String) throws(TransportError) -> [UInt8] {
        let digits = text.hasPrefix("sha256/") ? String(text.dropFirst(7)) : text
        guard let digest = Array(digits.utf8).withUnsafeBufferPointer({ Base64.decode($0) }), digest.count == 32 else {
            throw .configuration("pin", "has '\(text)', which is not sha256/ and the SHA-256 of a public key in Base64")
        }
        return digest
    }
}
