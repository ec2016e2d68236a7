import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports
import TrialCertificates

/// A version of TLS to which a peer is limited. The raw value is its name in settings, and in
/// ``TransportAPI/TLSDescription/version``.
enum TLSVersion: String, Sendable, CaseIterable {
    case tls12 = "TLSv1.2"
    case tls13 = "TLSv1.3"

    /// The option of `openssl s_client` and `openssl s_server`.
    var option: String { self == .tls12 ? "-tls1_2" : "-tls1_3" }
}

/// The certificates of one test, in files that other programs can read. They are removed at the end.
final class CertificateFiles: Sendable {
    /// The file of a certificate and the file of its key.
    struct Pair: Sendable {
        let certificate: String
        let key: String
    }

    /// The authority of the server and of the clients.
    let authority: String
    /// An authority that has issued none of these certificates.
    let otherAuthority: String
    /// The certificate of a server at `localhost` and 127.0.0.1.
    let server: Pair
    /// The certificate of the client `ann`.
    let ann: Pair
    /// The certificate of a client that the other authority has issued.
    let untrusted: Pair
    private let folder: ScratchFolder

    init() throws {
        let folder = try ScratchFolder()
        let authority = try ThrowAwayAuthority("Authority of the tests")
        let other = try ThrowAwayAuthority("Another authority")
        func issue(_ name: String, by authority: ThrowAwayAuthority, _ names: [String] = []) throws -> Pair {
            let issued = try authority.issue(.init(name, names: names))
            return Pair(
                certificate: try folder.write("\(name).pem", issued.certificate),
                key: try folder.write("\(name).key", issued.key)
            )
        }
        self.authority = try folder.write("authority.pem", authority.certificate)
        otherAuthority = try folder.write("other.pem", other.certificate)
        server = try issue("localhost", by: authority, ["DNS:localhost", "IP:127.0.0.1"])
        ann = try issue("ann", by: authority)
        untrusted = try issue("untrusted", by: other)
        for version in TLSVersion.allCases {
            let settings = """
                openssl_conf = all
                [all]
                ssl_conf = ssl
                [ssl]
                system_default = default
                [default]
                MinProtocol = \(version.rawValue)
                MaxProtocol = \(version.rawValue)

                """
            _ = try folder.write("\(version.rawValue).cnf", settings)
        }
        self.folder = folder
    }

    /// The options of our client: it trusts the authority, and sends a certificate if one is given.
    func client(_ pair: Pair? = nil) -> String {
        "ca=\(authority)" + (pair.map { "&certificate=\($0.certificate)&key=\($0.key)" } ?? "")
    }

    /// The options of our server.
    func server(requiresCertificate: Bool = false) -> String {
        "certificate=\(server.certificate)&key=\(server.key)"
            + (requiresCertificate ? "&ca=\(authority)&client-certificates=required" : "")
    }

    /// Starts a program whose OpenSSL speaks only this version.
    func start(_ program: String?, _ arguments: [String], speaking version: TLSVersion) throws -> Peer {
        let setting = "OPENSSL_CONF=\(folder.path)/\(version.rawValue).cnf"
        return try Peer("/usr/bin/env", [setting, try #require(program)] + arguments)
    }

    /// A path in the folder of these files.
    func path(_ name: String) -> String { "\(folder.path)/\(name)" }
}

/// A mosquitto with TLS on free ports, one of them for WebSockets. It can be stopped, and started again with its saved
/// sessions.
final class MosquittoWithTLS {
    private let files: CertificateFiles
    private let version: TLSVersion
    private let reserved: ReservedPort
    private let reservedForWebSocket: ReservedPort
    private let folder: ScratchFolder
    private let configuration: String
    private var process: Peer

    /// - Parameters:
    ///   - listening: Further settings of both listeners.
    ///   - settings: Further settings.
    init(
        _ files: CertificateFiles,
        _ version: TLSVersion,
        listening: [String] = [],
        settings: [String] = []
    ) async throws {
        (self.files, self.version) = (files, version)
        reserved = try ReservedPort(isDatagram: false)
        reservedForWebSocket = try ReservedPort(isDatagram: false)
        folder = try ScratchFolder()
        let common =
            ["cafile \(files.authority)", "certfile \(files.server.certificate)", "keyfile \(files.server.key)"]
            + listening
        // The output is not read, so it must fit into a pipe. These types do not report each client.
        let text = """
            \(getuid() == 0 ? "user root" : "")
            log_dest stderr
            log_type error
            log_type information
            persistence true
            persistence_location \(folder.path)/
            \(settings.joined(separator: "\n"))
            set_tcp_nodelay true
            allow_anonymous true
            listener \(reserved.port) 127.0.0.1
            \(common.joined(separator: "\n"))
            listener \(reservedForWebSocket.port) 127.0.0.1
            protocol websockets
            \(common.joined(separator: "\n"))

            """
        configuration = try folder.write("mosquitto.conf", text)
        process = try files.start(Peers.mosquitto, ["-c", configuration], speaking: version)
        try await run()
    }

    /// Returns a URL of this broker.
    func url(_ scheme: String, _ query: String) -> String {
        "\(scheme)://127.0.0.1:\(scheme == "mqtts" ? port : reservedForWebSocket.port)/?\(query)"
    }

    var port: UInt16 { reserved.port }

    private func run() async throws {
        let started = process
        try await aside { try #require(started.wait(for: "running")) }
    }

    func start() async throws {
        process = try files.start(Peers.mosquitto, ["-c", configuration], speaking: version)
        try await run()
    }

    /// Makes mosquitto save its database and exit.
    func stop() throws {
        process.signal(SIGTERM)
        #expect(try process.finish() == 0)
    }
}

extension Connection {
    /// Returns the next message as text; `nil` at the end.
    nonisolated(nonsending) func text() async throws -> String? {
        try await receive().map { String(decoding: $0.bytes, as: UTF8.self) }
    }
}
