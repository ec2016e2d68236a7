import Primitives
import SocketIO
import TransportAPI

/// How a client uses TLS to its server.
struct TLSClientSettings: Sendable {
    var tls: TLSSettings
    /// The name that the server's certificate must have; `nil` for the host of the URL.
    var serverName: String?

    /// The settings for another server than that of the URL. It does not get the client's certificate, and has another name.
    var forOtherServer: TLSClientSettings {
        var settings = self
        (settings.tls.certificate, settings.tls.key, settings.serverName) = (nil, nil, nil)
        return settings
    }

    /// The settings of a client of an encrypted transport.
    static func settings(_ security: StreamSecurity, isDatagram: Bool = false) -> SettingList<TLSClientSettings> {
        let both = TLSSettings.settings(.client, security, isDatagram: isDatagram)
        var list = SettingList(TLSClientSettings(tls: both.initial))
        list.append(both, at: \.tls)
        return list.adding([
            .init(
                "server-name",
                SettingFormat.text("a host name").orAbsent("the host of the URL"),
                \.serverName,
                "the name that the server's certificate must have"
            ),
            .init(
                "resumption",
                .flag,
                \.tls.resumesSessions,
                "whether the TLS session of an earlier connection is continued"
            ),
            .init(
                "dangerously-trust-any-certificate",
                SettingFormat.flag.map({ !$0 }, back: { !$0 }),
                \.tls.verifiesServer,
                "whether all checks of the server's certificate are skipped, so that an attacker can read along"
            ),
        ])
    }
}

extension TLSSettings {
    /// The settings of a server of an encrypted transport.
    static func serverSettings(_ security: StreamSecurity, isDatagram: Bool = false) -> SettingList<TLSSettings> {
        settings(.server, security, isDatagram: isDatagram).adding([
            .init(
                "client-certificates",
                .word,
                \.clientCertificates,
                "whether a server requests the certificate of a client"
            )
        ])
    }

    /// The settings that both sides have.
    fileprivate static func settings(
        _ side: Side,
        _ security: StreamSecurity,
        isDatagram: Bool
    ) -> SettingList<TLSSettings> {
        var initial = TLSSettings(side)
        initial.isDatagram = isDatagram
        initial.protocols = security.protocols
        return SettingList(
            initial,
            [
                .init(
                    "ca",
                    SettingFormat.file("a file, a directory, or a text in PEM format").orAbsent(
                        "those in OpenSSL's directories"
                    ),
                    \.authorities,
                    "the authorities that are trusted; a server trusts them for certificates of clients"
                ),
                .init(
                    "certificate",
                    SettingFormat.file("a file, or a text in PEM format").orAbsent("none; a server needs one"),
                    \.certificate,
                    "this side's certificate, followed by those between it and its authority"
                ),
                .init(
                    "key",
                    SettingFormat.file("a file, or a text in PEM format").orAbsent("in the file of certificate"),
                    \.key,
                    "the private key of the certificate"
                ),
                .init(
                    "pin",
                    each: .pin,
                    \.listedPins,
                    "a public key that must be in the peer's chain; may be repeated, then one of them must"
                ),
                .init(
                    "crl",
                    SettingFormat.file("a file, or a text in PEM format").orAbsent,
                    \.revocationLists,
                    "the revocation lists that certificates are checked with"
                ),
                .init("min-tls", .word, \.minimumVersion, "the oldest TLS version that is accepted; over UDP only 1.2"),
                .init("max-tls", .word, \.maximumVersion, "the newest TLS version that is used"),
                .init(
                    "alpn",
                    each: .protocolName,
                    \.protocols,
                    "an application protocol that is offered; may be repeated"
                ),
            ],
            check: { (settings, options) throws(TransportError) in try settings.check(options) }
        )
    }

    private var listedPins: [[UInt8]] {
        get { Array(pins) }
        set { pins = Set(newValue) }
    }

    private func check(_ options: ConfigurationValue) throws(TransportError) {
        guard !isDatagram || minimumVersion == .tls12 else {
            throw .configuration("min-tls", "is 1.3, but DTLS has version 1.2 here; allowed is 1.2")
        }
        guard minimumVersion == .tls12 || maximumVersion == .tls13 else {
            throw .configuration("max-tls", "is 1.2, but min-tls is 1.3; allowed is 1.3")
        }
        switch side {
        case .client: try checkClient()
        case .server: try checkServer()
        }
    }

    private func checkClient() throws(TransportError) {
        guard !verifiesServer, !pins.isEmpty || authorities != nil || revocationLists != nil else { return }
        throw .configuration(
            "dangerously-trust-any-certificate",
            "is on, but pin, ca or crl is set, which would not be checked"
        )
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
}

extension SettingFormat where Value == TLSFile {
    /// Returns the format of a file, or of a text in PEM format. Errors do not quote it, because it may be a private key.
    ///
    /// - Parameter allowed: The allowed files, for the documentation.
    package static func file(_ allowed: String) -> Self {
        SettingFormat(allowed: allowed, isSecret: true, isString: true) { (value) throws(TransportError) in
            guard let text = value.string, !text.isEmpty, !text.utf8.contains(0) else {
                throw value.failure("must be the path of a file, or a text in PEM format")
            }
            return TLSFile(text)
        }
    }
}

extension SettingFormat where Value == [UInt8] {
    /// The format of a pin: `sha256/` and Base64.
    package static var pin: Self {
        SettingFormat(allowed: "sha256/ and 44 characters of Base64", absent: "none") {
            (value) throws(TransportError) in
            let text = value.string ?? ""
            let digits = text.hasPrefix("sha256/") ? String(text.dropFirst(7)) : text
            let digest = Array(digits.utf8).withUnsafeBufferPointer { Base64.decode($0) }
            guard let digest, digest.count == 32 else {
                let problem = "has '\(text)', which is not sha256/ and the SHA-256 of a public key in Base64"
                throw value.failure(problem)
            }
            return digest
        }
    }
}

extension SettingFormat where Value == String {
    /// The format of the name of an application protocol (RFC 7301).
    fileprivate static var protocolName: Self {
        var format = text(1...255)
        format.absent = "none"
        return format
    }
}
