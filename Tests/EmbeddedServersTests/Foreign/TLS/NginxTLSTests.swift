import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests nginx as a reverse proxy that terminates TLS in front of our server without TLS.
@Suite(
    "A server behind nginx with TLS",
    .enabled(if: Peers.nginx != nil && hasOpenSSL),
    .serialized,
    .timeLimit(.minutes(5)),
    .ownThread
)
struct NginxTLSTests {
    private let registry = TransportRegistry.standard
    private let files: CertificateFiles

    init() throws {
        files = try CertificateFiles()
    }

    /// A proxy to `port` on this machine, with a master process and one worker.
    private final class Nginx {
        private let reserved: ReservedPort
        private let folder: ScratchFolder
        private let configuration: String
        private var process: Peer

        init(_ files: CertificateFiles, _ version: TLSVersion, to port: UInt16) async throws {
            reserved = try ReservedPort(isDatagram: false)
            let folder = try ScratchFolder()
            self.folder = folder
            let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
                .map { "\($0)_temp_path \(folder.path)/\($0);" }.joined(separator: "\n")
            let text = """
                daemon off;
                \(getuid() == 0 ? "user root;" : "")
                worker_processes 1;
                worker_shutdown_timeout 1ms;
                pid \(folder.path)/pid;
                error_log stderr crit;
                events {}
                http {
                    access_log off;
                    \(temporary)
                    server {
                        listen 127.0.0.1:\(reserved.port) ssl http2;
                        ssl_certificate \(files.server.certificate);
                        ssl_certificate_key \(files.server.key);
                        ssl_protocols \(version.rawValue);
                        location / {
                            proxy_pass http://127.0.0.1:\(port);
                            proxy_http_version 1.1;
                            proxy_set_header Upgrade $http_upgrade;
                            proxy_set_header Connection upgrade;
                            proxy_set_header Host $host;
                        }
                    }
                }
                """
            configuration = try folder.write("nginx.conf", text)
            process = try Self.spawn(configuration, folder.path)
        }

        private static func spawn(_ configuration: String, _ folder: String) throws -> Peer {
            let nginx = try #require(Peers.nginx)
            return try Peer(nginx, ["-p", folder, "-e", "stderr", "-c", configuration], leadsGroup: true)
        }

        var port: UInt16 { reserved.port }

        /// Starts a new worker, and ends the connections of the old one.
        func reload() { process.signal(SIGHUP) }

        /// Ends all processes at once.
        func stop() async throws {
            try await aside { [process] in
                process.signal(SIGTERM)
                _ = try process.finish()
            }
        }

        func start() throws {
            process = try Self.spawn(configuration, folder.path)
        }
    }

    /// Connects once the proxy listens.
    private func connect(_ url: String) async throws -> any Connection {
        while true {
            do throws(TransportError) {
                return try await registry.connect(url)
            } catch {
                guard error.code == .refused, !Task.isCancelled else { throw error }
                await Task.yield()
            }
        }
    }

    private func echo(_ connection: any Connection) async throws {
        for payload in [Payload(text: "Grüße 👋"), Payload([0, 255]), Payload(longBytes(300_000))] {
            #expect(await connection.send(payload) == .written)
            #expect(try await connection.receive() == payload)
        }
    }

    @Test("A client receives its messages back through nginx, and both sides can close", arguments: TLSVersion.allCases)
    func messages(version: TLSVersion) async throws {
        let listener = try await registry.listen("ws://127.0.0.1:0")
        let nginx = try await Nginx(files, version, to: try #require(listener.endpoint.port))
        for side in ["client", "server"] {
            async let accepted = listener.accept()
            let client = try await connect("wss://127.0.0.1:\(nginx.port)/?\(files.client())")
            let server = try #require(try await accepted)
            #expect(client.encryption?.version == version.rawValue)
            #expect(client.encryption?.applicationProtocol == "http/1.1" && server.encryption == nil)
            let echoing = Task { while let message = try? await server.receive() { _ = await server.send(message) } }
            try await echo(client)
            #expect(try await client.ping() > .zero)
            let (closing, other) = side == "client" ? (client, server) : (server, client)
            let left = await closing.close(CloseReason(.user, code: 4001, text: "enough"))
            #expect(left == 0)
            let reason = await other.closed()
            #expect(reason.initiator == .peer && reason.code == 4001 && reason.text == "enough", "\(reason)")
            await echoing.value
        }
        await listener.close()
    }

    @Test(
        "A reload and a restart of nginx end a connection with an error that a retry can fix",
        arguments: TLSVersion.allCases
    )
    func restart(version: TLSVersion) async throws {
        let server = try await EmbeddedServer.start("ws://127.0.0.1:0")
        let nginx = try await Nginx(files, version, to: try #require(server.endpoint.port))
        let url = "wss://127.0.0.1:\(nginx.port)/?\(files.client())"
        for way in ["reload", "restart"] {
            let connection = try await connect(url)
            try await echo(connection)
            if way == "reload" { nginx.reload() } else { try await nginx.stop() }
            let reason = await connection.closed()
            let error = try #require(reason.error)
            #expect(error.code == .connectionLost && error.isRetryable && reason.initiator == .network, "\(reason)")
            if way == "restart" { try nginx.start() }
        }
        let connection = try await connect(url)
        try await echo(connection)
        await connection.close()
        await server.stop()
    }

    @Test("A supervised client connects again after each reload and restart of nginx", arguments: TLSVersion.allCases)
    func supervised(version: TLSVersion) async throws {
        let server = try await EmbeddedServer.start("ws://127.0.0.1:0")
        let nginx = try await Nginx(files, version, to: try #require(server.endpoint.port))
        let file = """
            {
              "endpoints": ["wss://127.0.0.1:\(nginx.port)/?\(files.client())"],
              "backoff": {"policy": "exponential", "initial": "20ms", "maximum": "200ms", "jitter": "equal"}
            }
            """
        let supervisor = try Supervisor(TransportConfiguration(json: file.utf8))
        var states = supervisor.states.makeAsyncIterator()
        var messages = supervisor.messages.makeAsyncIterator()
        supervisor.connect()
        for way in ["start", "reload", "reload", "restart", "restart"] {
            switch way {
            case "reload": nginx.reload()
            case "restart":
                try await nginx.stop()
                try nginx.start()
            default: break
            }
            if way != "start" { while let state = await states.next(), state.isOpen {} }
            while let state = await states.next(), !state.isOpen {}
            #expect(await supervisor.send(Payload(text: "after \(way)")).isSuccess)
            #expect(await messages.next() == Payload(text: "after \(way)"))
        }
        await supervisor.close()
        await server.stop()
    }
}
