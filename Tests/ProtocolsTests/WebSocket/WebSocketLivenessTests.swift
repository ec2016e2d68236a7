import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("WebSocket pings and pongs")
struct WebSocketLivenessTests {
    @Test("A ping is answered with its payload", arguments: [1, .max])
    func answered(slice: Int) throws {
        for role in [CoreRole.client, .server] {
            for length in [0, 1, 125] {
                var core = try openCore(role)
                let payload = (0..<length).map { UInt8($0) }
                core.feed(frame(to: role, 0x89, payload), slice: slice)
                let written = frames(core.takeOutput())
                #expect(written.map(\.first) == [0x8a] && written.map(\.payload) == [payload])
                #expect(core.context.counters.controlFrames == 2)
            }
        }
    }

    @Test("Each ping between two cores is answered once", arguments: [1, .max])
    func ownPings(slice: Int) throws {
        var client = try openCore(.client)
        var server = try openCore(.server)
        for _ in 0..<3 { try client.core.ping(&client.context) }
        try server.core.ping(&server.context)
        exchange(&client, &server, slice: slice)
        #expect(client.pongs == [1, 2, 3] && server.pongs == [1])
        #expect(client.context.counters.controlFrames == 3 + 3 + 2)
    }

    @Test("Each pong has the number of its ping, and unknown pongs are ignored")
    func matching() throws {
        var client = try openCore(.client)
        for _ in 0..<3 { try client.core.ping(&client.context) }
        let bodies = frames(client.takeOutput()).map(\.payload)
        client.feed(frame(to: .client, 0x8a) + frame(to: .client, 0x8a, text("12345678")))
        #expect(client.pongs.isEmpty)
        client.feed(frame(to: .client, 0x8a, bodies[1]))
        client.feed(frame(to: .client, 0x8a, bodies[0]) + frame(to: .client, 0x8a, bodies[2]))
        #expect(client.pongs == [2, 1, 3])
        #expect(client.failure == nil)
    }

    @Test("A flood of pings from a peer that does not read takes bounded memory, and the last ping is answered")
    func flood() throws {
        var server = try openCore(.server)
        for number in 0..<5000 {
            server.feed(frame(to: .server, 0x89, text("ping number \(number)") + [UInt8](repeating: 0, count: 80)))
        }
        #expect(server.context.output.count < Liveness.outputBound + 200)
        server.advance(by: .seconds(1))
        #expect(server.context.output.count < Liveness.outputBound + 200)
        #expect(server.core.deadline != nil)
        _ = server.takeOutput()
        server.advance(by: .seconds(1))
        let late = frames(server.takeOutput())
        #expect(late.map(\.first) == [0x8a])
        #expect(late.first?.payload.starts(with: text("ping number 4999")) == true)
        #expect(server.core.deadline == nil)
    }

    @Test("No ping is possible before the handshake or after the close frame")
    func notOpen() throws {
        var early = WebSocketHarness(try WebSocketCore(.server, WebSocketConfiguration()))
        early.start()
        #expect {
            try early.core.ping(&early.context)
        } throws: { error in
            (error as? TransportError)?.code == .wouldBlock
        }
        var late = try openCore(.client)
        late.core.close(.user, &late.context)
        _ = late.takeOutput()
        #expect {
            try late.core.ping(&late.context)
        } throws: { error in
            (error as? TransportError)?.code == .closedByUser
        }
        late.feed(frame(to: .client, 0x89, text("x")))
        #expect(late.takeOutput().isEmpty)
    }
}
