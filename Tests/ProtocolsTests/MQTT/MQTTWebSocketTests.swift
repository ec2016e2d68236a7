import TestSupport
import Testing
import TransportAPI

@testable import Protocols

/// MQTT over WebSocket (MQTT 3.1.1, section 6).
@Suite("MQTT over WebSocket")
struct MQTTWebSocketTests {
    private typealias Client = CoreHarness<WebSocketCarrier<MQTTClientCore>>
    private typealias Server = CoreHarness<WebSocketCarrier<MQTTServerCore>>

    private func client(_ change: (inout MQTTConfiguration) -> Void = { _ in }) throws -> Client {
        var configuration = MQTTConfiguration()
        configuration.clientID = "ann"
        change(&configuration)
        let inner = try MQTTClientCore(configuration)
        return Client(try WebSocketCarrier(inner, over: WebSocketConfiguration()))
    }

    private func server(_ change: (inout MQTTServerConfiguration) -> Void = { _ in }) throws -> Server {
        var configuration = MQTTServerConfiguration()
        change(&configuration)
        let inner = try MQTTServerCore(configuration)
        return Server(try WebSocketCarrier(inner, over: WebSocketConfiguration()), seed: 2)
    }

    /// A server whose WebSocket is open, and whose client has sent no packet yet.
    private func openServer() throws -> Server {
        var server = try server()
        server.start()
        server.feed(request(with: ["Sec-WebSocket-Protocol: mqtt"]))
        return server
    }

    /// A client that is open after hand-written answers of a broker.
    private func openClient() throws -> Client {
        var client = try client { $0.keepAlive = 60 }
        client.start()
        client.feed(response(key: client.core.outer.key, with: ["Sec-WebSocket-Protocol: mqtt"]))
        client.feed(frame(to: .client, 0x82, [0x20, 2, 0, 0]))
        _ = client.takeOutput()
        return client
    }

    @Test("Both sides open and carry messages, whole and byte by byte", arguments: [Int.max, 1, 7])
    func bothWays(slice: Int) throws {
        var client = try client {
            $0.qos = .exactlyOnce
            $0.publishTopic = "up"
            $0.subscriptions = [MQTTSubscription("down", qos: .atLeastOnce)]
        }
        var server = try server { $0.qos = .atLeastOnce }
        client.start()
        server.start()
        exchange(&client, &server, slice: slice)
        #expect(client.isOpen && server.isOpen)
        for id in 1...20 as ClosedRange<UInt64> {
            let body = Array(repeating: UInt8(id), count: Int(id) * 20)
            #expect(try client.send(Payload(body), id: id) == .awaitingAcknowledgement)
            #expect(try server.send(Payload(body), id: id) == .awaitingAcknowledgement)
            exchange(&client, &server, slice: slice)
        }
        #expect(server.messages.map(\.bytes.count) == (1...20).map { $0 * 20 })
        #expect(client.messages.map(\.bytes) == server.messages.map(\.bytes))
        try client.core.ping(&client.context)
        exchange(&client, &server, slice: slice)
        #expect(client.events.contains { if case .pong = $0 { true } else { false } })
        #expect(client.failure == nil && server.failure == nil)
    }

    @Test("The subprotocol is requested and answered, and packets are binary messages")
    func handshake() throws {
        var client = try client()
        client.start()
        let request = client.takeOutput()
        #expect(String(decoding: request, as: UTF8.self).contains("\r\nSec-WebSocket-Protocol: mqtt\r\n"))
        var server = try server()
        server.start()
        server.feed(request)
        let answer = server.takeOutput()
        #expect(String(decoding: answer, as: UTF8.self).contains("\r\nSec-WebSocket-Protocol: mqtt\r\n"))
        #expect(server.isOpen == false)
        client.feed(answer)
        let hello = frames(client.takeOutput())
        #expect(hello.map(\.first) == [0x82])
        #expect(hello.first?.payload.first == 0x10)
    }

    @Test("A server refuses a client that does not offer the subprotocol", arguments: [[], ["other, mqttv5"]])
    func notOffered(offer: [String]) throws {
        var server = try server()
        server.start()
        server.feed(request(with: offer.map { "Sec-WebSocket-Protocol: \($0)" }))
        #expect(String(decoding: server.takeOutput(), as: UTF8.self).hasPrefix("HTTP/1.1 400 "))
        #expect(server.failure?.code == .handshakeFailed)
    }

