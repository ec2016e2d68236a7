import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("WebSocket closing handshake")
struct WebSocketClosingTests {
    @Test(
        "A client that closes waits for the server's close frame and for the end of the connection",
        arguments: [1, .max]
    )
    func clientCloses(slice: Int) throws {
        var client = try openCore(.client)
        var server = try openCore(.server)
        client.core.close(CloseReason(.user, code: 4001, text: "bye"), &client.context)
        exchange(&client, &server, slice: slice)
        #expect(server.closeReason?.initiator == .peer)
        #expect(server.closeReason?.code == 4001 && server.closeReason?.text == "bye")
        #expect(client.closeReason == nil)
        client.endInput()
        #expect(client.closeReason == CloseReason(.user, code: 4001, text: "bye"))
        #expect(client.core.deadline == nil && server.core.deadline == nil)
    }

    @Test("A server that closes is done when the client has answered", arguments: [1, .max])
    func serverCloses(slice: Int) throws {
        var client = try openCore(.client)
        var server = try openCore(.server)
        server.core.close(CloseReason(.user, code: 1001, text: "restart"), &server.context)
        exchange(&client, &server, slice: slice)
        #expect(server.closeReason == CloseReason(.user, code: 1001, text: "restart"))
        client.endInput()
        #expect(client.closeReason == CloseReason(.peer, code: 1001, text: "restart"))
    }

    @Test("Both sides may close at once")
    func simultaneous() throws {
        var client = try openCore(.client)
        var server = try openCore(.server)
        client.core.close(.user, &client.context)
        server.core.close(CloseReason(.keepalive), &server.context)
        let fromClient = client.takeOutput()
        let fromServer = server.takeOutput()
        client.feed(fromServer)
        server.feed(fromClient)
        #expect(server.closeReason == CloseReason(.keepalive))
        client.endInput()
        #expect(client.closeReason == .user)
        #expect(client.takeOutput().isEmpty && server.takeOutput().isEmpty)
    }

    @Test(
        "A close code is echoed, and its meaning is reported",
        arguments: [
            ([], 1005, "", .peer, nil), (closeBody(1000), 1000, "", .peer, nil),
            (closeBody(1000, "bye é"), 1000, "bye é", .peer, nil), (closeBody(1001), 1001, "", .peer, nil),
            (closeBody(1002, "x"), 1002, "x", .protocolError, .protocolViolation),
            (closeBody(1008), 1008, "", .authentication, .forbidden),
            (closeBody(1009), 1009, "", .peer, .messageTooLarge),
            (closeBody(1011), 1011, "", .peer, .serverUnavailable),
            (closeBody(1012), 1012, "", .peer, .serverUnavailable),
            (closeBody(3000), 3000, "", .authentication, .authenticationFailed),
            (closeBody(4999), 4999, "", .peer, .closedByPeer),
        ] as [([UInt8], UInt16, String, CloseReason.Initiator, TransportError.Code?)]
    )
    func echo(
        body: [UInt8],
        code: UInt16,
        reason: String,
        initiator: CloseReason.Initiator,
        error: TransportError.Code?
    ) throws {
        for role in [CoreRole.client, .server] {
            var core = try openCore(role)
            core.feed(frame(to: role, 0x88, body) + frame(to: role, 0x81, text("late")), slice: 1)
            let written = frames(core.takeOutput())
            #expect(written.map(\.first) == [0x88] && written.first?.payload == Array(body.prefix(2)))
            if role == .client { core.endInput() }
            #expect(core.closeReason?.code == code && core.closeReason?.text == reason)
            #expect(core.closeReason?.initiator == initiator && core.closeReason?.error?.code == error)
            #expect(core.failure == nil && core.messages.isEmpty && core.input.isEmpty)
        }
    }

