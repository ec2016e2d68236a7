import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

@Suite("Proxies of the environment")
struct ProxyEnvironmentTests {
    /// The host of the proxy that these variables name for a server.
    static func host(
        _ variables: [String: String],
        to server: String = "a.example",
        isEncrypted: Bool
    ) throws -> String? {
        try ProxyEnvironment { variables[$0] }.proxy(to: server, port: 443, isEncrypted: isEncrypted)?.host
    }

    @Test("Encrypted transports read HTTPS_PROXY, then ALL_PROXY, and plain ones read only ALL_PROXY")
    func order() throws {
        let all = ["HTTPS_PROXY": "http://https", "HTTP_PROXY": "http://http", "ALL_PROXY": "socks5://all"]
        #expect(try Self.host(all, isEncrypted: true) == "https")
        #expect(try Self.host(all, isEncrypted: false) == "all")
        #expect(try Self.host(["ALL_PROXY": "https://all"], isEncrypted: true) == "all")
        for name in ["HTTP_PROXY", "http_proxy"] {
            #expect(try Self.host([name: "http://http"], isEncrypted: false) == nil)
            #expect(try Self.host([name: "http://http"], isEncrypted: true) == nil)
        }
        #expect(try Self.host(["HTTPS_PROXY": "http://https"], isEncrypted: false) == nil)
        #expect(try Self.host([:], isEncrypted: true) == nil)
    }

    @Test("The name in lower case has precedence, and an empty variable counts as missing")
    func lowerCase() throws {
        for name in ["https_proxy", "all_proxy"] {
            let both = [name: "http://lower", name.uppercased(): "http://upper"]
            #expect(try Self.host(both, isEncrypted: true) == "lower")
            #expect(try Self.host(both.merging([name: ""]) { $1 }, isEncrypted: true) == "upper")
        }
        let variables = ["ALL_PROXY": "http://p", "NO_PROXY": "*", "no_proxy": "b.example"]
        #expect(try Self.host(variables, isEncrypted: false) == "p")
        #expect(try Self.host(variables, to: "b.example", isEncrypted: false) == nil)
    }

    @Test("A value without a scheme is an HTTP proxy")
    func withoutScheme() throws {
        let environment = ProxyEnvironment { ["all_proxy": "u:p@p:3128/"][$0] }
        let proxy = try environment.proxy(to: "a.example", port: 1, isEncrypted: false)
        #expect(proxy?.kind == .http && proxy?.host == "p" && proxy?.port == 3128 && proxy?.user == "u")
    }

    @Test("A wrong value is an error that names the variable and quotes nothing of it")
    func wrong() {
        for value in [
            "ftp://u:hunter2@p", "socks4://u:hunter2@p", "http://u:hunter2@p/x", "u:hunter2@p:x", "hunter2 p", "://",
        ] {
            #expect(refusedKey { try Self.host(["ALL_PROXY": value], isEncrypted: true) } == "ALL_PROXY")
            #expect(refusedKey { try Self.host(["https_proxy": value], isEncrypted: true) } == "https_proxy")
            let error = #expect(throws: TransportError.self) { try Self.host(["ALL_PROXY": value], isEncrypted: true) }
            #expect(error?.description.contains("hunter2") == false)
        }
    }

    @Test("An unreadable entry of NO_PROXY is ignored, and the others apply")
    func unreadableException() throws {
        for list in ["hunter2/8, b.example", "b.example, a*b", "10.0.0.0/33 b.example http://x"] {
            let variables = ["ALL_PROXY": "http://p", "NO_PROXY": list]
            #expect(try Self.host(variables, isEncrypted: true) == "p")
            #expect(try Self.host(variables, to: "b.example", isEncrypted: true) == nil)
        }
    }

    @Test("The variables may name a SOCKS proxy as socks5h, as for curl, and a URL may not")
    func remoteNames() throws {
        let environment = ProxyEnvironment { ["all_proxy": "SOCKS5H://u:p@p"][$0] }
        let proxy = try environment.proxy(to: "a.example", port: 1, isEncrypted: false)
        #expect(proxy?.kind == .socks5 && proxy?.host == "p" && proxy?.port == 1080 && proxy?.user == "u")
        #expect(refusedKey { try Self.route("proxy=socks5h://p") } == "proxy")
    }

    /// The route of a client's URL, with these variables in the environment.
    static func route(
        _ query: String,
        _ variables: [String: String] = [:],
        security: StreamSecurity? = nil
    ) throws -> ProxyRoute? {
        let settings = try ProxySettings.settings.read(try Endpoint("tcp://a.example/?\(query)"))
        return try .to("a.example", port: 1, settings, security: security, ProxyEnvironment { variables[$0] })
    }

    @Test("The environment is read only if the URL requests it")
    func onRequest() throws {
        let variables = ["ALL_PROXY": "socks5://p", "https_proxy": "https://q"]
        #expect(try Self.route("", variables) == nil)
        #expect(try Self.route("proxy=http://r", variables)?.host == "r")
        #expect(try Self.route("proxy=environment", variables)?.host == "p")
        let route = try Self.route("proxy=environment", variables, security: .openSSL)
        #expect(route?.host == "q" && route?.tls != nil)
        #expect(try Self.route("proxy=environment") == nil)
    }

    @Test("Only an https:// proxy can have authorities")
    func authorities() throws {
        #expect(try Self.route("proxy=https://p&proxy-ca=/ca.pem")?.tls != nil)
        #expect(try Self.route("proxy=environment&proxy-ca=/ca.pem") == nil)
        for query in ["proxy-ca=/ca.pem", "proxy=http://p&proxy-ca=/ca.pem", "proxy=https://p&proxy-ca="] {
            #expect(refusedKey { try Self.route(query) } == "proxy-ca")
        }
    }

    @Test("A connection goes through the proxy of the environment", .timeLimit(.minutes(5)), .ownThread)
    func connection() async throws {
        let server = try await TransportRegistry.standard.listen("tcp://127.0.0.1:0")
        let proxy = try ProxyServer(.socks5(user: "ann", password: "secret"))
        let recipes = StreamRecipes(
            usual: .init(defaultPort: 1),
            encrypted: [:],
            settings: StreamClientSettings.settings(SettingList(()), keepalive: .seconds(60), nil),
            serverSettings: [],
            client: { (_, _) throws(TransportError) in
                let core = try FramedTCPCore(TCPConfiguration())
                return { core }
            },
            prepare: { _, _ in },
            keepsCookies: { false },
            redirect: StreamRecipes<Void>.nowhere,
            environment: ProxyEnvironment { ["ALL_PROXY": "socks5://ann:secret@127.0.0.1:\(proxy.port)"][$0] }
        )
        var endpoint = server.endpoint
        endpoint.options = [.init(name: "proxy", value: "environment")]
        let connection = try await recipes.make(endpoint, ConnectionContext()).connect(timeout: .seconds(60))
        #expect(proxy.count == 1)
        await connection.close()
        await server.close()
        proxy.stop()
    }
}
