import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("MQTT handshake")
struct MQTTHandshakeTests {
    @Test("The first bytes of a client are its CONNECT")
    func connectBytes() throws {
        var client = try mqttClient {
            $0.keepAlive = 10
            $0.user = "u"
            $0.password = [7]
        }
        client.start()
        let expected = field("MQTT") + [4, 0xc2, 0, 10] + field("ann") + field("u") + [0, 1, 7]
        #expect(client.takeOutput() == [0x10, UInt8(expected.count)] + expected)
        #expect(client.isOpen == false)
    }

    @Test("A client without an identifier draws one of 23 letters and digits")
    func randomIdentifier() throws {
        var identifiers: Set<String> = []
        for seed in 1...20 as ClosedRange<UInt64> {
            var client = MQTTClientHarness(try MQTTClientCore(MQTTConfiguration()), seed: seed)
            client.start()
            guard case .connect(let connect)? = readPackets(client.takeOutput()).packets.first else { continue }
            #expect(connect.clientID.utf8.count == 23)
            #expect(connect.clientID.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber) })
            identifiers.insert(connect.clientID)
        }
        #expect(identifiers.count == 20)
    }

    @Test("Two cores open, whole and byte by byte", arguments: [Int.max, 1, 3])
    func opens(slice: Int) throws {
        var client = try mqttClient {
            $0.subscriptions = [MQTTSubscription("in"), MQTTSubscription("x/#", qos: .atLeastOnce)]
        }
        var server = try mqttServer()
        connect(&client, &server, slice: slice)
        #expect(client.isOpen && server.isOpen)
        #expect(client.failure == nil && server.failure == nil)
        #expect(client.events.count == 1 && server.events.count == 1)
    }

    @Test("A client is open only when all its filters are granted")
    func opensAfterSuback() throws {
        var client = try mqttClient { $0.subscriptions = [MQTTSubscription("in", qos: .atLeastOnce)] }
        client.start()
        _ = client.takeOutput()
        client.feed([0x20, 2, 0, 0])
        #expect(client.takeOutput() == [0x82, 7, 0, 1, 0, 2, 0x69, 0x6e, 1])
        #expect(client.isOpen == false)
        #expect(codeOf { () throws(TransportError) in try client.send(Payload([], topic: "t")) } == .wouldBlock)
        client.feed([0x90, 3, 0, 1, 0])
        #expect(client.isOpen == true)
    }

    @Test("Messages that come before SUBACK are reported in order after `opened`")
    func early() throws {
        var client = try mqttClient { $0.subscriptions = [MQTTSubscription("in", qos: .atLeastOnce)] }
        client.start()
        client.feed([0x20, 2, 0, 0])
        _ = client.takeOutput()
        client.feed(encoded(.publish(MQTTPublish(topic: "in", payload: [1]))) + [0x32, 7, 0, 2, 0x69, 0x6e, 0, 9, 2])
        #expect(client.events.isEmpty)
        #expect(client.takeOutput() == [0x40, 2, 0, 9])
        client.feed([0x90, 3, 0, 1, 1] + encoded(.publish(MQTTPublish(topic: "in", payload: [3]))))
        #expect(client.messages.map(\.bytes) == [[1], [2], [3]])
        guard case .opened? = client.events.first else {
            Issue.record("opened is not first")
            return
        }
        #expect(client.events.count == 4)
    }

    @Test("The messages before SUBACK are limited")
    func earlyBound() throws {
        var client = try mqttClient {
            $0.subscriptions = [MQTTSubscription("in")]
            $0.maximumMessageSize = 100
        }
        client.start()
        client.feed([0x20, 2, 0, 0])
        let message = encoded(.publish(MQTTPublish(topic: "in", payload: Array(repeating: 0, count: 60))))
        client.feed(message)
        #expect(client.failure == nil)
        client.feed(message)
        #expect(client.failure?.code == .bufferFull)
    }

    @Test(
        "Each CONNACK code becomes its error",
        arguments: [
            (1, .handshakeFailed), (2, .handshakeFailed), (3, .serverUnavailable), (4, .authenticationFailed),
            (5, .forbidden), (6, .protocolViolation), (255, .protocolViolation),
        ] as [(UInt8, TransportError.Code)]
    )
    func connackCodes(returnCode: UInt8, code: TransportError.Code) throws {
        var client = try mqttClient()
        client.start()
        client.feed([0x20, 2, 0, returnCode])
        #expect(client.failure?.reason.hasPrefix(TransportError.connack(returnCode).reason) == true)
        #expect(client.failure?.detail == Int(returnCode) && client.failure?.code == code)
        #expect(client.events.isEmpty)
    }

    @Test("The error of a refused CONNECT says which credentials it did not have", arguments: [4, 5] as [UInt8])
    func missingCredentials(returnCode: UInt8) throws {
        func reason(_ change: (inout MQTTConfiguration) -> Void) throws -> String {
            var client = try mqttClient(change)
            client.start()
            client.feed([0x20, 2, 0, returnCode])
            return try #require(client.failure?.reason)
        }
        let advice =
            "was sent: write it into the URL, as in mqtt://USER:PASSWORD@host, or return it from the preparation"
        let general = TransportError.connack(returnCode).reason
        #expect(try reason { _ in } == "\(general); no user name \(advice)")
        #expect(try reason { $0.user = "ann" } == "\(general); no password \(advice)")
        let both = try reason {
            $0.user = "ann"
            $0.password = Array("secret".utf8)
        }
        #expect(both == general)
    }

