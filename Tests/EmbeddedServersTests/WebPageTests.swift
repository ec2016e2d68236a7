import EmbeddedServers
import Foundation
import Protocols
import TestSupport
import Testing
import TransportAPI
import Transports

/// Tests handshakes as browsers send them to servers on loopback. A page cannot change its Origin.
@Suite("A web page and a server on loopback", .timeLimit(.minutes(5)), .ownThread)
struct WebPageTests {
    /// Each kind of server that supports WebSocket, started as an app starts it.
    enum Kind: CaseIterable {
        case echo, registry, broker, brokerWithUsers, chat
    }

    /// A server and the events of its owner.
    private struct Started {
        var port: UInt16
        var isBroker = false
        var events: AsyncStream<ServerEvent>
        var stop: @Sendable () async -> Void

        init(_ kind: Kind, _ query: String = "", host: String = "127.0.0.1") async throws {
            let (stream, continuation) = AsyncStream.makeStream(of: ServerEvent.self)
            events = stream
            let observer: ServerObserver = { continuation.yield($0) }
            let url = "ws://\(host):0/?\(query)"
            let endpoint: Endpoint
            switch kind {
            case .echo:
                let server = try await EmbeddedServer.start(url, observer: observer)
                (endpoint, stop) = (server.endpoint, { await server.stop() })
            case .registry:
                let listener = try await TransportRegistry.standard.listen(url, observer: observer)
                (endpoint, stop) = (listener.endpoint, { await listener.close() })
            case .broker:
                let server = try await EmbeddedServer.start("mqtt+\(url)", observer: observer)
                (endpoint, stop, isBroker) = (server.endpoint, { await server.stop() }, true)
            case .brokerWithUsers:
                let server = try await EmbeddedServer.startBroker(
                    "mqtt+\(url)",
                    authenticate: { _ in .accept },
                    observer: observer
                )
                (endpoint, stop, isBroker) = (server.endpoint, { await server.stop() }, true)
            case .chat:
                let server = try await ChatServer.start(url, room: ChatRoom(), observer: observer)
                (endpoint, stop) = (server.endpoint, { await server.stop() })
            }
            port = try #require(endpoint.port)
        }

        /// The error of a handshake with this Origin, or `nil` if the connection opens.
        func failure(origin: String?, host: String = "127.0.0.1") async throws -> TransportError? {
            var endpoint = Endpoint(scheme: isBroker ? "mqtt+ws" : "ws", host: host, port: port)
            if let origin { endpoint.options.append(.init(name: "origin", value: origin)) }
            do throws(TransportError) {
                let connection = try await TransportRegistry.standard.transport(for: endpoint).connect(
                    timeout: .seconds(20)
                )
                await connection.close()
                return nil
            } catch {
                return error
            }
        }

        /// The whole answer to a request for this host.
        func answer(host: String, origin: String? = nil, at address: String = "127.0.0.1") async throws -> String {
            let client = try HostileClient(port: port, host: address)
            let originLine = origin.map { "Origin: \($0)\r\n" } ?? ""
            let lines = "\(originLine)Sec-WebSocket-Protocol: mqtt\r\n"
            let head = HostileClient.request(lines).replacing("Host: localhost\r\n", with: "Host: \(host)\r\n")
            await client.send(Array(head.utf8))
            let answer = await client.read(until: Array("\r\n\r\n".utf8))
            return String(decoding: answer, as: UTF8.self)
        }
    }

    @Test("A page of another origin is refused, and the owner receives the reason", arguments: Kind.allCases)
    func origins(kind: Kind) async throws {
        let server = try await Started(kind)
        for origin in ["http://evil.example", "https://127.0.0.1", "null", "http://127.0.0.1:1"] {
            let error = try #require(try await server.failure(origin: origin))
            #expect(error.code == .forbidden && error.detail == 403)
            let event = try #require(await server.events.first { !$0.wasOpen })
            let reason = try #require(event.reason.error?.reason)
            #expect(reason.contains("Origin") && reason.contains("'\(origin)'") && reason.contains("'origins'"))
        }
        #expect(try await server.failure(origin: "http://127.0.0.1:\(server.port)") == nil)
        #expect(try await server.failure(origin: nil) == nil)
        await server.stop()
    }