    @Test("A client ends the connection to a server that does not choose the subprotocol")
    func notChosen() throws {
        var client = try client()
        client.start()
        _ = client.takeOutput()
        client.feed(response(key: client.core.outer.key))
        #expect(client.failure?.code == .handshakeFailed)
        #expect(frames(client.takeOutput()).map(\.first) == [0x88])
    }

    @Test("A WebSocket message may hold several packets, and a packet may span several messages and fragments")
    func alignment() throws {
        let stream =
            encoded(.connect(MQTTConnect(clientID: "bob"))) + encoded(.publish(MQTTPublish(topic: "a", payload: [1])))
            + encoded(.publish(MQTTPublish(topic: "b", payload: [2, 3]))) + encoded(.pingreq)
        var whole = try openServer()
        whole.feed(frame(to: .server, 0x82, stream))
        #expect(whole.messages.map(\.bytes) == [[1], [2, 3]])
        for size in [1, 2, 3, 5, 11] {
            var server = try openServer()
            var rest = stream[...]
            while !rest.isEmpty {
                let piece = Array(rest.prefix(size))
                rest = rest.dropFirst(size)
                // The second half of each piece is a continuation, with a ping before it and an empty message after it.
                let (front, back) = (Array(piece.prefix(size / 2)), Array(piece.dropFirst(size / 2)))
                server.feed(frame(to: .server, 0x02, front) + frame(to: .server, 0x89))
                server.feed(frame(to: .server, 0x80, back) + frame(to: .server, 0x82))
            }
            #expect(server.messages == whole.messages && server.failure == nil)
            let answers = frames(server.takeOutput().dropFirstHead()).filter { $0.first == 0x82 }.flatMap(\.payload)
            #expect(answers == [0x20, 2, 0, 0, 0xd0, 0])
        }
    }

    @Test("A text message ends the connection with close code 1003", arguments: [CoreRole.client, .server])
    func textMessage(role: CoreRole) throws {
        let client = try openClient()
        var server = try openServer()
        server.feed(frame(to: .server, 0x82, encoded(.connect(MQTTConnect(clientID: "bob")))))
        if role == .client { checkTextMessage(to: client, role) } else { checkTextMessage(to: server, role) }
    }

    private func checkTextMessage(
        to side: consuming CoreHarness<WebSocketCarrier<some MQTTCore>>,
        _ role: CoreRole
    ) {
        var side = side
        #expect(side.isOpen == true)
        _ = side.takeOutput()
        side.feed(frame(to: role, 0x81, [0x30, 0]))
        #expect(side.failure?.code == .protocolViolation)
        let lastFrames = frames(side.takeOutput())
        #expect(lastFrames.map(\.first) == [0x88] && lastFrames.first?.payload.prefix(2) == [0x03, 0xeb])
        #expect(side.core.deadline == nil)
    }

    @Test("A violation of MQTT ends the connection, with the refusal before the close frame")
    func violations() throws {
        var server = try openServer()
        _ = server.takeOutput()
        server.feed(frame(to: .server, 0x82, encoded(.connectOtherLevel(5))))
        #expect(server.failure == .connack(1))
        let answer = frames(server.takeOutput())
        #expect(answer.map(\.first) == [0x82, 0x88] && answer.first?.payload == [0x20, 2, 0, 1])
        var client = try openClient()
        client.feed(frame(to: .client, 0x82, [0xf0]))
        #expect(client.failure?.code == .protocolViolation)
    }

    @Test("DISCONNECT and a close frame end a session, and a close frame alone is a loss for a server")
    func closing() throws {
        var client = try openClient()
        client.core.close(.user, &client.context)
        client.drain()
        #expect(client.closeReason == .user)
        let lastFrames = frames(client.takeOutput())
        #expect(lastFrames.map(\.first) == [0x82, 0x88] && lastFrames.first?.payload == [0xe0, 0])

        for disconnect in [true, false] {
            var server = try openServer()
            server.feed(frame(to: .server, 0x82, encoded(.connect(MQTTConnect(clientID: "bob")))))
            if disconnect { server.feed(frame(to: .server, 0x82, encoded(.disconnect))) }
            server.feed(frame(to: .server, 0x88, closeBody(1000)))
            #expect((server.closeReason?.initiator == .peer) == disconnect)
            #expect((server.failure?.code == .connectionLost) == !disconnect)
        }
        var left = try openClient()
        left.feed(frame(to: .client, 0x88, closeBody(1001)))
        left.endInput()
        #expect(left.closeReason?.initiator == .peer || left.failure?.code == .closedByPeer)
    }

