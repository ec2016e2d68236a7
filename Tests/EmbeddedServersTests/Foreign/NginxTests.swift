import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests nginx as a reverse proxy on the same machine, in front of `imbench serve`.
@Suite("A server behind nginx", .enabled(if: Peers.nginx != nil), .serialized, .timeLimit(.minutes(5)), .ownThread)
struct NginxTests {
    /// A proxy to `port` that sends `host` in its requests, with further directives.
    private final class Nginx {
        let reserved: ReservedPort
        private let folder: ScratchFolder
        private let process: Peer

        init(to port: UInt16, host: String, _ directives: String = "") async throws {
            reserved = try ReservedPort(isDatagram: false)
            let folder = try ScratchFolder()
            self.folder = folder
            let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
                .map { "\($0)_temp_path \(folder.path)/\($0);" }.joined(separator: "\n")
            let text = """
                daemon off;
                master_process off;
                pid \(folder.path)/pid;
                error_log stderr crit;
                events {}
                http {
                    access_log off;
                    \(temporary)
                    server {
                        listen 127.0.0.1:\(reserved.port);
                        location / {
                            proxy_pass http://127.0.0.1:\(port);
                            proxy_http_version 1.1;
                            proxy_set_header Upgrade $http_upgrade;
                            proxy_set_header Connection upgrade;
                            proxy_set_header Host \(host);
                            \(directives)
                        }
                    }
                }
                """
            let configuration = try folder.write("nginx.conf", text)
            let nginx = try #require(Peers.nginx)
            process = try Peer(nginx, ["-p", folder.path, "-e", "stderr", "-c", configuration])
        }

        /// Returns the result of a page's handshake through the proxy, once the proxy listens.
        func failure(origin: String?) async throws -> TransportError? {
            var url = "ws://127.0.0.1:\(reserved.port)/"
            if let origin { url += "?origin=\(origin)" }
            while true {
                do throws(TransportError) {
                    await (try await TransportRegistry.standard.connect(url)).close()
                    return nil
                } catch {
                    guard error.code == .refused, !Task.isCancelled else { return error }
                    await Task.yield()
                }
            }
        }
    }

    @Test("A server behind nginx admits a page by its public name if the settings list it")
    func publicName() async throws {
        let bare = try await Serving.start("ws://127.0.0.1:0")
        let closed = try await Nginx(to: bare.port, host: "chat.example")
        #expect(try await closed.failure(origin: "https://chat.example")?.code == .forbidden)
        #expect(try await closed.failure(origin: nil)?.code == .forbidden)

        let server = try await Serving.start("ws://127.0.0.1:0", "--hosts", "chat.example")
        let nginx = try await Nginx(to: server.port, host: "chat.example")
        #expect(try await nginx.failure(origin: "https://chat.example") == nil)
        #expect(try await nginx.failure(origin: nil) == nil)
        #expect(try await nginx.failure(origin: "https://evil.example")?.code == .forbidden)
    }

    @Test("A client returns the cookie by which nginx finds its server again")
    func cookie() async throws {
        let cookies = Locked<[String?]>([])
        let registry = TransportRegistry.standard
        let server = try await registry.listen(
            "ws://127.0.0.1:0",
            decide: { request in
                cookies.withLock { $0.append(request.header("Cookie")) }
                return .accept
            }
        )
        let set = "add_header Set-Cookie \"node=a; Path=/; HttpOnly; SameSite=Lax\" always;"
        let nginx = try await Nginx(to: try #require(server.endpoint.port), host: "127.0.0.1", set)
        #expect(try await nginx.failure(origin: nil) == nil)
        let transport = try registry.transport(for: Endpoint("ws://127.0.0.1:\(nginx.reserved.port)/"))
        for _ in 0..<3 { await (try await transport.connect(timeout: .seconds(60))).close() }
        #expect(cookies.withLock { $0 } == [nil, nil, "node=a", "node=a"])
        await server.close()
    }

    @Test("A server behind nginx admits a listed page if nginx sends the server's own address as host")
    func ownAddress() async throws {
        let server = try await Serving.start("ws://127.0.0.1:0", "--origins", "https://chat.example")
        let nginx = try await Nginx(to: server.port, host: "$proxy_host")
        #expect(try await nginx.failure(origin: "https://chat.example") == nil)
        #expect(try await nginx.failure(origin: nil) == nil)
        for origin in ["https://evil.example", "null"] {
            #expect(try await nginx.failure(origin: origin)?.code == .forbidden)
        }
    }
}