    @Test(
        "An invalid close frame is answered with 1002 or 1007",
        arguments: [
            ([0x03], 1002), (closeBody(0), 1002), (closeBody(999), 1002), (closeBody(1004), 1002),
            (closeBody(1005), 1002),
            (closeBody(1006), 1002), (closeBody(1015), 1002), (closeBody(1016), 1002), (closeBody(2999), 1002),
            (closeBody(5000), 1002), (closeBody(65535), 1002), (closeBody(1000) + [0xc3], 1007),
            (closeBody(1000) + [0xed, 0xa0, 0x80], 1007),
        ] as [([UInt8], UInt16)]
    )
    func broken(body: [UInt8], code: UInt16) throws {
        for role in [CoreRole.client, .server] {
            var core = try openCore(role)
            core.feed(frame(to: role, 0x88, body))
            #expect(core.failure?.detail == Int(code))
            #expect(frames(core.takeOutput()).first?.payload.prefix(2) == closeBody(code)[...])
        }
    }

    @Test("A side sends nothing after its close frame, and drops messages")
    func silent() throws {
        var server = try openCore(.server)
        server.feed(frame(to: .server, 0x01, text("begun")))
        server.core.close(.user, &server.context)
        #expect(frames(server.takeOutput()).map(\.payload) == [closeBody(1000)])
        #expect {
            try server.send(Payload([1]))
        } throws: { error in
            (error as? TransportError)?.code == .closedByUser
        }
        server.core.close(CloseReason(.keepalive), &server.context)
        let rest = frame(to: .server, 0x80, [0xff]) + frame(to: .server, 0x82, [1]) + frame(to: .server, 0x89)
        server.feed(rest + frame(to: .server, 0x88, closeBody(1000)))
        #expect(server.messages.isEmpty && server.takeOutput().isEmpty)
        #expect(server.closeReason == .user)
    }

    @Test("A side that gets no answer ends the closing handshake after the timeout, and not before")
    func timeout() throws {
        for role in [CoreRole.client, .server] {
            var core = try openCore(role) { $0.closeTimeout = .seconds(2) }
            core.core.close(.user, &core.context)
            core.advance(by: .milliseconds(1999))
            #expect(core.closeReason == nil)
            core.advance(by: .milliseconds(1))
            #expect(core.closeReason == .user)
            #expect(core.core.deadline == nil)
        }
    }

    @Test("A client whose server leaves the connection open ends it after the timeout")
    func serverLingers() throws {
        var client = try openCore(.client)
        client.feed(frame(to: .client, 0x88, closeBody(1000)))
        client.advance(by: .milliseconds(4999))
        #expect(client.closeReason == nil)
        client.advance(by: .milliseconds(1))
        #expect(client.closeReason == CloseReason(.peer, code: 1000))
        #expect(client.events.count == 2)
    }

    @Test("After our close frame, neither the end of the connection nor a violation changes the reason")
    func afterCloseFrame() throws {
        var client = try openCore(.client)
        client.core.close(.user, &client.context)
        client.endInput()
        #expect(client.closeReason == .user && client.failure == nil)
        var server = try openCore(.server)
        server.core.close(.user, &server.context)
        _ = server.takeOutput()
        server.feed([0xff, 0xff])
        #expect(server.closeReason == .user && server.failure == nil)
        #expect(server.takeOutput().isEmpty)
    }

    @Test(
        "The close frame carries the code of its reason, or a matching one",
        arguments: [
            (CloseReason(.user), 1000), (CloseReason(.user, code: 3456), 3456), (CloseReason(.user, code: 1006), 1000),
            (CloseReason(.user, code: 110), 1000), (CloseReason(.keepalive), 1001), (CloseReason(.protocolError), 1002),
            (CloseReason(.authentication), 1008),
            (CloseReason(TransportError(.messageTooLarge, .open, "")), 1009),
            (CloseReason(TransportError(.invalidText, .open, "")), 1007),
        ] as [(CloseReason, UInt16)]
    )
    func codes(reason: CloseReason, code: UInt16) throws {
        var core = try openCore(.server)
        core.core.close(reason, &core.context)
        #expect(frames(core.takeOutput()).first?.payload.prefix(2) == closeBody(code)[...])
    }

    @Test("A long reason is cut between code points to fit a control frame")
    func longReason() throws {
        var client = try openCore(.client)
        var server = try openCore(.server)
        client.core.close(CloseReason(.user, text: String(repeating: "🎉", count: 100)), &client.context)
        exchange(&client, &server)
        #expect(server.closeReason?.text == String(repeating: "🎉", count: 30))
    }
}