    @Test("An idle client sends PINGREQ, and a part of a long message is a sign of life for it")
    func keepAlive() throws {
        var client = try openClient()
        client.advance(by: .seconds(45))
        #expect(frames(client.takeOutput()).map(\.payload) == [[0xc0, 0]])
        let message = frame(to: .client, 0x82, [0x30, 200, 1, 0, 1, 0x74] + [UInt8](repeating: 0, count: 197))
        for byte in message.dropLast(4).prefix(20) {
            client.advance(by: .seconds(9))
            client.feed([byte])
        }
        #expect(client.failure == nil)
        client.advance(by: .seconds(20))
        #expect(client.failure?.code == .keepaliveTimeout)
    }

    @Test("A message that is encoded once for many clients is framed for each")
    func encodedOnce() throws {
        var server = try openServer()
        server.feed(frame(to: .server, 0x82, encoded(.connect(MQTTConnect(clientID: "bob")))))
        _ = server.takeOutput()
        var packet = ByteBuffer()
        try MQTTServerCore.encode(topic: "t", payload: [6], into: &packet)
        packet.withUnsafeReadableBytes { server.core.sendEncoded($0, &server.context) }
        #expect(frames(server.takeOutput()).map(\.payload) == [[0x30, 4, 0, 1, 0x74, 6]])
    }

    @Test("For a server, the bytes of a long message are signs of life, and a WebSocket ping is not")
    func slowMessage() throws {
        var hello = MQTTConnect(clientID: "bob")
        hello.keepAlive = 10
        let packet = encoded(.publish(MQTTPublish(topic: "t", payload: [UInt8](repeating: 7, count: 50))))
        let message = frame(to: .server, 0x82, packet)
        var server = try openServer()
        server.feed(frame(to: .server, 0x82, encoded(.connect(hello))))
        server.feed(Array(message.prefix(10)))
        for byte in message.dropFirst(10) {
            server.advance(by: .seconds(14))
            server.feed([byte])
        }
        #expect(server.failure == nil && server.messages.map(\.bytes.count) == [50])
        server.advance(by: .seconds(14))
        server.feed(frame(to: .server, 0x89, []))
        server.advance(by: .seconds(1))
        #expect(server.failure?.code == .keepaliveTimeout)
    }

    @Test("A client that was silent for too long gets a close code after which it may connect again")
    func silence() throws {
        var hello = MQTTConnect(clientID: "bob")
        hello.keepAlive = 10
        var server = try openServer()
        server.feed(frame(to: .server, 0x82, encoded(.connect(hello))))
        _ = server.takeOutput()
        server.advance(by: .seconds(15))
        #expect(server.failure?.code == .keepaliveTimeout)
        let body = try #require(frames(server.takeOutput()).last?.payload)
        let code = UInt16(body[0]) << 8 | UInt16(body[1])
        #expect(code == 3008)
        #expect(TransportError.webSocketClose(code).isRetryable)
    }

    @Test("A packet that is not complete counts as buffered, even if its WebSocket message is complete")
    func buffered() throws {
        var server = try openServer()
        let before = server.core.bufferedBytes
        server.feed(frame(to: .server, 0x82, [0x10, 100, 0, 4] + [UInt8](repeating: 0x4d, count: 90)))
        let after = server.core.bufferedBytes
        #expect(before == 0 && after >= 94 && server.failure == nil)
    }
}

extension [UInt8] {
    /// The bytes after the head of an HTTP response, or all bytes if there is no head.
    fileprivate func dropFirstHead() -> [UInt8] {
        firstRange(of: Array("\r\n\r\n".utf8)).map { Array(self[$0.upperBound...]) } ?? self
    }
}
