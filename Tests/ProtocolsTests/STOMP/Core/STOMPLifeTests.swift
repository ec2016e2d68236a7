import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("STOMP heart-beats and closing")
struct STOMPLifeTests {
    @Test(
        "The longer interval counts in each direction, and 0 means none",
        arguments: [
            ("4000,9000", 9, 6), ("9000,4000", 5, 9), ("0,4000", 5, 0), ("4000,0", 0, 6), ("0,0", 0, 0), (nil, 0, 0),
        ] as [(String?, Int64, Int64)]
    )
    func agreement(promise: String?, outgoing: Int64, incoming: Int64) throws {
        let header = promise.map { "heart-beat:\($0)\n" } ?? ""
        let client = try openSTOMPClient(connected: "CONNECTED\nversion:1.2\n\(header)\n^@") {
            $0.outgoingHeartBeat = .seconds(5)
            $0.incomingHeartBeat = .seconds(6)
        }
        #expect(client.core.beats.outgoing == outgoing * 1_000_000_000)
        #expect(client.core.beats.incoming == incoming * 1_000_000_000)
        let capabilities = client.core.capabilities
        #expect(capabilities.keepsItselfAlive == (incoming > 0) && capabilities.hasNativePing == false)
        #expect(capabilities.keepaliveInterval == (incoming > 0 ? .seconds(incoming) : .seconds(60)))
    }

    @Test("A client that wants no heart-beats gets and sends none")
    func none() throws {
        var client = try openSTOMPClient(connected: "CONNECTED\nversion:1.2\nheart-beat:1000,1000\n\n^@") {
            $0.outgoingHeartBeat = nil
            $0.incomingHeartBeat = nil
        }
        client.advance(by: .seconds(3600))
        #expect(client.failure == nil && client.takeOutput().isEmpty)
        #expect(client.core.capabilities.keepsItselfAlive == false)
    }

    @Test("An interval beyond all measure does no harm")
    func endless() throws {
        var client = try openSTOMPClient(
            connected: "CONNECTED\nversion:1.2\nheart-beat:99999999999999999999,9223372036854775807\n\n^@"
        )
        client.advance(by: .seconds(1_000_000))
        #expect(client.failure == nil && client.takeOutput().isEmpty)
    }

    @Test("A client with nothing to send sends an empty line in time")
    func beats() throws {
        var client = try openSTOMPClient(connected: "CONNECTED\nversion:1.2\nheart-beat:0,10000\n\n^@") {
            $0.outgoingHeartBeat = .seconds(8)
        }
        client.advance(by: .milliseconds(7499))
        #expect(client.takeOutput().isEmpty)
        client.advance(by: .milliseconds(1))
        #expect(client.takeOutput() == [0x0a])
        client.advance(by: .seconds(5))
        _ = try client.send(Payload([], topic: "t"))
        _ = client.takeOutput()
        client.advance(by: .milliseconds(7499))
        #expect(client.takeOutput().isEmpty)
        client.advance(by: .seconds(75))
        #expect(client.takeOutput() == Array(repeating: 0x0a, count: 10) && client.failure == nil)
    }

    @Test("While output is leaving, no heart-beat is added to it")
    func outputMoves() throws {
        var client = try openSTOMPClient(connected: "CONNECTED\nversion:1.2\nheart-beat:0,8000\n\n^@") {
            $0.outgoingHeartBeat = .seconds(8)
        }
        client.context.outputMoved = .zero.advanced(by: .seconds(5))
        client.advance(by: .seconds(10))
        #expect(client.takeOutput().isEmpty)
        client.advance(by: .seconds(1))
        #expect(client.takeOutput() == [0x0a])
    }

