import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Runs the commands and the configuration of Docs/reference/http.md.
@Suite("The page about messages over HTTP", .serialized, .timeLimit(.minutes(5)), .ownThread)
struct HTTPPageTests {
    /// The blocks of code of a section, without their indentation.
    private static func blocks(_ heading: String) throws -> [String] {
        let page = try WrittenPage("reference/http.md").text
        let section = try #require(page.components(separatedBy: "\n## \(heading)\n").dropFirst().first)
        var (blocks, isOpen): ([[Substring]], Bool) = ([], false)
        for line in section.components(separatedBy: "\n## ")[0].split(separator: "\n", omittingEmptySubsequences: false)
        {
            let isCode = line.hasPrefix("    ")
            // A block can contain empty lines.
            guard isCode || line.isEmpty && isOpen else {
                isOpen = false
                continue
            }
            if !isOpen { blocks.append([]) }
            blocks[blocks.count - 1].append(line.dropFirst(4))
            isOpen = true
        }
        return blocks.map { $0.joined(separator: "\n").trimmingCharacters(in: .newlines) }
    }

    @Test(
        "The commands of the page open a session, and curl shows the stream that the page shows",
        .enabled(if: Peers.curl != nil)
    )
    func curl() async throws {
        let blocks = try Self.blocks("In a browser, and with curl")
        try #require(blocks.count == 3)
        let url = "http://127.0.0.1:8080/"
        #expect(blocks[0] == "imbench serve --listen \(url)")
        let server = try await Serving.start(url.replacing("8080", with: "0"))
        let commands = blocks[1].replacing("8080", with: "\(server.port)")
        let expected = blocks[2].components(separatedBy: "\n")
        let output = try await aside {
            let shell = try Peer("/bin/sh", ["-c", "\(commands)\nwait"], leadsGroup: true)
            defer { shell.destroy() }
            return expected.map { _ in shell.line() }
        }
        #expect(output == expected)
    }

    /// nginx in front of a server, with the lines of the page or with others in place of its location.
    private final class Nginx {
        let reserved: ReservedPort
        private let folder: ScratchFolder
        private let process: Peer

        init(to port: UInt16, location: String? = nil) async throws {
            let blocks = try HTTPPageTests.blocks("Behind nginx")
            try #require(blocks.count == 2)
            let (reserved, folder) = (try ReservedPort(isDatagram: false), try ScratchFolder())
            (self.reserved, self.folder) = (reserved, folder)
            let log = "access_log \(folder.path)/access.log requests;"
            let location =
                location.map { "location / { proxy_pass http://127.0.0.1:\(port); \($0) \(log) }" }
                ?? blocks[1].replacing("8080", with: "\(port)").replacing("access_log off;", with: log)
            let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
                .map { "\($0)_temp_path \(folder.path)/\($0);" }.joined(separator: "\n")
            let text = """
                daemon off;
                master_process off;
                pid \(folder.path)/pid;
                error_log stderr crit;
                events {}
                http {
                    log_format requests "$request_method $args $status";
                    \(temporary)
                    \(blocks[0])
                    server {
                        listen 127.0.0.1:\(reserved.port);
                        \(location)
                    }
                }
                """
            let configuration = try folder.write("nginx.conf", text)
            process = try Peer(try #require(Peers.nginx), ["-p", folder.path, "-e", "stderr", "-c", configuration])
        }

        /// Connects once nginx listens.
        func connect(_ scheme: String, _ query: String) async throws -> any Connection {
            let url = "\(scheme)://127.0.0.1:\(reserved.port)/socket?\(query)"
            while true {
                do throws(TransportError) {
                    return try await TransportRegistry.standard.connect(url)
                } catch {
                    guard error.code == .refused, !Task.isCancelled else { throw error }
                    await Task.yield()
                }
            }
        }

        /// The method, the query and the status of each answered request.
        func requests() throws -> [String] {
            try String(contentsOfFile: "\(folder.path)/access.log", encoding: .utf8).split(separator: "\n").map(
                String.init
            )
        }
    }

