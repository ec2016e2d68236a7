import TestSupport
import Testing
import TransportAPI

@testable import Protocols

/// The server's side, with its client and by hand.
@Suite("A server's STOMP")
struct STOMPServerTests {
    private typealias Server = CoreHarness<STOMPServerCore>

    private func server(_ change: (inout STOMPServerConfiguration) -> Void = { _ in }) throws -> Server {
        var configuration = STOMPServerConfiguration()
        change(&configuration)
        var server = Server(try STOMPServerCore(configuration), seed: 2)
        server.start()
        return server
    }

    /// A server that has accepted a client. Its output is empty.
    private func open(_ change: (inout STOMPServerConfiguration) -> Void = { _ in }) throws -> Server {
        var server = try server(change)
        server.feed(stomp("CONNECT\naccept-version:1.2\nhost:h\n\n^@"))
        #expect(server.isOpen == true)
        _ = server.takeOutput()
        return server
    }

    private func text(_ server: inout Server) -> String { stompText(server.takeOutput()) }

    @Test("CONNECT is answered with the version and the heart-beats", arguments: ["CONNECT", "STOMP"])
    func connect(command: String) throws {
        var server = try server()
        server.feed(stomp("\(command)\naccept-version:1.0,1.2\nhost:h\nheart-beat:5000,100\n\n^@"), slice: 1)
        #expect(text(&server) == "CONNECTED\nversion:1.2\nheart-beat:1000,1000\nserver:im-transports\n\n^@")
        #expect(server.core.capabilities.keepaliveInterval == .seconds(5))
        // The server sends something every second, because the client asks for more than that.
        let deadline = server.core.deadline
        #expect(deadline == server.context.now.advanced(by: .milliseconds(750)))
    }

    @Test(
        "What a client may not do is answered by ERROR, and ends the connection",
        arguments: [
            ("CONNECT\nhost:h\n\n^@", "Version Mismatch", nil), ("CONNECT\naccept-version:1.2\n\n^@", "no host", nil),
            ("CONNECT\naccept-version:1.2\nhost:h\nheart-beat:x\n\n^@", "heart-beat", nil),
            ("SEND\ndestination:a\n\n^@", "out of place", nil),
        ] as [(String, String, String?)]
            + [
                ("SEND\n\n^@", "no destination", nil),
                ("SEND\ndestination:a\ntransaction:t\n\n^@", "transactions", nil),
                ("BEGIN\ntransaction:t\nreceipt:9\n\n^@", "transactions", "9"),
                ("SUBSCRIBE\ndestination:a\n\n^@", "no id", nil),
                ("SUBSCRIBE\nid:1\nreceipt:8\n\n^@", "no destination", "8"),
                ("SUBSCRIBE\nid:1\ndestination:a\nack:no\n\n^@", "ack", nil),
                ("SUBSCRIBE\nid:1\ndestination:a\n\n^@SUBSCRIBE\nid:1\ndestination:b\n\n^@", "another", nil),
                ("UNSUBSCRIBE\nid:1\n\n^@", "no subscription", nil), ("ACK\n\n^@", "no id", nil),
                ("MESSAGE\n\n^@", "out of place", nil), ("NONSENSE\n\n^@", "NONSENSE", nil),
                ("SEND\ndestination:a\ncontent-length:11\n\n12345678901^@", "10 are allowed", nil),
            ].map { ("OPEN" + $0.0, $0.1, $0.2) }
    )
    func refused(frames: String, sentence: String, receipt: String?) throws {
        let isOpen = frames.hasPrefix("OPEN")
        var server = isOpen ? try open { $0.limits.body = 10 } : try server()
        server.feed(stomp(isOpen ? String(frames.dropFirst(4)) : frames))
        #expect(server.failure?.reason.contains(sentence) == true)
        let answer = text(&server)
        #expect(answer.contains("ERROR\nmessage:") && answer.hasSuffix("\n\n^@"))
        #expect(answer.contains("receipt-id:\(receipt ?? "")") == (receipt != nil))
    }