    @Test("A broker that is silent for longer than twice the agreed interval, plus a margin, ends the connection")
    func silence() throws {
        var client = try openSTOMPClient(connected: "CONNECTED\nversion:1.2\nheart-beat:20000,0\n\n^@") {
            $0.incomingHeartBeat = .seconds(20)
        }
        client.advance(by: .seconds(25))
        client.feed(text: "\n")
        client.advance(by: .seconds(25))
        client.feed(text: "MESS")
        client.advance(by: .milliseconds(49_999))
        #expect(client.failure == nil)
        client.advance(by: .milliseconds(1))
        #expect(
            client.failure
                == TransportError(
                    .keepaliveTimeout,
                    .open,
                    "the broker was silent, but has promised a heart-beat every 20.0 seconds"
                )
        )
    }

    @Test("The margin is at most the interval, but at least a second")
    func margin() throws {
        for (interval, silence) in [(100, 1200), (1000, 3000), (4000, 12_000), (60_000, 130_000)] as [(Int64, Int64)] {
            var client = try openSTOMPClient(connected: "CONNECTED\nversion:1.2\nheart-beat:\(interval),0\n\n^@") {
                $0.incomingHeartBeat = .milliseconds(interval)
            }
            client.advance(by: .milliseconds(silence - 1))
            #expect(client.failure == nil)
            client.advance(by: .milliseconds(1))
            #expect(client.failure?.code == .keepaliveTimeout)
        }
    }

    @Test("Time in which received bytes may have been left unread is no silence")
    func unread() throws {
        var client = try openSTOMPClient(connected: "CONNECTED\nversion:1.2\nheart-beat:20000,0\n\n^@") {
            $0.incomingHeartBeat = .seconds(20)
        }
        client.context.unreadUntil = .zero.advanced(by: .seconds(29))
        client.advance(by: .seconds(78))
        #expect(client.failure == nil)
        client.advance(by: .seconds(1))
        #expect(client.failure?.code == .keepaliveTimeout)
    }

    // MARK: Receipts

    @Test("A receipt that does not come ends the connection")
    func overdue() throws {
        var client = try openSTOMPClient { $0.receiptTimeout = .seconds(5) }
        _ = try client.send(Payload([], topic: "t", qos: .atLeastOnce), id: 1)
        client.advance(by: .seconds(3))
        _ = try client.send(Payload([], topic: "t", qos: .atLeastOnce), id: 2)
        client.feed(text: "RECEIPT\nreceipt-id:1\n\n^@")
        client.advance(by: .milliseconds(4999))
        #expect(client.failure == nil)
        client.advance(by: .milliseconds(1))
        #expect(client.failure == TransportError(.acknowledgementTimeout, .open, "a RECEIPT did not come in time"))
    }

    @Test("A broker that sends other things has four times as long for a receipt")
    func overdueWhileBusy() throws {
        var client = try openSTOMPClient { $0.receiptTimeout = .seconds(5) }
        _ = try client.send(Payload([], topic: "t", qos: .atLeastOnce), id: 1)
        for _ in 0..<19 {
            client.advance(by: .seconds(1))
            client.feed(text: "\n")
        }
        #expect(client.failure == nil)
        client.advance(by: .seconds(1))
        #expect(client.failure?.code == .acknowledgementTimeout)
    }

    // MARK: Closing

    @Test("A close sends DISCONNECT and waits for its receipt")
    func closes() throws {
        var client = try openSTOMPClient {
            $0.subscriptions = ["/queue/a"]
            $0.ack = .client
        }
        client.feed(text: messageText(1, ack: "1"))
        _ = try client.send(Payload([], topic: "t", qos: .atLeastOnce), id: 6)
        _ = client.takeOutput()
        client.core.close(.user, &client.context)
        #expect(client.takeText() == "DISCONNECT\nreceipt:3\n\n^@")
        client.core.close(.user, &client.context)
        client.core.confirmReceipt(&client.context)
        #expect(client.takeOutput().isEmpty)
        #expect(codeOf { () throws(TransportError) in try client.send(Payload([], topic: "t")) } == .closedByUser)
        client.feed(text: messageText(2, ack: "2") + "RECEIPT\nreceipt-id:2\n\n^@")
        #expect(client.closeReason == nil && client.acknowledged == [6] && client.messages.count == 2)
        client.feed(text: "RECEIPT\nreceipt-id:3\n\n^@")
        #expect(client.closeReason == .user && client.takeOutput().isEmpty)
        client.endInput()
        #expect(client.failure == nil)
    }

    @Test("Only heart-beats follow DISCONNECT")
    func beatsWhileClosing() throws {
        var client = try openSTOMPClient(connected: "CONNECTED\nversion:1.2\nheart-beat:0,2000\n\n^@") {
            $0.outgoingHeartBeat = .seconds(2)
        }
        client.core.close(.user, &client.context)
        _ = client.takeOutput()
        client.advance(by: .seconds(4))
        #expect(client.takeOutput() == [0x0a, 0x0a])
    }

    @Test("A broker that gives no receipt of DISCONNECT, or closes before, does not delay the close for long")
    func noReceipt() throws {
        var client = try openSTOMPClient()
        client.core.close(.user, &client.context)
        client.context.outputMoved = .zero.advanced(by: .seconds(2))
        client.advance(by: .milliseconds(6999))
        #expect(client.closeReason == nil)
        client.advance(by: .milliseconds(1))
        let closed = client.closeReason
        let reason = try #require(closed)
        #expect(reason.initiator == .user)
        #expect(reason.error == TransportError(.timedOut, .closing, "no receipt of DISCONNECT came in time"))
        var other = try openSTOMPClient()
        other.core.close(.user, &other.context)
        other.endInput()
        #expect(other.closeReason == .user && other.failure == nil)
    }

    @Test("An ERROR after DISCONNECT is the error of the close")
    func errorWhileClosing() throws {
        var client = try openSTOMPClient()
        client.core.close(.user, &client.context)
        client.feed(text: "ERROR\nmessage:no\n\n^@")
        #expect(client.closeReason?.initiator == .user)
        #expect(client.closeReason?.error?.reason == "the broker ended the connection by ERROR: no")
    }

    @Test(
        "An ERROR after DISCONNECT that names the receipt of a message refuses it, and then is the error of the close"
    )
    func refusedWhileClosing() throws {
        var client = try openSTOMPClient {
            $0.destination = "/queue/a"
            $0.requestsReceipts = true
        }
        _ = try client.send(Payload([65]), id: 1)
        _ = try client.send(Payload([65]), id: 2)
        client.core.close(.user, &client.context)
        client.feed(text: "RECEIPT\nreceipt-id:1\n\n^@ERROR\nmessage:full\nreceipt-id:2\n\n^@")
        #expect(client.acknowledged == [1])
        #expect(client.refused.map(\.id) == [2])
        #expect(client.refused.first?.error.reason.contains("full") == true)
        #expect(client.closeReason?.initiator == .user && client.closeReason?.error != nil)
    }

    @Test("A close before the connection is open waits for nothing that is not sent")
    func closesEarly() throws {
        var idle = try stompClient()
        idle.core.close(.user, &idle.context)
        idle.drain()
        #expect(idle.closeReason == .user && idle.takeOutput().isEmpty)
        var connecting = try stompClient()
        connecting.start()
        _ = connecting.takeOutput()
        connecting.core.close(.user, &connecting.context)
        connecting.drain()
        #expect(connecting.takeText() == "DISCONNECT\n\n^@" && connecting.closeReason == .user)
        var subscribing = try stompClient { $0.subscriptions = ["/queue/a"] }
        subscribing.start()
        subscribing.feed(text: "CONNECTED\nversion:1.2\nserver:b\n\n^@")
        subscribing.core.close(.user, &subscribing.context)
        subscribing.feed(text: messageText(1) + "RECEIPT\nreceipt-id:1\n\n^@RECEIPT\nreceipt-id:2\n\n^@")
        #expect(subscribing.events.count == 1 && subscribing.closeReason == .user)
    }

    @Test("A broker that closes between two frames has closed, and otherwise the connection is lost")
    func endOfInput() throws {
        var client = try openSTOMPClient()
        client.feed(text: "\n")
        client.endInput()
        #expect(client.closeReason?.initiator == .peer && client.failure == nil)
        for begun in ["MESS", "MESSAGE\n", "MESSAGE\na:b\n\nbo"] {
            var other = try openSTOMPClient()
            other.feed(text: begun)
            other.endInput()
            #expect(other.failure?.code == .connectionLost)
        }
    }

    @Test("STOMP has no ping")
    func ping() throws {
        var client = try openSTOMPClient()
        #expect(codeOf { () throws(TransportError) in try client.core.ping(&client.context) } == .unsupported)
    }
}