    @Test(
        "A page of the server arrives whole, its connection ends after it, and the owner gets no error",
        arguments: [0, 1 << 20]
    )
    func served(size: Int) async throws {
        let (events, sink) = AsyncStream.makeStream(of: ServerEvent.self)
        let body = [UInt8](repeating: 0x61, count: size)
        let listener = try await TransportRegistry.standard.listen(
            "ws://127.0.0.1:0/socket",
            pages: [WebPage(body: body)],
            observer: { sink.yield($0) }
        )
        let client = try HostileClient(port: try #require(listener.endpoint.port), receiveBuffer: 64 << 10)
        await client.send(Array("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8))
        let answer = await client.read()
        let head = try #require(String(decoding: answer, as: UTF8.self).firstRange(of: "\r\n\r\n"))
        #expect(answer.starts(with: "HTTP/1.1 200 ".utf8) && answer.suffix(size) == body[...])
        let headSize = String(decoding: answer, as: UTF8.self)[..<head.upperBound].utf8.count
        #expect(answer.count == headSize + size)
        let event = try #require(await events.first { _ in true })
        #expect(!event.wasOpen && event.reason.error == nil && event.reason.text == "answered with the page /")
        await listener.close()
    }

    @Test("Clients that do not read their page take no place of other clients")
    func slowReaders() async throws {
        // More than the buffers of both sides take.
        let body = [UInt8](repeating: 0x20, count: 1 << 20)
        let listener = try await TransportRegistry.standard.listen(
            "ws://127.0.0.1:0/?max-connections=4&max-handshakes=2&close-timeout=10m&close-total=10m",
            pages: [WebPage(body: body)]
        )
        let port = try #require(listener.endpoint.port)
        var readers: [HostileClient] = []
        for _ in 0..<6 {
            let reader = try HostileClient(port: port, receiveBuffer: 4 << 10)
            await reader.send(Array("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8))
            readers.append(reader)
        }
        let url = "ws://127.0.0.1:\(port)"
        let connection = try await TransportRegistry.standard.transport(for: Endpoint(url)).connect(
            timeout: .seconds(20)
        )
        await connection.close()
        for reader in readers { reader.hangUp() }
        await listener.close()
    }

    @Test("Transports that cannot serve pages refuse them", arguments: ["tcp", "udp", "mqtt", "mqtt+ws", "memory"])
    func unsupported(scheme: String) async throws {
        let url = scheme == "memory" ? "memory://pages:1" : "\(scheme)://127.0.0.1:0"
        let page = try WebPage(body: [])
        let listening = await #expect(throws: TransportError.self) {
            try await TransportRegistry.standard.listen(url, pages: [page])
        }
        let chat = await #expect(throws: TransportError.self) {
            try await ChatServer.start(url, room: ChatRoom(), pages: [page])
        }
        for error in [listening, chat] {
            #expect(error?.code == .unsupported && error?.reason.contains("ws://") == true)
        }
    }

    @Test("A page is refused if its own name resolves to the server", arguments: Kind.allCases)
    func rebinding(kind: Kind) async throws {
        let server = try await Started(kind)
        let name = "evil.example:\(server.port)"
        for origin in [nil, "http://\(name)"] {
            let answer = try await server.answer(host: name, origin: origin)
            #expect(answer.hasPrefix("HTTP/1.1 403 "))
            let event = try #require(await server.events.first { !$0.wasOpen })
            let reason = try #require(event.reason.error?.reason)
            #expect(reason.contains("Host") && reason.contains("'\(name)'") && reason.contains("'hosts'"))
        }
        for host in ["localhost", "127.0.0.1:\(server.port)", "[::1]", "a.localhost"] {
            #expect(try await server.answer(host: host).hasPrefix("HTTP/1.1 101 "))
        }
        await server.stop()
    }

    @Test("A server that listens at all addresses refuses a page by its name too")
    func everywhere() async throws {
        let server = try await Started(.echo, host: "0.0.0.0")
        #expect(try await server.answer(host: "evil.example").hasPrefix("HTTP/1.1 403 "))
        #expect(try await server.answer(host: "localhost").hasPrefix("HTTP/1.1 101 "))
        await server.stop()
    }

    @Test(
        "A client that reaches the server by another address of their machine may name no host either",
        .enabled(if: OwnAddress.first != nil, "this machine has no other address than loopback")
    )
    func ownAddress() async throws {
        let address = try #require(OwnAddress.first)
        let server = try await Started(.echo, host: address)
        for host in ["evil.example", "evil.example:\(server.port)"] {
            #expect(try await server.answer(host: host, at: address).hasPrefix("HTTP/1.1 403 "))
        }
        for host in ["\(address):\(server.port)", address, "localhost"] {
            #expect(try await server.answer(host: host, at: address).hasPrefix("HTTP/1.1 101 "))
        }
        await server.stop()
    }

    @Test("A page is admitted if the settings of the server list it", arguments: Kind.allCases)
    func settings(kind: Kind) async throws {
        let server = try await Started(
            kind,
            "origins=null,https://chat.example&origins=same&hosts=chat.example,loopback"
        )
        for origin in ["null", "https://chat.example", "http://127.0.0.1:\(server.port)"] {
            #expect(try await server.failure(origin: origin) == nil)
        }
        #expect(try await server.failure(origin: "http://chat.example")?.code == .forbidden)
        #expect(try await server.answer(host: "chat.example").hasPrefix("HTTP/1.1 101 "))
        #expect(try await server.answer(host: "evil.example").hasPrefix("HTTP/1.1 403 "))
        await server.stop()
    }

    @Test(
        "A server with a wrong setting does not start, and its error shows the value",
        arguments: [
            ("origins=chat.example", "origins has 'chat.example'"), ("origins=", "origins has ''"),
            ("origins=same,", "origins has ''"), ("hosts=http://a", "hosts has 'http://a'"),
            ("origin=http://a", "origin is an option of clients"),
        ]
    )
    func wrongSettings(query: String, expected: String) async throws {
        for scheme in ["ws", "mqtt+ws"] {
            let error = await #expect(throws: TransportError.self) {
                try await EmbeddedServer.start("\(scheme)://127.0.0.1:0/?\(query)")
            }
            #expect(error?.code == .invalidConfiguration && error?.reason.hasPrefix(expected) == true)
        }
    }
}

/// The addresses of this machine that are not loopback addresses.
private enum OwnAddress {
    static var first: String? {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard getifaddrs(&list) == 0 else { return nil }
        defer { freeifaddrs(list) }
        var next = list
        while let entry = next {
            next = entry.pointee.ifa_next
            guard let address = entry.pointee.ifa_addr, address.pointee.sa_family == sa_family_t(AF_INET) else {
                continue
            }
            var host = [CChar](repeating: 0, count: Int(NI_MAXHOST))
            let size = socklen_t(MemoryLayout<sockaddr_in>.size)
            guard getnameinfo(address, size, &host, socklen_t(host.count), nil, 0, NI_NUMERICHOST) == 0 else {
                continue
            }
            let text = String(decoding: host.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
            if !text.hasPrefix("127.") { return text }
        }
        return nil
    }
}
