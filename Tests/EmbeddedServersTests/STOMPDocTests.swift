import EmbeddedServers
import TestSupport
import Testing
import TransportAPI
import Transports

// The code of Docs/reference/stomp.md without changes, except for the URL and the end.

private func subscribing(_ url: String, _ show: @escaping @Sendable (Payload) -> Void) async throws -> STOMPClient {
    let supervisor = try Supervisor(url)
    let client = STOMPClient(supervisor)
    supervisor.connect()

    let lunch = try await client.subscribe("/topic/rooms.lunch")
    Task { for try await message in lunch { show(message) } }
    try await client.subscribe("/topic/presence.*") { show($0) }

    let outcome = await client.send(Payload(text: "Soup?", topic: "/topic/rooms.lunch"))
    #expect(outcome == .acknowledged)
    try await client.unsubscribe("/topic/presence.*")
    return client
}

@Suite("Docs/reference/stomp.md", .timeLimit(.minutes(5)), .ownThread)
struct STOMPDocTests {
    @Test("Docs/reference/stomp.md shows code that works", arguments: ["stomp", "stomp+ws"])
    func examples(scheme: String) async throws {
        let server = try await EmbeddedServer.startBroker("\(scheme)://127.0.0.1:0")
        let port = try #require(server.endpoint.port)
        let (shown, report) = AsyncStream.makeStream(of: Payload.self)
        let client = try await subscribing("\(scheme)://127.0.0.1:\(port)/?receipt=on") { report.yield($0) }
        var payloads = shown.makeAsyncIterator()
        let payload = await payloads.next()
        #expect(payload?.topic == "/topic/rooms.lunch" && payload?.bytes == Array("Soup?".utf8))
        await client.close()
        await server.stop()
    }
}
