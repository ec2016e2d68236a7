import EmbeddedServers
import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

@Suite("Compression by URL", .timeLimit(.minutes(5)), .ownThread)
struct DeflateOptionsTests {
    private static let standard = TransportDescriptor.webSocket
    /// A WebSocket transport without zlib.
    private static let without = TransportDescriptor.webSocket(compressor: ZLib(names: ["libnowhere.so"]))
    private static let all =
        "deflate=on&deflate-window=10&deflate-peer-window=11&deflate-context=off&deflate-peer-context=off"

    /// The configuration that a URL gives to a core.
    private static func configuration(
        _ query: String,
        _ compressor: (any MessageCompressor)? = ZLib.shared
    ) throws -> WebSocketConfiguration {
        let settings = try WebSocketSettings.list.read(try Endpoint("ws://host/?\(query)"))
        return settings.configuration(ConnectionLimits()) { compressor }
    }

    /// The extensions that a client offers for its URL.
    private static func offer(_ query: String, _ descriptor: TransportDescriptor = standard) throws -> [String] {
        let transport =
            try descriptor.make(try Endpoint("ws://host/?\(query)"), ConnectionContext()) as? StreamTransport
        var client = WebSocketHarness(try #require(transport?.makeCore() as? WebSocketCore))
        client.start()
        return extensions(in: client.takeOutput())
    }

    /// The extensions that a server agrees to for its URL.
    private static func answer(
        _ query: String,
        to offer: String,
        _ compressor: (any MessageCompressor)? = ZLib.shared
    ) throws -> [String] {
        var server = WebSocketHarness(try WebSocketCore(.server, configuration(query, compressor)))
        server.start()
        server.feed(request(with: ["Sec-WebSocket-Extensions: \(offer)"]))
        let isOpen = server.isOpen
        try #require(isOpen)
        return extensions(in: server.takeOutput())
    }

    private static func extensions(in head: [UInt8]) -> [String] {
        let name = "Sec-WebSocket-Extensions: "
        return String(decoding: head, as: UTF8.self).split(separator: "\r\n").filter { $0.hasPrefix(name) }
            .map { String($0.dropFirst(name.count)) }
    }

    @Test(
        "A client offers the parameters of its URL",
        .enabled(if: ZLib.shared != nil),
        arguments: [
            ("", []), ("deflate=off", []), ("deflate=off&deflate-window=9", []),
            ("deflate=on", ["permessage-deflate; client_max_window_bits"]),
            ("deflate=on&deflate-window=9", ["permessage-deflate; client_max_window_bits=9"]),
            (
                "deflate=small&deflate-peer-window=14",
                ["permessage-deflate; server_max_window_bits=14; client_max_window_bits=10"]
            ),
            (
                all,
                [
                    "permessage-deflate; server_no_context_takeover; client_no_context_takeover; "
                        + "server_max_window_bits=11; client_max_window_bits=10"
                ]
            ),
        ] as [(String, [String])]
    )
    func offers(query: String, expected: [String]) throws {
        #expect(try Self.offer(query) == expected)
    }

    @Test(
        "A server agrees to the parameters of its URL",
        .enabled(if: ZLib.shared != nil),
        arguments: [
            ("", "permessage-deflate", []),
            ("deflate=on", "permessage-deflate", ["permessage-deflate"]),
            (
                all, "permessage-deflate; client_max_window_bits",
                [
                    "permessage-deflate; server_no_context_takeover; client_no_context_takeover; "
                        + "server_max_window_bits=10; client_max_window_bits=11"
                ]
            ),
        ] as [(String, String, [String])]
    )
    func answers(query: String, offer: String, expected: [String]) throws {
        #expect(try Self.answer(query, to: offer) == expected)
    }

    @Test(
        "Messages below the threshold are sent uncompressed",
        .enabled(if: ZLib.shared != nil),
        arguments: [59, 60, 61]
    )
    func threshold(size: Int) async throws {
        let configuration = try Self.configuration("deflate=on&deflate-threshold=60&max-expansion=7")
        #expect(configuration.compression?.expansion.factor == 7)
        var server = WebSocketHarness(try WebSocketCore(.server, configuration))
        server.start()
        server.feed(request(with: ["Sec-WebSocket-Extensions: permessage-deflate"]))
        _ = server.takeOutput()
        _ = try server.send(Payload(text: String(repeating: "a", count: size)))
        #expect(server.takeOutput().first == (size < 60 ? 0x81 : 0xc1))
    }

    @Test(
        "A wrong option is refused with its name and the allowed values, at both ends, with or without zlib",
        arguments: [
            ("deflate=yes", "deflate", #""on", "off", "small""#),
            ("deflate=on&deflate-window=8", "deflate-window", "9 to 15"),
            ("deflate=off&deflate-window=16", "deflate-window", "9 to 15"),
            ("deflate=on&deflate-peer-window=small", "deflate-peer-window", "9 to 15"),
            ("deflate=small&deflate-context=no", "deflate-context", #""on" or "off""#),
            ("deflate=small&deflate-peer-context=2", "deflate-peer-context", #""on" or "off""#),
            ("deflate=on&deflate-threshold=0", "deflate-threshold", "1 to 2147483647"),
            ("deflate=on&deflate-threshold=9&deflate-threshold=9", "deflate-threshold", "once"),
            ("deflate-context=off", "deflate-context", "deflate=on or deflate=small"),
            ("deflate-windows=9&deflate=on", "deflate-windows", "deflate-window,"),
        ]
    )
    func wrong(query: String, key: String, allowed: String) async throws {
        for descriptor in [Self.standard, Self.without] {
            let registry = TransportRegistry([descriptor])
            let client = #expect(throws: TransportError.self) {
                try registry.transport(for: try Endpoint("ws://127.0.0.1/?\(query)"))
            }
            let server = await #expect(throws: TransportError.self) {
                try await registry.listen("ws://127.0.0.1:0/?\(query)")
            }
            for error in [client, server] {
                #expect(error?.code == .invalidConfiguration)
                let sentence = error?.reason ?? ""
                #expect(sentence.hasPrefix("\(key) ") && sentence.contains(allowed), "\(sentence)")
            }
        }
    }

    @Test("A configuration file accepts the options in an endpoint, and the error of a wrong one has its line")
    func file() throws {
        let good = #"{"endpoints": ["ws://host/?\#(Self.all)&deflate-threshold=100"]}"#
        #expect(try TransportConfiguration(json: good.utf8, label: "chat.json").endpoints.first?.options.count == 6)
        let bad = "{\n\"endpoints\": [\"ws://host/?deflate=on&deflate-window=8\"]}"
        let error = #expect(throws: TransportError.self) {
            try TransportConfiguration(json: bad.utf8, label: "chat.json")
        }
        let sentence = error?.reason ?? ""
        #expect(sentence.hasPrefix("chat.json:2") && sentence.contains(#"deflate-window is "8""#), "\(sentence)")
    }

    @Test(
        "Client and server agree on compression for any two URLs",
        .enabled(if: ZLib.shared != nil),
        arguments: ["on", "small", "off"],
        ["on", "small", "off"]
    )
    func agreement(client: String, server: String) async throws {
        let echo = try await EmbeddedServer.start("ws://127.0.0.1:0/?deflate=\(server)")
        let port = try #require(echo.endpoint.port)
        let connection = try await TransportRegistry.standard.connect("ws://127.0.0.1:\(port)/?deflate=\(client)")
        let message = Payload(text: String(repeating: "soup or salad? ", count: 1000))
        for _ in 0..<3 {
            #expect(await connection.send(message) == .written)
            #expect(try await connection.receive() == message)
        }
        let sent = await connection.statistics().bytesSent
        #expect((sent < 5000) == (client != "off" && server != "off"))
        await connection.close()
        await echo.stop()
    }

    // MARK: Without zlib

    @Test(
        "zlib is missing if no library has the name, or if the library is another one",
        arguments: ["libnowhere.so", "libc.so.6"]
    )
    func noLibrary(name: String) {
        #expect(ZLib(names: [name]) == nil)
    }

    @Test(
        "A client without zlib offers no extension and accepts none",
        arguments: ["deflate=on", "deflate=small", all]
    )
    func clientWithout(query: String) throws {
        #expect(try Self.offer(query, Self.without) == [])
        var client = WebSocketHarness(try WebSocketCore(.client, try Self.configuration(query, nil)))
        client.start()
        client.feed(response(key: client.core.key, with: ["Sec-WebSocket-Extensions: permessage-deflate"]))
        #expect(client.failure?.code == .handshakeFailed)
    }

    @Test("A server without zlib declines the extension", arguments: ["deflate=on", "deflate=small", all])
    func serverWithout(query: String) throws {
        #expect(try Self.answer(query, to: "permessage-deflate; client_max_window_bits", nil) == [])
    }

    @Test(
        "With deflate=on, messages go uncompressed if one side has no zlib, as the meaning of the option says",
        arguments: [(false, true), (true, false), (false, false)]
    )
    func live(clientHasOne: Bool, serverHasOne: Bool) async throws {
        let client = clientHasOne ? Self.standard : Self.without
        let server = serverHasOne ? Self.standard : Self.without
        let option = client.clientSettings.first { $0.name == "deflate" }
        #expect(option?.meaning.contains("else sends as it is") == true)
        let echo = try await EmbeddedServer.start("ws://127.0.0.1:0/?deflate=on", registry: TransportRegistry([server]))
        let port = try #require(echo.endpoint.port)
        let connection = try await TransportRegistry([client]).connect("ws://127.0.0.1:\(port)/?deflate=on")
        let message = Payload(text: String(repeating: "soup or salad? ", count: 1000))
        #expect(await connection.send(message) == .written)
        #expect(try await connection.receive() == message)
        #expect(await connection.statistics().bytesSent > message.bytes.count)
        await connection.close()
        await echo.stop()
    }
}
