import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

/// Connects through proxies of other projects.
@Suite("Proxies of other projects", .serialized, .timeLimit(.minutes(5)), .ownThread)
struct ForeignProxyTests {
    private static let schemes = TransportRegistry.available.transports.filter {
        $0.hasSetting("proxy")
    }
    .map(\.name)

    /// A proxy on a port of this machine, with the user ann and the password secret, or without users.
    private final class Proxy {
        let reserved: ReservedPort
        /// The port for TLS, if the proxy has one.
        private let secure: ReservedPort?
        private let folder: ScratchFolder
        private let process: Peer

        private init(
            _ executable: String?,
            hasTLS: Bool = false,
            leadsGroup: Bool = false,
            _ arguments: (ScratchFolder, UInt16, UInt16) throws -> [String]
        ) throws {
            reserved = try ReservedPort(isDatagram: false)
            secure = hasTLS ? try ReservedPort(isDatagram: false) : nil
            folder = try ScratchFolder()
            let words = try arguments(folder, reserved.port, secure?.port ?? 0)
            process = try Peer(try #require(executable), words, leadsGroup: leadsGroup)
        }

        static func tinyproxy(password: Bool, _ more: String = "") throws -> Proxy {
            try Proxy(Peers.tinyproxy) { folder, port, _ in
                let user = password ? "BasicAuth ann secret" : ""
                let text = "Port \(port)\nListen 127.0.0.1\nMaxClients 10\nLogLevel Error\n\(user)\n\(more)\n"
                return ["-d", "-c", try folder.write("tinyproxy.conf", text)]
            }
        }

        /// Squid, with the password only, without TLS and with it.
        static func squid() throws -> Proxy {
            try Proxy(Peers.squid, hasTLS: true, leadsGroup: true) { folder, port, securePort in
                // The MD5 hash of "secret" in Apache's format.
                let users = try folder.write("users", "ann:$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/\n")
                let server = try TrialTLS.credentials.get()
                let certificate = try folder.write("server.pem", server.certificate + server.key)
                let text = """
                    http_port 127.0.0.1:\(port)
                    https_port 127.0.0.1:\(securePort) tls-cert=\(certificate)
                    auth_param basic program /usr/lib/squid/basic_ncsa_auth \(users)
                    acl users proxy_auth REQUIRED
                    http_access allow users
                    http_access deny all
                    pid_filename none
                    access_log none
                    cache_log /dev/null
                    cache deny all
                    netdb_filename none
                    pinger_enable off

                    """
                return ["-N", "-f", try folder.write("squid.conf", text)]
            }
        }

        static func microsocks(password: Bool) throws -> Proxy {
            try Proxy(Peers.microsocks) { _, port, _ in
                ["-i", "127.0.0.1", "-p", "\(port)"] + (password ? ["-u", "ann", "-P", "secret"] : [])
            }
        }

        /// Dante, without users, which opens no tunnel to the port `blocked`.
        static func dante(blocked: UInt16) throws -> Proxy {
            try Proxy(Peers.danted, leadsGroup: true) { folder, port, _ in
                let text = """
                    logoutput: /dev/null
                    internal: 127.0.0.1 port = \(port)
                    external: lo
                    clientmethod: none
                    socksmethod: none
                    client pass { from: 127.0.0.1/32 to: 0/0 }
                    socks block { from: 0/0 to: 0/0 port = \(blocked) }
                    socks pass { from: 0/0 to: 0/0 }

                    """
                return ["-N", "1", "-f", try folder.write("danted.conf", text)]
            }
        }

        /// Makes the proxy accept connections and answer nothing.
        func freeze() { process.signal(SIGSTOP) }

        /// The options of a client with this scheme and these credentials, such as "socks5://ann:secret@".
        func options(_ proxy: String) throws -> [Endpoint.Option] {
            let port = proxy.hasPrefix("https") ? secure?.port : nil
            let option = Endpoint.Option(name: "proxy", value: "\(proxy)127.0.0.1:\(port ?? reserved.port)")
            guard proxy.hasPrefix("https") else { return [option] }
            return [option, .init(name: "proxy-ca", value: try TrialTLS.credentials.get().authority)]
        }

        /// Connects once the proxy listens.
        func connect(_ endpoint: Endpoint, _ proxy: String, timeout: Duration = .seconds(60)) async throws
            -> any Connection
        {
            var endpoint = endpoint
            endpoint.options += try options(proxy)
            while true {
                do throws(TransportError) {
                    return try await TransportRegistry.available.connect(endpoint, timeout: timeout)
                } catch {
                    let isStarting = error.code == .refused && error.reason.hasPrefix("the proxy: ")
                    guard isStarting, !Task.isCancelled else { throw error }
                    await Task.yield()
                }
            }
        }

        func failure(_ endpoint: Endpoint, _ proxy: String, timeout: Duration = .seconds(60)) async -> TransportError? {
            await #expect(throws: TransportError.self) { _ = try await connect(endpoint, proxy, timeout: timeout) }
        }

        /// Sends messages of every transport to an echo server and back.
        func echo(_ proxy: String) async throws {
            for scheme in schemes {
                let server = try await EmbeddedServer.start("\(scheme)://127.0.0.1:0", registry: .available)
                var endpoint = server.endpoint
                endpoint.host = "localhost"
                endpoint.options = try TransportRegistry.available.transport(named: scheme).loopback("proxied")
                let connection = try await connect(endpoint, proxy)
                for size in [0, 5, 300_000] {
                    let sent = [UInt8](repeating: 7, count: size)
                    #expect(await connection.send(Payload(sent)).isSuccess)
                    #expect(try await connection.receive()?.bytes == sent)
                }
                await connection.close()
                await server.stop()
            }
        }
    }

