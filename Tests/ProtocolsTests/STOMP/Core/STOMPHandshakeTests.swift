import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("STOMP handshake")
struct STOMPHandshakeTests {
    @Test("The first bytes of a client are its CONNECT, in which nothing is escaped")
    func connect() throws {
        var client = try stompClient {
            $0.login = "ann:b"
            $0.passcode = "a\\b:c "
            $0.outgoingHeartBeat = .milliseconds(1500)
            $0.incomingHeartBeat = nil
            $0.connectHeaders = [STOMPHeader("client-id", "7")]
        }
        client.start()
        #expect(
            client.takeText() == """
                CONNECT
                accept-version:1.2
                host:example.org
                login:ann:b
                passcode:a\\b:c\u{20}
                heart-beat:1500,0
                client-id:7

                ^@
                """
        )
        #expect(client.isOpen == false)
    }

    @Test("CONNECTED opens a client without subscriptions, in any slices", arguments: [Int.max, 1, 3])
    func opens(slice: Int) throws {
        var client = try stompClient()
        client.start()
        _ = client.takeOutput()
        client.feed(text: "\nCONNECTED\r\nversion:1.2\r\nserver:RabbitMQ/4.0\r\n\r\n^@\n", slice: slice)
        #expect(client.isOpen && client.failure == nil && client.takeOutput().isEmpty)
    }

    @Test(
        "Of a broker that gives no receipts, none is requested for a subscription",
        arguments: [(STOMPSubscriptionReceipts.auto, ""), (.off, "server:b\n")]
    )
    func unconfirmed(receipts: STOMPSubscriptionReceipts, server: String) throws {
        var client = try stompClient {
            $0.subscriptions = ["/topic/a"]
            $0.subscriptionReceipts = receipts
        }
        client.start()
        _ = client.takeOutput()
        client.feed(text: "CONNECTED\nversion:1.2\n\(server)\n^@")
        #expect(client.isOpen == true)
        #expect(client.takeText() == "SUBSCRIBE\nid:1\ndestination:/topic/a\nack:auto\n\n^@")
        let request = SubscriptionRequest("/topic/b", qos: .atMostOnce, number: 70_000)
        #expect(try client.subscribe([request], id: 9) == .subscribed(9, [.atMostOnce]))
        #expect(client.takeText() == "SUBSCRIBE\nid:70000\ndestination:/topic/b\nack:auto\n\n^@")
        #expect(try client.unsubscribe(["/topic/b"], id: 10) == .unsubscribed(10))
        #expect(client.takeText() == "UNSUBSCRIBE\nid:70000\n\n^@")
        client.feed(text: "MESSAGE\ndestination:/topic/b\nmessage-id:1\nsubscription:70000\n\nlate^@")
        #expect(client.failure == nil, "the broker had sent it before it received UNSUBSCRIBE")
        #expect(try client.subscribe([request], id: 11) == .subscribed(11, [.atMostOnce]))
        #expect(client.takeText() == "SUBSCRIBE\nid:70000\ndestination:/topic/b\nack:auto\n\n^@")
        client.feed(text: "MESSAGE\ndestination:/topic/b\nmessage-id:2\nsubscription:70000\n\nagain^@")
        let numbers = client.messages.map(\.subscription)
        #expect(numbers == [70_000, 70_000])
    }

    @Test("Subscriptions that have ended without a receipt leave room for others")
    func endedWithoutReceipts() throws {
        var client = try openSTOMPClient { $0.subscriptionReceipts = .off }
        for number in 0..<3000 as Range<UInt32> {
            let filter = "/topic/\(number)"
            let request = SubscriptionRequest(filter, qos: .atMostOnce, number: 70_000 + number)
            #expect(try client.subscribe([request], id: 1) != nil)
            #expect(try client.unsubscribe([filter], id: 2) != nil)
        }
        let count = client.core.subscriptions.count
        #expect(count <= 1024)
    }

    @Test("A client is open when each of its subscriptions has its receipt, in any order")
    func subscribes() throws {
        var client = try stompClient {
            $0.subscriptions = ["/queue/a", "b:c"]
            $0.ack = .clientIndividual
            $0.subscribeHeaders = [STOMPHeader("prefetch-count", "10")]
        }
        client.start()
        _ = client.takeOutput()
        client.feed(text: "CONNECTED\nversion:1.2\nserver:b\n\n^@")
        #expect(
            client.takeText() == """
                SUBSCRIBE
                id:1
                destination:/queue/a
                ack:client-individual
                receipt:1
                prefetch-count:10

                ^@SUBSCRIBE
                id:2
                destination:b\\cc
                ack:client-individual
                receipt:2
                prefetch-count:10

                ^@
                """
        )
        client.feed(text: "RECEIPT\nreceipt-id:2\n\n^@")
        #expect(client.isOpen == false)
        #expect(codeOf { () throws(TransportError) in try client.send(Payload([], topic: "t")) } == .wouldBlock)
        client.feed(text: "RECEIPT\nreceipt-id:1\n\n^@")
        #expect(client.isOpen && client.failure == nil)
    }

    @Test("The first message opens the connection, because any number may come before the next receipt")
    func early() throws {
        var client = try stompClient { $0.subscriptions = ["/queue/a", "/queue/b"] }
        client.start()
        client.feed(text: "CONNECTED\nversion:1.2\nserver:b\n\n^@RECEIPT\nreceipt-id:1\n\n^@")
        client.feed(text: messageText(1, body: "one") + messageText(2, body: "two"))
        guard case .opened? = client.events.first else {
            Issue.record("opened is not first")
            return
        }
        #expect(client.messages.map(\.bytes) == [Array("one".utf8), Array("two".utf8)])
        client.feed(text: "RECEIPT\nreceipt-id:2\n\n^@")
        #expect(client.failure == nil && client.events.count == 3)
    }

    @Test(
        "Another version is refused",
        arguments: [
            ("CONNECTED\nversion:1.1\n\n^@", "'1.1'"), ("CONNECTED\n\n^@", "1.0 (CONNECTED has no version)"),
            ("CONNECTED\nversion: 1.2\n\n^@", "' 1.2'"),
        ]
    )
    func versions(connected: String, version: String) throws {
        var client = try stompClient()
        client.start()
        client.feed(text: connected)
        let sentence = "the broker chose STOMP \(version); this client speaks 1.2: use a broker that does"
        #expect(client.failure == TransportError(.handshakeFailed, .handshake, sentence))
    }

    @Test(
        "An ERROR in place of CONNECTED becomes its error",
        arguments: [
            ("Bad CONNECT", "\nAccess refused for user 'ann'\n", .authenticationFailed),
            ("User name [ann] or password is invalid.", "java.lang.SecurityException", .authenticationFailed),
            ("Bad CONNECT", "Virtual host '//' access denied", .forbidden),
            ("not authorized", "", .forbidden),
            ("Version Mismatch", "Supported versions are 1.0,1.1\n", .handshakeFailed),
            ("", "", .handshakeFailed),
        ] as [(String, String, TransportError.Code)]
    )
    func refused(message: String, body: String, code: TransportError.Code) throws {
        var client = try stompClient {
            $0.login = "ann"
            $0.passcode = "secret"
        }
        client.start()
        client.feed(text: "ERROR\nmessage:\(message)\n\n\(body)^@")
        let seen = client.failure
        let failure = try #require(seen)
        #expect(failure.code == code && failure.phase == .handshake && failure.origin == .peer)
        let line = body.split(separator: "\n").first.map(String.init) ?? ""
        let text = [message, line].filter { !$0.isEmpty }.joined(separator: ": ")
        let why = text.isEmpty ? ", and does not say why" : ": \(text)"
        #expect(failure.reason == "the broker refuses this client\(why)")
        #expect(client.events.isEmpty)
    }

    @Test("The error of a refused CONNECT says which credentials it did not have")
    func missingCredentials() throws {
        func reason(_ change: (inout STOMPConfiguration) -> Void) throws -> String {
            var client = try stompClient(change)
            client.start()
            client.feed(text: "ERROR\nmessage:Authentication failed\n\n^@")
            return try #require(client.failure?.reason)
        }
        #expect(try reason { _ in }.contains("; no login was sent: "))
        #expect(try reason { $0.login = "ann" }.contains("; no passcode was sent: "))
    }

    @Test("The text of an ERROR is shown in part, and only as printable letters")
    func excerpt() throws {
        var client = try stompClient()
        client.start()
        let long = String(repeating: "x", count: 900)
        client.feed(text: "ERROR\nmessage:\u{7}\(long)\n\n\(long)^@")
        let reason = try #require(client.failure?.reason)
        #expect(reason.utf8.count < 500 && reason.contains(": ?xxx") && reason.contains("..."))
    }

    @Test("A refused subscription names its destination")
    func refusedSubscription() throws {
        var client = try stompClient { $0.subscriptions = ["/queue/a", "/queue/secret"] }
        client.start()
        client.feed(text: "CONNECTED\nversion:1.2\nserver:b\n\n^@ERROR\nreceipt-id:2\nmessage:access_refused\n\n^@")
        let sentence = "the broker refuses the subscription to '/queue/secret': access_refused"
        #expect(client.failure == TransportError(.forbidden, .handshake, sentence))
    }

    static let broken: [(String, String)] = [
        ("MESSAGE before CONNECTED", "MESSAGE\n"),
        ("RECEIPT before CONNECTED", "RECEIPT\n"),
        ("a second CONNECTED", "CONNECTED\nversion:1.2\nserver:b\n\n^@CONNECTED\n"),
        ("a client's command", "SEND\n"),
        ("a receipt that was not requested", "CONNECTED\nversion:1.2\nserver:b\n\n^@RECEIPT\nreceipt-id:9\n\n^@"),
        ("a receipt with another writing", "CONNECTED\nversion:1.2\nserver:b\n\n^@RECEIPT\nreceipt-id:01\n\n^@"),
        ("a receipt without its name", "CONNECTED\nversion:1.2\nserver:b\n\n^@RECEIPT\n\n^@"),
        ("CONNECTED with a body", "CONNECTED\nversion:1.2\nserver:b\n\nx"),
        ("one heart-beat", "CONNECTED\nversion:1.2\nheart-beat:5\n\n^@"),
        ("three heart-beats", "CONNECTED\nversion:1.2\nheart-beat:5,5,5\n\n^@"),
        ("a negative heart-beat", "CONNECTED\nversion:1.2\nheart-beat:-5,5\n\n^@"),
        ("a heart-beat with a space", "CONNECTED\nversion:1.2\nheart-beat:5, 5\n\n^@"),
    ]

    @Test("A broker that breaks the handshake is rejected", arguments: broken)
    func rejected(what: String, text: String) throws {
        var client = try stompClient { $0.subscriptions = ["/queue/a"] }
        client.start()
        client.feed(text: text)
        #expect(client.failure?.code == .protocolViolation)
        #expect(client.failure?.phase == .handshake)
        #expect(client.events.isEmpty)
    }

    @Test("A server of another protocol is recognized by its first bytes")
    func foreign() throws {
        func reason(_ bytes: [UInt8]) throws -> String {
            var client = try stompClient()
            client.start()
            client.feed(bytes)
            #expect(client.failure?.phase == .handshake)
            return try #require(client.failure?.reason)
        }
        #expect(
            try reason([0x15, 3, 3, 0, 2, 2, 40]).contains("the server speaks TLS; this client speaks plain STOMP")
        )
        #expect(
            try reason(Array("HTTP/1.1 400 Bad Request\r\n".utf8))
                .hasPrefix("the server speaks HTTP ('HTTP/1.1 400 Bad Request'); this client speaks STOMP: use stomp")
        )
        #expect(try reason([0x20, 2, 0, 0]).contains("the server speaks MQTT; this client speaks STOMP"))
        #expect(try reason(Array("SSH-2.0".utf8)) == "a frame begins with 'SSH-', expected was a command of STOMP 1.2")
    }

    @Test("A broker that stalls ends in an error that says what is missing")
    func late() throws {
        var client = try stompClient()
        client.start()
        client.feed(text: "CONNECTED\nversion:")
        client.advance(by: .seconds(9))
        #expect(client.failure == nil)
        client.advance(by: .seconds(1))
        #expect(client.failure == TransportError(.timedOut, .handshake, "no CONNECTED came in time"))
        var other = try stompClient { $0.subscriptions = ["a", "b"] }
        other.start()
        other.feed(text: "CONNECTED\nversion:1.2\nserver:b\n\n^@")
        other.advance(by: .seconds(10))
        let sentence = "the receipts of 2 subscriptions did not come in time"
        #expect(other.failure == TransportError(.timedOut, .handshake, sentence))
    }

    @Test("A broker that closes during the handshake is an error, and its begun ERROR is the reason")
    func closed() throws {
        var client = try stompClient()
        client.start()
        client.endInput()
        #expect(client.failure?.code == .closedByPeer && client.failure?.phase == .handshake)
        var other = try stompClient()
        other.start()
        other.feed(text: "ERROR\nmessage:Authentication failed\n\nwith a stack tr")
        #expect(other.failure == nil)
        other.endInput()
        #expect(other.failure?.code == .authenticationFailed)
    }
}
