import Foundation
import SocketIO
import TestSupport
import Testing
import TrialCertificates

/// A Prosody on free ports, plain and with direct TLS. It has the accounts `ann` and `bob`, whose password is `secret`, at the
/// domain `localhost`, and lets anybody in at the domain `anonymous.localhost`.
final class Prosody: Sendable {
    private let reserved: [ReservedPort]
    private let folder: ScratchFolder
    private let process: Locked<Peer?>
    /// The certificate of the authority that has issued the server's.
    let authority: String

    init() throws {
        reserved = try (0..<2).map { _ in try ReservedPort(isDatagram: false) }
        folder = try ScratchFolder()
        let certificates = try TestCertificates()
        authority = certificates.authority
        let certificate = try folder.write("server.crt", certificates.server.certificate)
        let key = try folder.write("server.key", certificates.server.key)
        let accounts = "\(folder.path)/data/localhost/accounts"
        try FileManager.default.createDirectory(atPath: accounts, withIntermediateDirectories: true)
        for name in ["ann", "bob"] {
            _ = try folder.write("data/localhost/accounts/\(name).dat", "return { [\"password\"] = \"secret\"; };\n")
        }
        let configuration = try folder.write(
            "prosody.cfg.lua",
            """
            run_as_root = true
            pidfile = "\(folder.path)/prosody.pid"
            data_path = "\(folder.path)/data"
            modules_enabled = { "saslauth", "smacks", "ping", "roster" }
            modules_disabled = { "s2s", "tls" }
            allow_unencrypted_plain_auth = true
            c2s_require_encryption = false
            authentication = "internal_plain"
            storage = "internal"
            c2s_interfaces = { "127.0.0.1" }
            c2s_ports = { \(reserved[0].port) }
            c2s_direct_tls_interfaces = { "127.0.0.1" }
            c2s_direct_tls_ports = { \(reserved[1].port) }
            c2s_direct_tls_ssl = { certificate = "\(certificate)"; key = "\(key)" }
            s2s_ports = { }
            log = { info = "*console" }
            VirtualHost "localhost"
            VirtualHost "anonymous.localhost"
              authentication = "anonymous"

            """
        )
        let peer = try Peer(try #require(Peers.prosody.path), ["-F", "--config", configuration])
        process = Locked(peer)
        try #require(peer.wait(for: "Activated service 'c2s_direct_tls'"))
    }

    /// The URL of the plain port, with an account.
    func plain(_ account: String? = "ann", _ query: String = "") -> String {
        "xmpp://\(account.map { "\($0):secret@" } ?? "")127.0.0.1:\(reserved[0].port)/?domain=localhost\(query)"
    }

    /// The URL of an anonymous client.
    var anonymous: String { "xmpp://127.0.0.1:\(reserved[0].port)/?domain=anonymous.localhost" }

    /// The port with direct TLS.
    var encryptedPort: UInt16 { reserved[1].port }

    deinit { process.withLock { $0?.destroy() } }
}
