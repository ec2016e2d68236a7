import EmbeddedServers
import TestSupport
import Testing
import TransportAPI
import Transports

// The code of Docs/reference/mqtt.md without changes, except for the URL and the end.

private func subscribing(_ url: String, _ show: @escaping @Sendable (Payload) -> Void) async throws -> MQTTClient {
    let supervisor = try Supervisor(url)
    let client = MQTTClient(supervisor)
    supervisor.connect()

    let lunch = try await client.subscribe("rooms/lunch")
    Task { for try await message in lunch { show(message) } }
    try await client.subscribe("presence/+") { show($0) }
    await client.filtersAreComplete()

    let outcome = await client.publish(Payload(text: "Soup?", topic: "rooms/lunch"))
    guard outcome.isSuccess else { throw NotSent(outcome: outcome) }
    try await client.unsubscribe("presence/+")
    return client
}

private struct NotSent: Error {
    var outcome: SendOutcome
}

private func broker(_ url: String) async throws -> EmbeddedServer {
    var limits = BrokerLimits()
    limits.sessionExpiry = .seconds(3600)
    let server = try await EmbeddedServer.startBroker(url, limits: limits) { client in
        client.match(user: "ann", password: "secret") ? .accept : .wrongCredentials
    }
    if let now = await server.brokerStatistics() { #expect("\(now.sessions), \(now.dropped)" == "0, 0") }
    return server
}

@Suite("Docs/reference/mqtt.md", .timeLimit(.minutes(5)), .ownThread)
struct MQTTDocTests {
    @Test("Docs/reference/mqtt.md shows code that works", arguments: ["mqtt", "mqtt+ws"])
    func examples(scheme: String) async throws {
        let server = try await broker("\(scheme)://127.0.0.1:0")
        let port = try #require(server.endpoint.port)
        let url = "\(scheme)://ann:secret@127.0.0.1:\(port)/?qos=1&client-id=ann&clean-session=off"
        let (shown, report) = AsyncStream.makeStream(of: Payload.self)
        let client = try await subscribing(url) { report.yield($0) }
        var payloads = shown.makeAsyncIterator()
        #expect(await payloads.next()?.content == Payload(Array("Soup?".utf8), topic: "rooms/lunch"))
        await client.close()
        await server.stop()
    }
}