    /// An endpoint that no attempt of a test reaches.
    private static func away() throws -> (Endpoint, ReservedPort) {
        let reserved = try ReservedPort(isDatagram: false)
        return (Endpoint(scheme: "tcp", host: "127.0.0.1", port: reserved.port), reserved)
    }

    @Test(
        "tinyproxy opens tunnels for every stream transport",
        .enabled(if: Peers.tinyproxy != nil),
        arguments: [false, true]
    )
    func tinyproxy(password: Bool) async throws {
        let proxy = try Proxy.tinyproxy(password: password)
        try await proxy.echo(password ? "http://ann:secret@" : "http://")
    }

    /// tinyproxy 1.11 answers wrong credentials with 401. HTTP defines 407 for that.
    @Test("The errors of tinyproxy have their reasons", .enabled(if: Peers.tinyproxy != nil))
    func tinyproxyErrors() async throws {
        let (endpoint, reserved) = try Self.away()
        let proxy = try Proxy.tinyproxy(password: true, "ConnectPort \(endpoint.port ?? 0)")
        let wrong = await proxy.failure(endpoint, "http://ann:hunter2@")
        #expect(wrong?.code == .authenticationFailed && wrong?.description.contains("hunter2") == false)
        #expect(await proxy.failure(endpoint, "http://")?.code == .authenticationFailed)
        #expect(await proxy.failure(endpoint, "http://ann:secret@")?.code == .serverUnavailable)
        var blocked = endpoint
        blocked.port = proxy.reserved.port
        #expect(await proxy.failure(blocked, "http://ann:secret@")?.code == .forbidden)
        withExtendedLifetime(reserved) {}
    }

    @Test(
        "squid opens tunnels for every stream transport, with TLS to the proxy and without",
        .enabled(if: Peers.squid != nil && hasOpenSSL),
        arguments: ["http", "https"]
    )
    func squid(scheme: String) async throws {
        let proxy = try Proxy.squid()
        try await proxy.echo("\(scheme)://ann:secret@")
        let (endpoint, reserved) = try Self.away()
        let wrong = await proxy.failure(endpoint, "\(scheme)://ann:hunter2@")
        #expect(wrong?.code == .authenticationFailed && wrong?.detail == 407)
        #expect(wrong?.description.contains("hunter2") == false)
        #expect(await proxy.failure(endpoint, "\(scheme)://")?.detail == 407)
        #expect(await proxy.failure(endpoint, "\(scheme)://ann:secret@")?.code == .serverUnavailable)
        withExtendedLifetime(reserved) {}
    }

    @Test(
        "microsocks opens tunnels for every stream transport",
        .enabled(if: Peers.microsocks != nil),
        arguments: [false, true]
    )
    func microsocks(password: Bool) async throws {
        let proxy = try Proxy.microsocks(password: password)
        try await proxy.echo(password ? "socks5://ann:secret@" : "socks5://")
        // Credentials that the proxy does not need are not sent.
        if !password { try await proxy.echo("socks5://ann:secret@") }
    }