    @Test("The decision of a server reaches its client", arguments: MQTTConnackCode.allCases)
    func verdicts(verdict: MQTTConnackCode) throws {
        var client = try mqttClient {
            $0.user = "u"
            $0.password = Array("secret".utf8)
        }
        var server = try mqttServer {
            $0.authentication = { connect, _, _ in
                connect.user == "u" && connect.password == Array("secret".utf8) ? verdict : .serverUnavailable
            }
        }
        connect(&client, &server)
        let expected: TransportError? = verdict == .accepted ? nil : .connack(verdict.rawValue)
        #expect(client.failure == expected)
        #expect(server.failure == expected)
        #expect(client.isOpen == (verdict == .accepted))
    }

    @Test("A refused filter ends the handshake with DISCONNECT")
    func subackFailure() throws {
        var client = try mqttClient { $0.subscriptions = [MQTTSubscription("in"), MQTTSubscription("secret")] }
        client.start()
        client.feed([0x20, 2, 0, 0])
        _ = client.takeOutput()
        client.feed([0x90, 4, 0, 1, 0, 0x80])
        #expect(client.failure?.code == .forbidden)
        #expect(client.failure?.phase == .handshake)
        #expect(client.failure?.detail == 0x80)
        #expect(client.failure?.reason.contains("'secret'") == true)
        #expect(client.takeOutput() == [0xe0, 0])
    }

    static let brokenBrokers: [(String, [UInt8])] = [
        ("PUBLISH before CONNACK", [0x30]),
        ("CONNECT from a broker", [0x10]),
        ("a session present that was not requested", [0x20, 2, 1, 0]),
        ("a second CONNACK", [0x20, 2, 0, 0, 0x20]),
        ("SUBACK for another packet", [0x20, 2, 0, 0, 0x90, 3, 0, 2, 0]),
        ("SUBACK with too few codes", [0x20, 2, 0, 0, 0x90, 3, 0, 1, 0]),
        ("SUBACK with too many codes", [0x20, 2, 0, 0, 0x90, 5, 0, 1, 0, 0, 0]),
        ("SUBACK that grants more than was requested", [0x20, 2, 0, 0, 0x90, 4, 0, 1, 1, 0]),
        ("PINGRESP before SUBACK without PINGREQ", [0x20, 2, 0, 0, 0xd0, 0]),
    ]

    @Test("A broker that breaks the handshake is rejected", arguments: brokenBrokers)
    func broken(what: String, bytes: [UInt8]) throws {
        var client = try mqttClient { $0.subscriptions = [MQTTSubscription("a"), MQTTSubscription("b")] }
        client.start()
        client.feed(bytes)
        #expect(client.failure?.code == .protocolViolation)
        #expect(client.failure?.phase == .handshake)
        #expect(client.events.isEmpty)
    }

    @Test("A server accepts only CONNECT first, and only once")
    func connectFirst() throws {
        for type in 2...14 as ClosedRange<UInt8> {
            var server = try mqttServer()
            server.start()
            server.feed([type << 4 | ([6, 8, 10].contains(type) ? 2 : 0)])
            #expect(server.failure?.code == .protocolViolation)
            #expect(server.takeOutput().isEmpty)
        }
        var server = try mqttServer()
        server.acceptByHand()
        server.feed([0x10])
        #expect(server.failure?.code == .protocolViolation)
    }

    @Test("Another protocol level is answered with CONNACK 1")
    func otherLevel() throws {
        var server = try mqttServer()
        server.start()
        server.feed(encoded(.connectOtherLevel(5)))
        #expect(server.takeOutput() == [0x20, 2, 0, 1])
        #expect(server.failure?.code == .handshakeFailed)
    }

    @Test("An empty client identifier needs a clean session")
    func emptyIdentifier() throws {
        var hello = MQTTConnect(clientID: "")
        var server = try mqttServer()
        server.start()
        server.feed(encoded(.connect(hello)))
        #expect(server.isOpen == true)
        hello.cleanSession = false
        var strict = try mqttServer()
        strict.start()
        strict.feed(encoded(.connect(hello)))
        #expect(strict.takeOutput() == [0x20, 2, 0, 2])
        #expect(strict.failure == .connack(2))
    }

    @Test("A handshake that takes too long times out on both sides")
    func timeouts() throws {
        var server = try mqttServer()
        server.start()
        server.feed([0x10])
        server.advance(by: .seconds(9))
        #expect(server.failure == nil)
        server.advance(by: .seconds(1))
        #expect(server.failure?.code == .timedOut && server.failure?.phase == .handshake)

        for answer in [[], [0x20, 2, 0, 0]] as [[UInt8]] {
            var client = try mqttClient {
                $0.handshakeTimeout = .seconds(3)
                $0.subscriptions = [MQTTSubscription("a")]
            }
            client.start()
            client.advance(by: .seconds(2))
            client.feed(answer)
            client.advance(by: .milliseconds(999))
            #expect(client.failure == nil)
            client.advance(by: .milliseconds(1))
            #expect(client.failure?.code == .timedOut && client.failure?.phase == .handshake)
        }
    }

    @Test("A connection that ends during the handshake was closed by the peer")
    func ends() throws {
        var client = try mqttClient()
        client.start()
        client.endInput()
        #expect(client.failure?.code == .closedByPeer && client.failure?.phase == .handshake)
    }
}
