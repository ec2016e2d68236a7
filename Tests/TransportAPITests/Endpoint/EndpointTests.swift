import Testing
import TransportAPI

@Suite("Endpoints")
struct EndpointTests {
    @Test("A full URL gives all its parts, decoded")
    func fullURL() throws {
        let endpoint = try Endpoint(
            "MQTT://ann%40work:s%3Acr%40t@broker.example:1883/a%20b/c?subscribe=chat%2Fin&publish=chat/out&flag&flag="
        )
        #expect(endpoint.scheme == "mqtt")
        #expect(endpoint.user == "ann@work")
        #expect(endpoint.password == "s:cr@t")
        #expect(endpoint.host == "broker.example")
        #expect(endpoint.port == 1883)
        #expect(endpoint.path == "/a%20b/c")
        #expect(
            endpoint.options == [
                .init(name: "subscribe", value: "chat/in"), .init(name: "publish", value: "chat/out"),
                .init(name: "flag", value: ""), .init(name: "flag", value: ""),
            ]
        )
    }

    @Test(
        "Host and port are separated in every form of host",
        arguments: [
            ("tcp://host", "host", nil),
            ("tcp://host:", "host", nil),
            ("tcp://host:0", "host", 0),
            ("tcp://host:00080", "host", 80),
            ("tcp://127.0.0.1:65535", "127.0.0.1", 65535),
            ("tcp://[::1]", "::1", nil),
            ("tcp://[::1]:9000/x", "::1", 9000),
            ("tcp://[fe80::1%25eth0]:9000", "fe80::1%eth0", 9000),
            ("tcp://user@host:1", "host", 1),
            ("tcp://a@b@host:1", "host", 1),
            ("tcp://%68ost:1", "host", 1),
            ("tcp://host:1?a=b", "host", 1),
            ("tcp://host/a:b@c://d", "host", nil),
        ] as [(String, String, UInt16?)]
    )
    func hosts(url: String, host: String, port: UInt16?) throws {
        let endpoint = try Endpoint(url)
        #expect(endpoint.host == host)
        #expect(endpoint.port == port)
    }

    @Test(
        "The query of a server's URL is sent unchanged",
        arguments: [
            ("wss://host/socket?token=abc", "token=abc"), ("wss://host?a=b%20c&d=%26%3D?e", "a=b%20c&d=%26%3D?e"),
            ("wss://host/socket", nil), ("wss://host/socket?", nil), ("wss://host?deflate=on", "deflate=on"),
        ] as [(String, String?)]
    )
    func serverURL(url: String, query: String?) throws {
        let endpoint = try Endpoint(server: url, options: [.init(name: "deflate", value: "small")])
        let sent = query.map { [Endpoint.Option(name: "query", value: $0)] } ?? []
        #expect(endpoint.options == sent + [.init(name: "deflate", value: "small")])
        #expect(endpoint.scheme == "wss" && endpoint.host == "host")
    }

    @Test("A server's URL with a fragment, a space or too many bytes is refused")
    func brokenServerURL() throws {
        let long = String(repeating: "a", count: Endpoint.maximumLength)
        for (url, part) in [("ws://host?a#b", "'#'"), ("ws://host?a b", "a space"), ("ws://host?\(long)", "longer")] {
            let error = #expect(throws: TransportError.self) { try Endpoint(server: url) }
            #expect(error?.code == .invalidConfiguration && error?.reason.contains(part) == true)
        }
    }

    @Test("User and password may be missing, be empty, or contain further colons")
    func credentials() throws {
        #expect(try Endpoint("ws://host").user == nil)
        let nameless = try Endpoint("ws://:secret@host")
        #expect(nameless.user == "" && nameless.password == "secret")
        let user = try Endpoint("ws://ann@host")
        #expect(user.user == "ann" && user.password == nil)
        let empty = try Endpoint("ws://ann:@host")
        #expect(empty.password == "")
        #expect(try Endpoint("ws://ann:a:b@host").password == "a:b")
    }

    @Test("Options keep their order, empty pairs are dropped, and a value may contain '=' and '?'")
    func options() throws {
        let options = try Endpoint("ws://host/?&b=1&&a=x=y?z&=v&").options
        #expect(
            options == [.init(name: "b", value: "1"), .init(name: "a", value: "x=y?z"), .init(name: "", value: "v")]
        )
        #expect(try Endpoint("ws://host?").options.isEmpty)
    }

    @Test("An escaped '#' is an ordinary character in any part")
    func escapedHash() throws {
        let endpoint = try Endpoint("mqtt://a%23n:s%23t@host/?subscribe=chat/%23")
        #expect(endpoint.user == "a#n" && endpoint.password == "s#t")
        #expect(endpoint.options == [.init(name: "subscribe", value: "chat/#")])
    }

    @Test(
        "A bad URL is refused with the name of the part that is wrong",
        arguments: [
            ("", "url"), ("host:80", "url"), ("://host", "url"), ("tcp:/host", "url"), ("tcp://ho st", "url"),
            ("tcp://host\u{7f}", "url"), ("tcp://host\n", "url"),
            ("tcp://" + String(repeating: "a", count: 8192), "url"),
            ("memory://name#fragment", "url"), ("ws://host/p?x#y=z", "url"), ("mqtt://host?subscribe=a/#", "url"),
            ("tcp://ann:s#t@host:1", "url"), ("ws://host/#\u{301}f", "url"),
            ("1tcp://host", "scheme"), ("t_p://host", "scheme"), ("tçp://host", "scheme"), ("+://host", "scheme"),
            ("tcp://", "host"), ("tcp://:80", "host"), ("tcp:///path", "host"), ("tcp://ann@", "host"),
            ("tcp://8080", "host"), ("ws://ann@8080/x", "host"),
            ("mqtt://ann:12/ab@127.0.0.1:1883", "path"), ("mqtt://ann:p@ss/w@host", "path"),
            ("mqtt://ann:pass/w@host", "path"), ("tcp://::1:80", "host"), ("tcp://[::1", "host"),
            ("tcp://[host]:80", "host"), ("tcp://[]", "host"),
            ("tcp://a%3Ab:80", "host"), ("tcp://a%20b", "host"), ("tcp://a%zz", "host"), ("tcp://a%0ab", "host"),
            ("tcp://host:x", "port"), ("tcp://host:-1", "port"), ("tcp://host:+1", "port"),
            ("tcp://host:65536", "port"),
            ("tcp://host:１", "port"), ("tcp://[::1]80", "port"), ("tcp://host:99999999999999999999", "port"),
            ("tcp://a%:b@host", "user"), ("tcp://a%00:b@host", "user"), ("tcp://ann:%ff@host", "password"),
            ("tcp://ann:%4@host", "password"), ("tcp://host?%zz=1", "query"), ("tcp://host?token=%c3", "token"),
        ]
    )
    func badURL(url: String, key: String) {
        let error = #expect(throws: TransportError.self) { try Endpoint(url) }
        #expect(error?.code == .invalidConfiguration)
        #expect(error?.phase == .configure)
        #expect(error?.reason.hasPrefix(key + " ") == true, "\(error?.reason ?? "")")
    }

    @Test(
        "No error shows text that may be a password",
        arguments: [
            "//ann:hunter2@host:80", "ann:hunter2@host", "ann:hunter2@host/?next=http://x", "tcp://ann:hunter2/3@host",
            "tcp://ann:hun?hunter2%zz@host", "tcp://ann:x:hunter2/@host", "tcp://[hunter2/@host",
            "tcp://ann:hunter2%@h", "mqtt://ann:12/hunter2@host:1", "mqtt://ann:a@b/hunter2@host",
            "tcp://ann:hunter2@", "tcp://ann:hunter2@host:port", "tcp://ann:hunter2@[host]", "tcp://ann:hunter2 @host",
            "tcp://ann:#hunter2@host", "wss://h/?proxy=http://ann:se&hunter2@p:3128",
        ]
    )
    func errorsKeepPasswords(url: String) {
        let error = #expect(throws: TransportError.self) { try Endpoint(url) }
        #expect(error?.description.contains("hunter2") == false)
    }

    @Test("The description and the dump of an endpoint show no user and no password")
    func descriptionKeepsPasswords() throws {
        let secrets = "header=Authorization:Bearer%20hunter2&proxy=http://ann:hunter2@[::1]:1"
        let endpoint = try Endpoint("mqtt://ann:hunter2@host:1883/p?q=v&\(secrets)")
        var dumped = ""
        dump(endpoint, to: &dumped)
        for text in ["\(endpoint)", String(reflecting: endpoint), dumped, "\([endpoint])"] {
            #expect(!text.contains("hunter2") && !text.contains("ann"))
        }
        #expect(
            endpoint.description == "mqtt://host:1883/p?q=v&header=Authorization&proxy=http://%5B::1%5D:1"
        )
    }

    @Test(
        "The description of an endpoint shows the scheme of a proxy, and no credentials",
        arguments: [
            ("http://ann:hunter2@p:1", "http://p:1"), ("https://ann:hunter2@p/", "https://p/"),
            ("SOCKS5://ann:hunter2@p", "socks5://p"), ("http://p", "http://p"), ("environment", "environment"),
            ("ann:hunter2@p", "p"), ("hunter2://ann@p", "p"), ("http://ann:hunter2://@p", "http://p"),
        ]
    )
    func proxy(value: String, shown: String) {
        let endpoint = Endpoint(scheme: "ws", host: "h", options: [.init(name: "proxy", value: value)])
        #expect(endpoint.description == "ws://h?proxy=\(shown)")
    }

    @Test(
        "The description of an endpoint reads back as the same endpoint",
        arguments: [
            "tcp://host", "tcp://[fe80::1%25eth0]:1/x?a=b", "ws://h%2Fx:2/a%20b?x=%26%3D%25&y&z=1,2+3",
            "memory://a-b_c.d~e",
            "tcp://h%40x", "tcp://h?%26=1",
        ]
    )
    func roundTrip(url: String) throws {
        let endpoint = try Endpoint(url)
        #expect(try Endpoint(endpoint.description) == endpoint)
    }

    @Test("A path may contain an '@' if no password can be meant, and an escaped one anywhere")
    func pathWithAt() throws {
        #expect(try Endpoint("wss://chat.example/users/@me").path == "/users/@me")
        #expect(try Endpoint("ws://[::1]:80/@me").path == "/@me")
        #expect(try Endpoint("ws://127.0.0.1:80/%40me").path == "/%40me")
    }

    @Test("The description has the names of a server's query, and no values")
    func query() throws {
        let endpoint = try Endpoint(server: "wss://chat.example/socket?token=hunter2&room=5&hunter2")
        #expect(endpoint.description == "wss://chat.example/socket?query=token%3D%26room%3D")
    }

    @Test("A combining mark behind a delimiter does not hide the delimiter")
    func combiningMarks() throws {
        let mark = "\u{301}"
        let endpoint = try Endpoint("tcp://ann:secret@\(mark)h:1/\(mark)p?\(mark)q=\(mark)v&\(mark)r")
        #expect(endpoint.password == "secret")
        #expect(endpoint.host == mark + "h" && endpoint.port == 1)
        #expect(endpoint.path == "/\(mark)p")
        #expect(endpoint.options == [.init(name: mark + "q", value: mark + "v"), .init(name: mark + "r", value: "")])
    }
}
