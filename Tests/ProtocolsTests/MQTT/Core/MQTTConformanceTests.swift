import TestSupport
import Testing
import TransportAPI

@testable import Protocols

/// Statements of MQTT 3.1.1 that no other suite covers. Docs/reference/mqtt-conformance.md lists all statements.
@Suite("MQTT conformance")
struct MQTTConformanceTests {
    @Test("CONNECT has exactly the fields that its flags announce, in their order")
    func connectFields() throws {
        let will = MQTTWill(topic: "w", payload: [1], qos: .atLeastOnce)
        for hasWill in [false, true] {
            for (user, password) in [(nil, nil), ("u", nil), ("u", [7])] as [(String?, [UInt8]?)] {
                var client = try mqttClient {
                    $0.will = hasWill ? will : nil
                    $0.user = user
                    $0.password = password
                }
                client.start()
                let flags: UInt8 = 2 | (hasWill ? 0x0c : 0) | (user == nil ? 0 : 0x80) | (password == nil ? 0 : 0x40)
                var expected = field("MQTT") + [4, flags, 0, 80] + field("ann")
                if hasWill { expected += field("w") + [0, 1, 1] }
                if user != nil { expected += field("u") }
                if password != nil { expected += [0, 1, 7] }
                #expect(client.takeOutput() == [0x10, UInt8(expected.count)] + expected)
            }
        }
    }

    @Test("A server accepts identifiers of 1 to 23 letters and digits, and longer ones")
    func identifiers() throws {
        let alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
        let some = [alphabet.prefix(23), alphabet.dropFirst(23).prefix(23), alphabet.suffix(23)].map { String($0) }
        for identifier in alphabet.map({ String($0) }) + some + [String(repeating: alphabet, count: 16)] {
            var server = try mqttServer()
            server.start()
            server.feed(encoded(.connect(MQTTConnect(clientID: identifier))))
            #expect(server.takeOutput() == [0x20, 2, 0, 0] && server.isOpen)
        }
    }

    @Test(
        "A malformed CONNECT gets no CONNACK",
        arguments: [
            [4, 3, 0, 0] + field("a"), [4, 0x42, 0, 0] + field("a") + field("p"), [4, 2, 0, 0],
            [4, 2, 0, 0] + field("a") + [0], [4, 0x1e, 0, 0] + field("a") + field("w") + field(""),
        ] as [[UInt8]]
    )
    func malformedConnect(body: [UInt8]) throws {
        var server = try mqttServer()
        server.start()
        let all = field("MQTT") + body
        server.feed([0x10, UInt8(all.count)] + all)
        #expect(server.failure?.code == .protocolViolation)
        #expect(server.takeOutput().isEmpty && !server.isOpen)
    }

    @Test("Packets after a refused CONNECT are ignored, and CONNACK reports no session")
    func behindRefusal() throws {
        let sessions = MQTTSessions()
        var hello = MQTTConnect(clientID: "bob")
        hello.cleanSession = false
        for verdict in [MQTTConnackCode.accepted, .notAuthorized] {
            var server = try mqttServer {
                $0.sessions = sessions
                $0.routesSignals = true
                $0.authentication = { _, _, _ in verdict }
            }
            server.start()
            let more = encoded(.subscribe(1, [MQTTSubscription("a")])) + encoded(.pingreq)
            server.feed(encoded(.connect(hello)) + more)
            let answer = server.takeOutput()
            #expect(answer.prefix(4) == [0x20, 2, 0, verdict.rawValue])
            #expect((answer.count == 4) == (verdict != .accepted))
            #expect(server.signals.count == (verdict == .accepted ? 2 : 0))
        }
    }

    @Test(
        "Each QoS has its answer, and at QoS 1 a repeated identifier is a new message each time",
        arguments: [true, false]
    )
    func answers(isClient: Bool) throws {
        var client = try mqttClient()
        var server = try mqttServer()
        client.openByHand()
        server.acceptByHand()
        if isClient { checkAnswers(of: client) } else { checkAnswers(of: server) }
    }

    private func checkAnswers(of side: consuming CoreHarness<some MQTTCore>) {
        var side = side
        side.feed([0x30, 4, 0, 1, 0x74, 1])
        #expect(side.takeOutput().isEmpty)
        side.feed([0x32, 6, 0, 1, 0x74, 0, 5, 2, 0x3a, 6, 0, 1, 0x74, 0, 5, 3])
        #expect(side.takeOutput() == [0x40, 2, 0, 5, 0x40, 2, 0, 5])
        side.feed([0x34, 6, 0, 1, 0x74, 0, 5, 4])
        #expect(side.takeOutput() == [0x50, 2, 0, 5])
        #expect(side.messages.map(\.bytes) == [[1], [2], [3], [4]])
    }

    @Test("Acknowledgements have the order of the packets that they answer", arguments: [true, false])
    func order(isClean: Bool) throws {
        var client = try mqttClient {
            $0.cleanSession = isClean
            $0.qos = .exactlyOnce
            $0.publishTopic = "t"
        }
        client.openByHand()
        for id in [9, 3, 7] as [UInt8] {
            client.feed([0x32, 6, 0, 1, 0x74, 0, id, 1, 0x34, 6, 0, 1, 0x74, 0, id + 100, 2])
        }
        if !isClean { for _ in 0..<6 { client.core.confirmReceipt(&client.context) } }
        let pairs = [9, 3, 7].map { [0x40, 2, 0, $0, 0x50, 2, 0, $0 + 100] as [UInt8] }
        #expect(client.takeOutput() == pairs.flatMap { $0 })
        for id in 1...3 as ClosedRange<UInt64> { _ = try client.send(Payload([]), id: id) }
        _ = client.takeOutput()
        client.feed([0x50, 2, 0, 3, 0x50, 2, 0, 1, 0x50, 2, 0, 2])
        #expect(client.takeOutput() == [0x62, 2, 0, 3, 0x62, 2, 0, 1, 0x62, 2, 0, 2])
    }

    @Test("A QoS 2 message that is confirmed after the connection has ended is not delivered again")
    func receiptAfterTheEnd() throws {
        let session = MQTTSession()
        var first = try mqttClient(of: session)
        first.feed([0x34, 6, 0, 1, 0x74, 0, 1, 1, 0x34, 6, 0, 1, 0x74, 0, 2, 2])
        #expect(first.messages.count == 2)
        first.core.close(.user, &first.context)
        first.drain()
        _ = first.takeOutput()
        // The receiver took the first one only.
        first.core.confirmReceipt(&first.context)
        #expect(first.takeOutput().isEmpty)
        var second = try mqttClient(of: session)
        _ = second.takeOutput()
        second.feed([0x3c, 6, 0, 1, 0x74, 0, 1, 1, 0x3c, 6, 0, 1, 0x74, 0, 2, 2])
        #expect(second.messages.map(\.bytes) == [[2]])
        #expect(second.takeOutput() == [0x50, 2, 0, 1])
    }
}
