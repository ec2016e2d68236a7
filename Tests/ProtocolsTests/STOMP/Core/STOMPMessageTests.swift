import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("STOMP messages")
struct STOMPMessageTests {
    // MARK: Sending

    @Test("A message without a receipt is written")
    func written() throws {
        var client = try openSTOMPClient {
            $0.destination = "/queue/a:b"
            $0.sendHeaders = [STOMPHeader("persistent", "true")]
        }
        #expect(try client.send(Payload([0, 1]), id: 5) == .written)
        #expect(
            client.takeText() == """
                SEND
                destination:/queue/a\\cb
                content-type:application/octet-stream
                persistent:true
                content-length:2

                ^@\u{1}^@
                """
        )
        #expect(try client.send(Payload(text: "é", topic: "t", qos: .atMostOnce)) == .written)
        let frame = try #require(client.takeFrames().first)
        #expect(frame["destination"] == "t" && frame["content-type"] == "text/plain;charset=utf-8")
        #expect(frame["receipt"] == nil && frame.body == Array("é".utf8))
    }

    @Test("The content-type of the configuration replaces both")
    func contentType() throws {
        var client = try openSTOMPClient { $0.contentType = "application/json" }
        _ = try client.send(Payload(text: "{}", topic: "t"))
        #expect(client.takeFrames().first?["content-type"] == "application/json")
        #expect(client.core.capabilities.distinguishesText == false)
    }

    @Test("A receipt acknowledges its message, in any order")
    func acknowledged() throws {
        var client = try openSTOMPClient { $0.requestsReceipts = true }
        #expect(client.core.capabilities.acknowledgesMessages)
        for id in 7...9 as ClosedRange<UInt64> {
            #expect(try client.send(Payload([], topic: "t"), id: id) == .awaitingAcknowledgement)
        }
        #expect(client.takeFrames().map { $0["receipt"] } == ["1", "2", "3"])
        client.feed(text: "RECEIPT\nreceipt-id:2\n\n^@RECEIPT\nreceipt-id:3\n\n^@RECEIPT\nreceipt-id:1\n\n^@")
        #expect(client.acknowledged == [8, 9, 7])
        client.feed(text: "RECEIPT\nreceipt-id:1\n\n^@")
        #expect(client.failure?.code == .protocolViolation)
    }

    @Test("The payload decides about its receipt before the configuration")
    func quality() throws {
        var client = try openSTOMPClient { $0.requestsReceipts = true }
        #expect(try client.send(Payload([], topic: "t", qos: .atMostOnce)) == .written)
        #expect(client.core.acknowledges(Payload([], topic: "t", qos: .atMostOnce)) == false)
        #expect(client.core.acknowledges(Payload([], topic: "t")) == true)
        var plain = try openSTOMPClient()
        #expect(try plain.send(Payload([], topic: "t", qos: .atLeastOnce)) == .awaitingAcknowledgement)
        #expect(plain.core.acknowledges(Payload([], topic: "t", qos: .atLeastOnce)) == true)
        #expect(plain.core.acknowledges(Payload([], topic: "t")) == false)
    }

    @Test("Only so many messages wait for their receipts")
    func window() throws {
        var client = try openSTOMPClient {
            $0.requestsReceipts = true
            $0.maximumInFlight = 2
        }
        #expect(try client.send(Payload([1], topic: "t"), id: 1) == .awaitingAcknowledgement)
        #expect(try client.send(Payload([2], topic: "t"), id: 2) == .awaitingAcknowledgement)
        _ = client.takeOutput()
        #expect(try client.send(Payload([3], topic: "t"), id: 3) == .blocked)
        #expect(client.takeOutput().isEmpty)
        #expect(try client.send(Payload([4], topic: "t", qos: .atMostOnce), id: 4) == .written)
        client.feed(text: "RECEIPT\nreceipt-id:1\n\n^@")
        #expect(try client.send(Payload([3], topic: "t"), id: 3) == .awaitingAcknowledgement)
    }

    @Test("What STOMP cannot carry is refused, and the connection stays open")
    func refused() throws {
        var client = try openSTOMPClient { $0.limits.body = 3 }
        let refused: [(Payload, TransportError.Code)] = [
            (Payload([1, 2, 3, 4], topic: "t"), .messageTooLarge),
            (Payload([], topic: "t", isRetained: true), .unsupported),
            (Payload([], topic: "t", qos: .exactlyOnce), .unsupported),
            (Payload([]), .invalidConfiguration),
            (Payload([], topic: ""), .invalidConfiguration),
            (Payload([], topic: "a\0b"), .invalidConfiguration),
            (Payload([], topic: String(repeating: "x", count: 8193)), .invalidConfiguration),
        ]
        for (payload, code) in refused {
            #expect(codeOf { () throws(TransportError) in try client.send(payload) } == code)
        }
        #expect(client.takeOutput().isEmpty && client.failure == nil)
        #expect(try client.send(Payload([1, 2, 3], topic: "a\r\n\\:")) == .written)
        #expect(client.takeFrames().first?["destination"] == "a\r\n\\:")
    }

    @Test("An ERROR with the receipt of a message refuses this message")
    func refusedByBroker() throws {
        var client = try openSTOMPClient { $0.requestsReceipts = true }
        _ = try client.send(Payload([], topic: "a"), id: 7)
        _ = try client.send(Payload([], topic: "b"), id: 8)
        client.feed(text: "ERROR\nreceipt-id:2\nmessage:access_refused\n\n^@")
        #expect(client.refused.map(\.id) == [8])
        #expect(
            client.refused.first?.error
                == TransportError(.forbidden, .open, "the broker refuses the message: access_refused")
        )
        #expect(
            client.failure
                == TransportError(.closedByPeer, .open, "the broker ended the connection by ERROR: access_refused")
        )
    }

    @Test("An ERROR without a receipt ends the connection with what the broker says")
    func error() throws {
        var client = try openSTOMPClient()
        client.feed(text: messageError)
        #expect(
            client.failure
                == TransportError(
                    .closedByPeer,
                    .open,
                    "the broker ended the connection by ERROR:  malformed frame received: The message:"
                )
        )
        #expect(client.failure?.origin == .peer)
    }

    /// The example of the specification.
    private let messageError = """
        ERROR
        receipt-id:message-12345
        content-type:text/plain
        content-length:170
        message: malformed frame received

        The message:
        -----
        MESSAGE
        destined:/queue/a
        receipt:message-12345

        Hello queue a!
        -----
        Did not contain a destination header, which is REQUIRED
        for message propagation.
        ^@
        """

    // MARK: Receiving

    @Test("A message has its destination as topic", arguments: [Int.max, 1, 5])
    func received(slice: Int) throws {
        var client = try openSTOMPClient { $0.subscriptions = ["/queue/a"] }
        client.feed(text: messageText(1, body: "one") + "\n" + messageText(2, body: ""), slice: slice)
        #expect(
            client.messages == [
                Payload(Array("one".utf8), topic: "/queue/a", qos: .atMostOnce),
                Payload([], topic: "/queue/a", qos: .atMostOnce),
            ]
        )
        #expect(client.core.confirmsReceipt == false && client.takeOutput().isEmpty)
    }

    @Test(
        "Only a text in UTF-8 is a text",
        arguments: [
            ("text/plain", "é", true), ("TEXT/HTML;charset=\"UTF-8\"", "é", true),
            ("text/plain; charset=utf-8", "", true),
            ("text/plain;charset=utf-16", "é", false), ("application/json", "{}", false), ("text", "x", false),
        ]
    )
    func kind(type: String, body: String, isText: Bool) throws {
        var client = try openSTOMPClient { $0.subscriptions = ["/queue/a"] }
        client.feed(text: messageText(1, headers: "content-type:\(type)\n", body: body))
        #expect(client.messages.first?.kind == (isText ? .text : .binary))
    }

    @Test("A body that is not UTF-8 is delivered as bytes, whatever its content-type says")
    func notUTF8() throws {
        var client = try openSTOMPClient { $0.subscriptions = ["/queue/a"] }
        var frame = STOMPFrame(.message, body: [0xff, 0])
        frame.headers = [
            STOMPHeader("subscription", "1"), STOMPHeader("message-id", "1"), STOMPHeader("destination", "a"),
            STOMPHeader("content-type", "text/plain"), STOMPHeader("redelivered", "true"),
        ]
        client.feed(encoded(frame))
        #expect(
            client.messages == [Payload([0xff, 0], topic: "a", qos: .atMostOnce, isDuplicate: true)]
        )
    }

    @Test(
        "A message is acknowledged when its receiver has processed it",
        arguments: [STOMPAckMode.client, .clientIndividual]
    )
    func acknowledges(mode: STOMPAckMode) throws {
        var client = try openSTOMPClient {
            $0.subscriptions = ["/queue/a"]
            $0.ack = mode
        }
        #expect(client.core.confirmsReceipt)
        client.feed(text: messageText(1, ack: "a\\c1") + messageText(2, ack: "a\\c2"))
        #expect(client.messages.map(\.qos) == [.atLeastOnce, .atLeastOnce])
        #expect(client.takeOutput().isEmpty && client.core.bufferedBytes == 6)
        client.core.confirmReceipt(&client.context)
        #expect(client.takeText() == "ACK\nid:a\\c1\n\n^@")
        client.core.confirmReceipt(&client.context)
        #expect(client.takeText() == "ACK\nid:a\\c2\n\n^@")
        client.core.confirmReceipt(&client.context)
        #expect(client.takeOutput().isEmpty && client.core.bufferedBytes == 0)
    }

    @Test("A message that is larger than allowed is reported, and acknowledged after those before it")
    func discarded() throws {
        var client = try openSTOMPClient {
            $0.subscriptions = ["/queue/a"]
            $0.ack = .client
            $0.limits.body = 3
        }
        client.feed(text: messageText(1, ack: "1") + messageText(2, ack: "2", body: "1234") + messageText(3, ack: "3"))
        #expect(client.discarded == [DiscardedMessage(topic: "/queue/a", size: 4)])
        #expect(client.messages.count == 2 && client.takeOutput().isEmpty)
        client.core.confirmReceipt(&client.context)
        #expect(client.takeFrames().map { $0["id"] } == ["1", "2"])
        client.core.confirmReceipt(&client.context)
        client.feed(text: messageText(4, ack: "4", headers: "content-length:5\n", body: "12345"))
        #expect(client.takeFrames().map { $0["id"] } == ["3", "4"])
        var auto = try openSTOMPClient {
            $0.subscriptions = ["/queue/a"]
            $0.limits.body = 3
        }
        auto.feed(text: messageText(1, body: "1234"))
        #expect(auto.discarded.count == 1 && auto.failure == nil && auto.takeOutput().isEmpty)
    }

    static let incomplete: [(String, String)] = [
        ("MESSAGE has no destination", "subscription:1\nmessage-id:1\nack:1\n"),
        ("MESSAGE has no message-id", "subscription:1\ndestination:a\nack:1\n"),
        ("MESSAGE has no subscription", "message-id:1\ndestination:a\nack:1\n"),
        (
            "MESSAGE has no ack, but its subscription has mode client",
            "subscription:1\nmessage-id:1\ndestination:a\n"
        ),
        (
            "MESSAGE is for subscription '2', but there is no such subscription",
            "subscription:2\nmessage-id:1\ndestination:a\nack:1\n"
        ),
        (
            "MESSAGE is for subscription '+1', but there is no such subscription",
            "subscription:+1\nmessage-id:1\ndestination:a\nack:1\n"
        ),
    ]

    @Test("A message without what it must have is a protocol violation", arguments: incomplete)
    func lacksHeader(reason: String, headers: String) throws {
        var client = try openSTOMPClient {
            $0.subscriptions = ["a"]
            $0.ack = .client
        }
        client.feed(text: "MESSAGE\n\(headers)\n^@")
        #expect(client.failure == TransportError(.protocolViolation, .open, reason))
    }

    // MARK: Subscriptions on the open connection

    private func request(_ destination: String, _ number: UInt32) -> SubscriptionRequest {
        SubscriptionRequest(destination, qos: .atLeastOnce, number: number)
    }

    @Test("Subscriptions begin and end by request, and a request is answered with its last receipt")
    func subscribes() throws {
        var client = try openSTOMPClient { $0.subscriptions = ["/queue/a"] }
        let requests = [request("/queue/b", 70_000), request("/queue/c", 70_001)]
        #expect(try client.subscribe(requests, id: 40) == nil)
        let frames = client.takeFrames()
        #expect(frames.map { $0["id"] } == ["70000", "70001"])
        #expect(frames.map { $0["destination"] } == ["/queue/b", "/queue/c"])
        client.feed(text: "RECEIPT\nreceipt-id:3\n\n^@")
        #expect(client.answers.isEmpty)
        client.feed(text: "RECEIPT\nreceipt-id:2\n\n^@")
        #expect(client.answers == [.subscribed(40, [.atMostOnce, .atMostOnce])])
        #expect(try client.unsubscribe(["/queue/a"], id: 42) == nil)
        #expect(client.takeText() == "UNSUBSCRIBE\nid:1\nreceipt:4\n\n^@")
        client.feed(text: messageText(1) + "RECEIPT\nreceipt-id:4\n\n^@")
        #expect(client.messages.count == 1 && client.messages[0].subscription == 1)
        #expect(client.answers.last == .unsubscribed(42))
        client.feed(text: messageText(2))
        #expect(client.failure?.code == .protocolViolation)
    }

    @Test("No frame is written for a destination that has a subscription, and for one that has none to end")
    func answeredAtOnce() throws {
        var client = try openSTOMPClient {
            $0.subscriptions = ["/queue/a"]
            $0.ack = .client
        }
        let again = try client.subscribe([request("/queue/a", 70_000)], id: 40)
        #expect(again == .subscribed(40, [.atLeastOnce]))
        #expect(try client.unsubscribe(["/queue/b"], id: 41) == .unsubscribed(41))
        let text = client.takeText()
        #expect(text == "")
    }

    @Test("A destination that is wanted again before its UNSUBSCRIBE is answered gets a new SUBSCRIBE")
    func wantedAgain() throws {
        var client = try openSTOMPClient()
        _ = try client.subscribe([request("/queue/a", 70_000)], id: 1)
        _ = try client.unsubscribe(["/queue/a"], id: 2)
        #expect(try client.subscribe([request("/queue/a", 70_000)], id: 3) == nil)
        client.feed(text: (1...3).map { "RECEIPT\nreceipt-id:\($0)\n\n^@" }.joined())
        #expect(client.answers == [.subscribed(1, [.atMostOnce]), .unsubscribed(2), .subscribed(3, [.atMostOnce])])
        client.feed(text: "MESSAGE\ndestination:/queue/a\nmessage-id:1\nsubscription:70000\n\n^@")
        #expect(client.messages.map(\.subscription) == [70_000])
    }

    @Test("The number of subscriptions is limited")
    func manySubscriptions() throws {
        var client = try openSTOMPClient()
        let most = (0..<1024 as Range<UInt32>).map { request("/queue/\($0)", 70_000 + $0) }
        #expect(try client.subscribe(most, id: 1) == nil)
        #expect(
            codeOf { () throws(TransportError) in
                _ = try client.subscribe([request("a", 80_000)], id: 2)
            } == .wouldBlock
        )
    }

    @Test("A subscription that the broker refuses later is reported, and the connection ends as by any ERROR")
    func refusedLater() throws {
        var client = try openSTOMPClient()
        _ = try client.subscribe([request("/queue/b", 70_000)], id: 40)
        client.feed(text: "ERROR\nreceipt-id:1\nmessage:no\n\n^@")
        var error = TransportError(.forbidden, .open, "the broker refuses the subscription to '/queue/b': no")
        error.origin = .peer
        #expect(client.answers == [.refused(40, filter: "/queue/b", error)])
        #expect(client.failure?.code == .closedByPeer && client.failure?.reason.hasSuffix("by ERROR: no") == true)
    }

    @Test("No message leaves before the subscriptions of the app")
    func held() throws {
        var client = try openSTOMPClient { $0.destination = "/queue/a" }
        client.core.holdMessages(alsoLater: true)
        #expect(try client.send(Payload([65]), id: 1) == .blocked)
        _ = try client.subscribe([request("/queue/a", 70_000)], id: 1)
        client.core.releaseMessages(&client.context)
        #expect(try client.send(Payload([65]), id: 1) == .written)
        #expect(client.takeFrames().map(\.command) == [.subscribe, .send])
    }
}