    @Test("The errors of microsocks have their reasons", .enabled(if: Peers.microsocks != nil))
    func microsocksErrors() async throws {
        let (endpoint, reserved) = try Self.away()
        let proxy = try Proxy.microsocks(password: true)
        let wrong = await proxy.failure(endpoint, "socks5://ann:hunter2@")
        #expect(wrong?.code == .authenticationFailed && wrong?.description.contains("hunter2") == false)
        let missing = await proxy.failure(endpoint, "socks5://")
        #expect(
            missing?.code == .authenticationFailed && missing?.reason.contains("requires user and password") == true
        )
        let refused = await proxy.failure(endpoint, "socks5://ann:secret@")
        #expect(refused?.code == .refused && refused?.detail == 5)
        let http = await proxy.failure(endpoint, "http://ann:secret@")
        #expect(http?.phase == .connect && http?.reason.hasPrefix("the proxy") == true)
        withExtendedLifetime(reserved) {}
    }

    @Test(
        "Dante opens tunnels for every stream transport, and refuses those that its rules block",
        .enabled(if: Peers.danted != nil)
    )
    func dante() async throws {
        let (endpoint, reserved) = try Self.away()
        let proxy = try Proxy.dante(blocked: reserved.port)
        try await proxy.echo("socks5://")
        let blocked = await proxy.failure(endpoint, "socks5://")
        #expect(blocked?.code == .forbidden && blocked?.detail == 2)
        withExtendedLifetime(reserved) {}
    }

    @Test("A proxy that is down, or that never answers, ends the attempt", .enabled(if: Peers.microsocks != nil))
    func noAnswer() async throws {
        let (endpoint, reserved) = try Self.away()
        let registry = TransportRegistry.available
        for scheme in ["http", "https", "socks5"] {
            let url = "\(endpoint)/?proxy=\(scheme)://127.0.0.1:\(reserved.port)"
            let error = await #expect(throws: TransportError.self) { _ = try await registry.connect(url) }
            #expect(error?.code == .refused && error?.reason.hasPrefix("the proxy: ") == true)
        }
        let proxy = try Proxy.microsocks(password: true)
        #expect(await proxy.failure(endpoint, "socks5://ann:secret@")?.detail == 5)
        proxy.freeze()
        for scheme in ["http", "socks5"] {
            let error = await proxy.failure(endpoint, "\(scheme)://ann:secret@", timeout: .seconds(5))
            #expect(error?.code == .timedOut && error?.reason == "the proxy did not answer in time")
        }
        withExtendedLifetime(reserved) {}
    }

    @Test(
        "A program uses the proxy of its environment if its URL requests it",
        .enabled(if: Peers.microsocks != nil && Peers.closeAndExit != nil)
    )
    func environment() async throws {
        let program = try #require(Peers.closeAndExit)
        let (endpoint, reserved) = try Self.away()
        let proxy = try Proxy.microsocks(password: true)
        // From now on the proxy listens.
        #expect(await proxy.failure(endpoint, "socks5://ann:secret@")?.detail == 5)
        let server = try await TransportRegistry.standard.listen("tcp://127.0.0.1:0")
        let variable = "ALL_PROXY=socks5://ann:secret@127.0.0.1:\(proxy.reserved.port)"
        let wrong = "ALL_PROXY=socks5://ann:hunter2@127.0.0.1:\(proxy.reserved.port)"
        for (variables, query, line) in [
            ([variable], "?proxy=environment", "0"),
            ([wrong], "?proxy=environment", "does not accept user and password"),
            ([wrong, "NO_PROXY=127.0.0.0/8"], "?proxy=environment", "0"), ([wrong], "", "0"),
        ] {
            let words = variables + [program, "\(server.endpoint)/\(query)", "100000"]
            let output = try await aside {
                let peer = try Peer("/usr/bin/env", words)
                return peer.line()
            }
            #expect(output?.contains(line) == true && output?.contains("hunter2") == false, "\(output ?? "")")
        }
        await server.close()
        withExtendedLifetime(reserved) {}
    }
}