    @Test("A client that is not admitted gets the reason")
    func authentication() throws {
        var server = try server {
            $0.authentication = { connect, _, _ in
                connect["passcode"] == "secret" ? nil : STOMPRejection(.authenticationFailed, "Bad login or passcode")
            }
        }
        server.feed(stomp("CONNECT\naccept-version:1.2\nhost:h\nlogin:ann\npasscode:guess\n\n^@"))
        #expect(server.failure?.code == .authenticationFailed)
        #expect(text(&server) == "ERROR\nmessage:Bad login or passcode\ncontent-length:0\n\n^@")
    }

    @Test("Messages, receipts and acknowledgements go both ways, however the stream is cut", arguments: [1, 7, .max])
    func messages(slice: Int) throws {
        var server = try open()
        server.feed(
            stomp(
                "SUBSCRIBE\nid:s\ndestination:/topic/a\nack:client\nreceipt:1\n\n^@"
                    + "SEND\ndestination:/topic/a\n\nhi^@"
            ),
            slice: slice
        )
        #expect(text(&server) == "RECEIPT\nreceipt-id:1\n\n^@")
        #expect(server.messages == [Payload(Array("hi".utf8), topic: "/topic/a", qos: .atMostOnce)])
        for id in 1...3 as ClosedRange<UInt64> {
            #expect(try server.send(Payload([65], qos: .atLeastOnce), id: id) == .awaitingAcknowledgement)
        }
        let frames = readFrames(server.takeOutput()).frames
        #expect(frames.map { $0["ack"] } == ["1-1", "1-2", "1-3"] && frames.allSatisfy { $0["subscription"] == "s" })
        let unexpected = ["1-7", "7", "1-2-3", "1-", "-1", "a-1"].map { "ACK\nid:\($0)\n\n^@" }.joined()
        server.feed(stomp("ACK\nid:1-2\n\n^@NACK\nid:1-3\n\n^@" + unexpected), slice: slice)
        let outcomes = server.events.compactMap { event -> UInt64? in
            switch event {
            case .acknowledged(let id): id
            case .refused(let id, _): id + 100
            default: nil
            }
        }
        #expect(outcomes == [1, 2, 103] && server.context.counters.unexpectedAcknowledgements == 6)
    }

    @Test("Only a message at QoS 1 waits for ACK, so that a server can send one after the other")
    func written() throws {
        var server = try open { $0.maximumInFlight = 1 }
        server.feed(
            stomp(
                "SUBSCRIBE\nid:a\ndestination:a\nack:client\n\n^@"
                    + "SUBSCRIBE\nid:b\ndestination:b\nack:client-individual\n\n^@"
            )
        )
        let acknowledged = Payload([65], qos: .atLeastOnce)
        let (isAwaited, isUsual) = (server.core.acknowledges(acknowledged), server.core.acknowledges(Payload([65])))
        #expect(isAwaited && !isUsual)
        for (id, qos) in [(1, nil), (2, .atMostOnce), (3, nil)] as [(UInt64, Payload.QoS?)] {
            #expect(try server.send(Payload([65], topic: "b", qos: qos), id: id) == .written)
        }
        #expect(try server.send(acknowledged, id: 4) == .awaitingAcknowledgement)
        #expect(try server.send(Payload([65]), id: 5) == .written)
        #expect(readFrames(server.takeOutput()).frames.map { $0["ack"] } == ["2-1", "2-2", "2-3", "1-4", "1-5"])
        // The last one acknowledges those before it of its own subscription, but not those of the other one.
        server.feed(stomp("ACK\nid:2-3\n\n^@"))
        #expect(try server.send(acknowledged, id: 6) == .blocked)
        server.feed(stomp("ACK\nid:1-5\n\n^@"))
        #expect(server.events.contains { if case .acknowledged(4) = $0 { true } else { false } })
        #expect(server.context.counters.unexpectedAcknowledgements == 0)
        #expect(try server.send(acknowledged, id: 6) == .awaitingAcknowledgement)
    }

