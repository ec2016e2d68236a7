import Foundation
import SocketIO
import Testing
import TrialCertificates

/// A program of another project between clients and a server: a reverse proxy, or one that opens tunnels. It is on one port
/// of this machine, where its kind can change while clients are connected.
///
/// With TLS, it terminates that with the certificate of ``TrialTLS``, as a proxy of a company that decrypts does.
package final class MiddleboxProcess {
    /// The program, and what it does with WebSocket.
    package enum Kind: String, Sendable, CaseIterable {
        /// nginx as its manual says for WebSocket: upgrades pass.
        case nginxWithUpgrade
        /// nginx with `proxy_pass` and nothing else: HTTP/1.0 to the server, a connection for each request, and no
        /// upgrade.
        case nginx
        /// nginx that speaks HTTP/1.1 to the server and keeps its connections, without upgrades.
        case nginxWithKeepalive
        /// nginx that collects each answer until it is complete, because it ignores that the server forbids it.
        case nginxCollecting
        /// nginx that answers each upgrade itself.
        case nginxRefusing
        /// squid, which removes the header Upgrade.
        case squid
        /// squid that passes upgrades to WebSocket.
        case squidWithUpgrade
        /// squid that opens tunnels to any port.
        case squidTunnel
        /// tinyproxy, which removes the header Upgrade, and closes the connection after each answer.
        case tinyproxy
        /// tinyproxy that opens tunnels.
        case tinyproxyTunnel

        /// Whether WebSocket passes.
        package var passesUpgrades: Bool {
            switch self {
            case .nginxWithUpgrade, .squidWithUpgrade, .squidTunnel, .tinyproxyTunnel: true
            case .nginx, .nginxWithKeepalive, .nginxCollecting, .nginxRefusing, .squid, .tinyproxy: false
            }
        }

        /// Whether it is nginx.
        package var isNginx: Bool {
            switch self {
            case .nginxWithUpgrade, .nginx, .nginxWithKeepalive, .nginxCollecting, .nginxRefusing: true
            case .squid, .squidWithUpgrade, .squidTunnel, .tinyproxy, .tinyproxyTunnel: false
            }
        }

        /// Whether it can terminate TLS. tinyproxy can't.
        package var knowsTLS: Bool {
            switch self {
            case .nginxWithUpgrade, .nginx, .nginxWithKeepalive, .nginxCollecting, .nginxRefusing: true
            case .squid, .squidWithUpgrade: true
            case .squidTunnel, .tinyproxy, .tinyproxyTunnel: false
            }
        }
    }

    private let reserved: ReservedPort
    private let folder: ScratchFolder
    private let server: UInt16
    private var kind: Kind
    private var process: Peer

    /// The port for clients.
    package var port: UInt16 { reserved.port }
    /// Whether clients connect with TLS.
    package let hasTLS: Bool
    /// A file with the authority that has issued the certificate.
    package let authority: String

    /// Starts a program, and returns when it accepts connections.
    ///
    /// - Parameters:
    ///   - server: The port of the server, which has no TLS.
    ///   - hasTLS: Whether clients connect with TLS. By default they do if the program knows TLS.
    package init(_ kind: Kind, to server: UInt16, hasTLS: Bool? = nil) async throws {
        (reserved, folder) = (try ReservedPort(isDatagram: false), try ScratchFolder())
        (self.kind, self.server, self.hasTLS) = (kind, server, hasTLS ?? kind.knowsTLS)
        let credentials = try TrialTLS.credentials.get()
        authority = try folder.write("authority.pem", credentials.authority)
        _ = try folder.write("server.pem", credentials.certificate + credentials.key)
        let setup = Setup(kind: kind, port: reserved.port, server: server, hasTLS: self.hasTLS, folder: folder)
        process = try setup.start()
        try await ready()
    }

    /// Changes the kind. Connections through the former one have ended when this returns, and new ones are accepted.
    package func become(_ kind: Kind) async throws {
        let former = self.kind
        self.kind = kind
        let setup = Setup(kind: kind, port: port, server: server, hasTLS: hasTLS, folder: folder)
        if former.isNginx, kind.isNginx {
            _ = try setup.writeNginx()
            process.signal(SIGHUP)
            // The worker with the former configuration.
            return try await wait(for: "exited with code 0")
        }
        process.destroy()
        process = try setup.start()
        try await ready()
    }

    /// The requests for messages over HTTP that nginx has answered, with the status, as in "long-poll 200".
    package func requests() throws -> [String] {
        let text = try String(contentsOfFile: "\(folder.path)/access.log", encoding: .utf8)
        return text.split(separator: "\n").map(String.init)
    }

    private func ready() async throws {
        switch kind {
        case .squid, .squidWithUpgrade, .squidTunnel: try await wait(for: "Socket connections at")
        case .tinyproxy, .tinyproxyTunnel:
            // It says so only in a log that also has lines for each request.
            while !Task.isCancelled {
                if accepts() { return }
                await Task.yield()
            }
        default: try await wait(for: "start worker process ")
        }
    }

    private func wait(for text: String) async throws {
        let isThere = try await aside { [process] in process.wait(for: text) }
        try #require(isThere, "\(kind) does not say '\(text)'")
    }

    /// Whether it accepts a connection.
    private func accepts() -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
        address.sin_port = port.bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }
}