    private func echo(over connection: any Connection) async throws {
        for payload in [
            Payload(text: "Grüße 👋"), Payload([0, 255]), Payload(longBytes(300_000)), Payload(text: "end"),
        ] {
            #expect(await connection.send(payload) == .written)
            #expect(try await connection.receive() == payload)
        }
        await connection.close()
    }

    @Test(
        "With the page's lines, nginx passes WebSocket, event streams and polls, also of pages at its own address",
        .enabled(if: Peers.nginx != nil)
    )
    func documentedNginx() async throws {
        let upgrades = Locked<[Bool]>([])
        let server = try await EmbeddedServer.start(
            "ws://127.0.0.1:0/socket?fallback=on",
            decide: { request in
                upgrades.withLock { $0.append(request.header("Sec-WebSocket-Key") != nil) }
                return .accept
            }
        )
        let nginx = try await Nginx(to: try #require(server.endpoint.port))
        let origin = "origin=http://127.0.0.1:\(nginx.reserved.port)"
        try await echo(over: nginx.connect("ws", "fallback=on&\(origin)"))
        try await echo(over: nginx.connect("http", origin))
        // The event stream was not collected.
        #expect(try nginx.requests().allSatisfy { !$0.contains("poll") })
        try await echo(over: nginx.connect("http", "mode=long-poll&\(origin)"))
        #expect(upgrades.withLock { $0 } == [true, false, false])
        let foreign = await #expect(throws: TransportError.self) {
            try await nginx.connect("http", "origin=http://evil.example")
        }
        #expect(foreign?.code == .forbidden)
        await server.stop()
    }

    @Test(
        "nginx passes event streams with its defaults, and with proxy_buffering off where it ignores the server",
        .enabled(if: Peers.nginx != nil),
        arguments: ["", "proxy_ignore_headers X-Accel-Buffering; proxy_buffering off;"]
    )
    func buffering(directives: String) async throws {
        let server = try await EmbeddedServer.start("http://127.0.0.1:0/socket")
        let nginx = try await Nginx(to: try #require(server.endpoint.port), location: directives)
        try await echo(over: nginx.connect("http", ""))
        #expect(try nginx.requests().allSatisfy { !$0.contains("poll") })
        await server.stop()
    }

    @Test(
        "nginx ends a poll that the server holds for longer than proxy_read_timeout, and no stream that has comments",
        .enabled(if: Peers.nginx != nil && Peers.curl != nil)
    )
    func timeouts() async throws {
        // The server sends a comment at least three times within the timeout of a session.
        let server = try await EmbeddedServer.start("http://127.0.0.1:0/?hold=60s&session-timeout=3s")
        let nginx = try await Nginx(to: try #require(server.endpoint.port), location: "proxy_read_timeout 5s;")
        await (try await nginx.connect("http", "")).close()
        let url = "http://127.0.0.1:\(nginx.reserved.port)/"
        let curl = try #require(Peers.curl)
        func ask(_ words: String...) throws -> Peer { try Peer(curl, ["-sN"] + words) }
        func open() async throws -> String {
            let opened = try await aside { [url] in
                try Peer(curl, ["-s", "-X", "POST", "-w", "\\n", "\(url)?im-open=1"]).line()
            }
            return try #require(opened?.firstMatch(of: /session=([^&]*)/)).output.1.description
        }
        let stream = try ask("\(url)?im-session=\(try await open())&im-receive=sse&im-from=0")
        // One comment each second, so nginx would have ended the stream.
        let comments = try await aside {
            defer { stream.destroy() }
            return (0..<7).map { _ in stream.wait(for: ":") }
        }
        #expect(comments.allSatisfy { $0 })
        let poll = try ask(
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}\\n",
            "\(url)?im-session=\(try await open())&im-receive=long-poll&im-from=0"
        )
        let status = try await aside { poll.line() }
        #expect(status == "504")
        await server.stop()
    }
}
