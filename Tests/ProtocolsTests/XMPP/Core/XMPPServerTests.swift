import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("XMPP server")
struct XMPPServerTests {
    @Test("Both sides open, exchange any bytes, acknowledge and close, in any slices", arguments: [Int.max, 1, 3])
    func both(slice: Int) throws {
        var client = try xmppClient { ($0.user, $0.password, $0.awaitsAcknowledgements) = ("ann", "secret", true) }
        var server = try xmppServer {
            $0.authentication = { user, password in user == "ann" && password == "secret" }
        }
        client.start()
        server.start()
        exchange(&client, &server, slice: slice)
        #expect(client.isOpen && server.isOpen && server.core.identity == Identity("ann"))
        #expect(client.core.address?.hasPrefix("ann@example.org/") == true)
        let bytes = (0...255).map { UInt8($0) }
        for id in 1...3 {
            #expect(try client.send(Payload(bytes), id: UInt64(id)) == .awaitingAcknowledgement)
            let answer = Payload(Array("é<\(id)".utf8), kind: .text, qos: .atLeastOnce)
            #expect(try server.send(answer, id: UInt64(id)) == .awaitingAcknowledgement)
        }
        exchange(&client, &server, slice: slice)
        #expect(server.messages.map(\.bytes) == [bytes, bytes, bytes] && server.messages[0].kind == .binary)
        #expect(client.messages.map(\.bytes) == (1...3).map { Array("é<\($0)".utf8) })
        #expect(client.acknowledgedIDs == [1, 2, 3] && server.acknowledgedIDs == [1, 2, 3])
        let ping = try server.core.ping(&server.context)
        exchange(&client, &server, slice: slice)
        #expect(server.pongs == [ping])
        client.core.close(.user, &client.context)
        exchange(&client, &server, slice: slice)
        #expect(server.closeReason?.initiator == .peer)
        client.drain()
        exchange(&client, &server, slice: slice)
        #expect(client.closeReason == .user && client.failure == nil && server.failure == nil)
    }

    @Test("A client without acknowledgements opens the connection by its presence")
    func withoutManagement() throws {
        var client = try xmppClient { $0.requestsManagement = false }
        var server = try xmppServer(isLocal: false)
        client.start()
        server.start()
        exchange(&client, &server)
        #expect(client.isOpen && server.isOpen && !server.core.capabilities.hasNativePing)
        #expect(try client.send(Payload(text: "x"), id: 1) == .written)
        exchange(&client, &server)
        #expect(server.messages.map(\.bytes) == [Array("x".utf8)])
    }

    @Test("A server answers from the address to which the client wrote")
    func partner() throws {
        var client = try xmppClient { $0.partner = "bob@example.org" }
        var server = try xmppServer()
        client.start()
        server.start()
        exchange(&client, &server)
        _ = try client.send(Payload(text: "x"), id: 1)
        exchange(&client, &server)
        _ = try server.send(Payload(text: "y"), id: 1)
        #expect(server.takeXMPP().contains("from='bob@example.org' to='"))
    }

    @Test("PLAIN is refused where others can read the password")
    func plain() throws {
        var server = try xmppServer(isLocal: false)
        server.start()
        server.feed(xmpp: streamHeader)
        #expect(!server.takeXMPP().contains("PLAIN"))
        server.feed(
            xmpp: "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGFubgBzZWNyZXQ=</auth>"
        )
        #expect(server.failure?.code == .authenticationFailed)
        #expect(server.takeXMPP().contains("<encryption-required/></failure></stream:stream>"))
        var encrypted = try xmppServer(isLocal: false)
        encrypted.context.isEncrypted = true
        encrypted.start()
        encrypted.feed(xmpp: streamHeader)
        #expect(encrypted.takeXMPP().contains("PLAIN"))
    }

    @Test("A wrong password, and one that is malformed, is refused")
    func wrongPassword() throws {
        for text in ["AGFubgBzZWNyZXQ=", "!", "YW5u", "AGFubgBzZWNyZXQAAA=="] {
            var server = try xmppServer { $0.authentication = { _, _ in false } }
            server.start()
            server.feed(xmpp: streamHeader)
            server.feed(
                xmpp: "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>\(text)</auth>"
            )
            #expect(server.failure?.code == .authenticationFailed && server.takeXMPP().hasSuffix("</stream:stream>"))
        }
    }

    @Test("A stanza that is too large ends the stream with an error that both sides read")
    func tooLarge() throws {
        var client = try xmppClient()
        var server = try xmppServer { $0.maximumMessageSize = 10 }
        client.start()
        server.start()
        exchange(&client, &server)
        _ = try client.send(Payload([UInt8](repeating: 1, count: 200_000)), id: 1)
        exchange(&client, &server)
        #expect(server.failure?.code == .messageTooLarge)
        exchange(&client, &server)
        #expect(client.failure?.code == .closedByPeer && client.failure?.reason.contains("policy-violation") == true)
        #expect(
            codeOf { () throws(TransportError) in try server.send(Payload([UInt8](repeating: 1, count: 11))) }
                == .messageTooLarge
        )
    }

    @Test("Requests before the handshake is complete, and silence, are refused")
    func outOfPlace() throws {
        for text in ["<message/>", "<presence/>", "</stream:stream>", "<auth/>"] {
            var server = try xmppServer()
            server.start()
            server.feed(xmpp: streamHeader + text)
            #expect(server.failure != nil && !server.isOpen, "\(text)")
        }
        var server = try xmppServer()
        server.start()
        server.advance(by: .seconds(11))
        #expect(server.failure?.code == .timedOut && server.takeXMPP().contains("connection-timeout"))
    }

    @Test("A message waits for its acknowledgement only where its sender asks for that")
    func qualities() throws {
        var client = try xmppClient()
        var server = try xmppServer()
        client.start()
        server.start()
        exchange(&client, &server)
        #expect(!client.core.capabilities.acknowledgesMessages && client.core.capabilities.hasNativePing)
        let (none, once, twice) = (Payload(text: "x"), Payload([1], qos: .atLeastOnce), Payload([1], qos: .exactlyOnce))
        #expect(try client.send(none, id: 1) == .written && server.send(none, id: 1) == .written)
        #expect(try client.send(once, id: 2) == .awaitingAcknowledgement)
        #expect(try server.send(once, id: 2) == .awaitingAcknowledgement)
        #expect(codeOf { () throws(TransportError) in try client.send(twice, id: 3) } == .unsupported)
        exchange(&client, &server)
        #expect(client.acknowledgedIDs == [2] && server.acknowledgedIDs == [2])
    }
}