/// How a program is started.
private struct Setup {
    let kind: MiddleboxProcess.Kind
    let port: UInt16
    let server: UInt16
    let hasTLS: Bool
    let folder: ScratchFolder

    func start() throws -> Peer {
        switch kind {
        case .nginxWithUpgrade, .nginx, .nginxWithKeepalive, .nginxCollecting, .nginxRefusing:
            let words = ["-p", folder.path, "-e", "stderr", "-c", try writeNginx()]
            return try Peer(try #require(Peers.nginx), words, leadsGroup: true)
        case .squid, .squidWithUpgrade, .squidTunnel:
            let configuration = try folder.write("squid.conf", squid)
            return try Peer(try #require(Peers.squid), ["-N", "-f", configuration], leadsGroup: true)
        case .tinyproxy, .tinyproxyTunnel:
            let configuration = try folder.write("tinyproxy.conf", tinyproxy)
            return try Peer(try #require(Peers.tinyproxy), ["-d", "-c", configuration])
        }
    }

    func writeNginx() throws -> String {
        let directives =
            switch kind {
            case .nginxWithUpgrade:
                """
                proxy_http_version 1.1;
                proxy_set_header Upgrade $http_upgrade;
                proxy_set_header Connection $upgrading;
                """
            case .nginxWithKeepalive: "proxy_http_version 1.1; proxy_set_header Connection '';"
            case .nginxCollecting: "proxy_ignore_headers X-Accel-Buffering;"
            case .nginxRefusing: "if ($http_upgrade) { return 501; }"
            default: ""
            }
        let certificate = "ssl_certificate \(folder.path)/server.pem; ssl_certificate_key \(folder.path)/server.pem;"
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map { "\($0)_temp_path \(folder.path)/\($0);" }.joined(separator: "\n")
        let text = """
            daemon off;
            \(getuid() == 0 ? "user root;" : "")
            worker_processes 1;
            worker_shutdown_timeout 1ms;
            pid \(folder.path)/pid;
            error_log stderr notice;
            events {}
            http {
                log_format requests "$receiving $status";
                map $http_upgrade $upgrading { default upgrade; '' ''; }
                map $args $receiving { default ''; '~im-receive=(?<way>[a-z-]+)' $way; }
                \(temporary)
                # What does not fit is written to files, with a warning each time. Nobody reads that many.
                client_body_buffer_size 1m;
                proxy_buffers 16 256k;
                proxy_busy_buffers_size 512k;
                upstream server { server 127.0.0.1:\(server); \(kind == .nginxWithKeepalive ? "keepalive 8;" : "") }
                server {
                    listen 127.0.0.1:\(port) \(hasTLS ? "ssl" : "");
                    \(hasTLS ? certificate : "")
                    location / {
                        access_log \(folder.path)/access.log requests if=$receiving;
                        proxy_pass http://server;
                        proxy_set_header Host $http_host;
                        \(directives)
                    }
                }
            }
            """
        return try folder.write("nginx.conf", text)
    }

    private var squid: String {
        let listening = "\(hasTLS ? "https_port" : "http_port") 127.0.0.1:\(port)"
        let reverse = """
            \(listening) accel no-vhost defaultsite=localhost \(hasTLS ? "tls-cert=\(folder.path)/server.pem" : "")
            cache_peer 127.0.0.1 parent \(server) 0 no-query no-digest originserver
            \(kind == .squidWithUpgrade ? "http_upgrade_request_protocols websocket allow all" : "")
            """
        return """
            \(kind == .squidTunnel ? listening : reverse)
            http_access allow all
            pid_filename none
            access_log none
            cache_log stdio:/dev/stderr
            cache deny all
            netdb_filename none
            pinger_enable off

            """
    }

    private var tinyproxy: String {
        let rule = "ReverseOnly Yes\nReversePath \"/\" \"http://127.0.0.1:\(server)/\"\n"
        return "Port \(port)\nListen 127.0.0.1\nMaxClients 100\nLogLevel Error\n\(kind == .tinyproxy ? rule : "")"
    }
}