    @Test("Only so many messages wait for ACK, and a message goes to no other destination")
    func window() throws {
        var server = try open { $0.maximumInFlight = 1 }
        let missing = codeOf { () throws(TransportError) in _ = try server.send(Payload([65]), id: 1) }
        #expect(missing == .notFound)
        server.feed(stomp("SUBSCRIBE\nid:s\ndestination:a\nack:client-individual\n\n^@"))
        #expect(try server.send(Payload([65], qos: .atLeastOnce), id: 1) == .awaitingAcknowledgement)
        #expect(try server.send(Payload([65], qos: .atLeastOnce), id: 2) == .blocked)
        server.feed(stomp("ACK\nid:1-1\n\n^@"))
        #expect(try server.send(Payload([65], topic: "a", qos: .atLeastOnce), id: 2) == .awaitingAcknowledgement)
        for payload in [
            Payload([65], topic: "b"), Payload([65], isRetained: true), Payload([65], qos: .exactlyOnce),
            Payload([UInt8](repeating: 0, count: 17 << 20)),
        ] {
            #expect(codeOf { () throws(TransportError) in _ = try server.send(payload, id: 3) } != nil)
        }
    }

    @Test("DISCONNECT ends the connection after its receipt, and an end without it is an error")
    func ends() throws {
        var server = try open()
        server.feed(stomp("DISCONNECT\nreceipt:5\n\n^@"))
        #expect(text(&server) == "RECEIPT\nreceipt-id:5\n\n^@")
        #expect(server.closeReason?.initiator == .peer)
        var other = try open()
        other.endInput()
        #expect(other.failure?.reason.hasSuffix("without DISCONNECT") == true)
        var silent = try open()
        silent.feed(stomp("SEND\ndestination"))
        silent.endInput()
        #expect(silent.failure?.reason.hasSuffix("in the middle of a frame") == true)
    }

    @Test("A silent client ends the connection only after two intervals and the margin")
    func silence() throws {
        var server = try server { $0.heartBeatMargin = .seconds(2) }
        server.feed(stomp("CONNECT\naccept-version:1.2\nhost:h\nheart-beat:4000,0\n\n^@"))
        server.advance(by: .milliseconds(9900))
        #expect(server.failure == nil)
        server.advance(by: .milliseconds(200))
        #expect(server.failure?.code == .keepaliveTimeout)
    }

    @Test("Many line ends in a row count as work of the peer, and heart-beats do not")
    func lineEnds() throws {
        var server = try open()
        let few = String(repeating: "\n", count: 63)
        server.feed(stomp("\(few)SEND\ndestination:t\n\n^@\(few)SEND\ndestination:t\n\n^@"), slice: 5)
        #expect(server.context.counters.controlWork == 0 && server.messages.count == 2)
        server.feed(stomp(String(repeating: "\r\n", count: 3200)), slice: 7)
        #expect(server.context.counters.controlWork == 100 && server.failure == nil)
    }

    @Test("Both sides speak to each other, also inside a WebSocket", arguments: [false, true], [1, .max])
    func bothSides(isCarried: Bool, slice: Int) throws {
        var configuration = STOMPConfiguration(host: "h")
        configuration.subscriptions = ["/topic/a"]
        configuration.destination = "/topic/a"
        configuration.requestsReceipts = true
        let (client, server) = (
            try STOMPClientCore(configuration), try STOMPServerCore(STOMPServerConfiguration())
        )
        guard isCarried else {
            return try converse(CoreHarness(client), CoreHarness(server, seed: 2), slice)
        }
        let web = WebSocketConfiguration()
        try converse(
            CoreHarness(try WebSocketCarrier(client, over: web)),
            CoreHarness(try WebSocketCarrier(server, over: web), seed: 2),
            slice
        )
    }

    private func converse<Client: PackageCore, Answering: PackageCore>(
        _ client: consuming CoreHarness<Client>,
        _ server: consuming CoreHarness<Answering>,
        _ slice: Int
    ) throws {
        server.start()
        client.start()
        exchange(&client, &server, slice: slice)
        #expect(client.isOpen && server.isOpen)
        for bytes in [Array("text\0".utf8), [0xff, 0, 1]] {
            #expect(try client.send(Payload(bytes), id: 1) == .awaitingAcknowledgement)
            exchange(&client, &server, slice: slice)
            #expect(try server.send(Payload(bytes), id: 1) == .written)
            exchange(&client, &server, slice: slice)
        }
        #expect(server.messages.map(\.bytes) == [Array("text\0".utf8), [0xff, 0, 1]])
        #expect(client.messages.map(\.bytes) == server.messages.map(\.bytes))
        client.core.close(.user, &client.context)
        exchange(&client, &server, slice: slice)
        #expect(client.closeReason?.initiator == .user && server.closeReason?.initiator == .peer)
    }
}
