import Codecs
import EmbeddedServers
import Testing
import TransportAPI
import Transports

/// The code of the README, as it stands there.
private func chat(at url: String, format: WireFormat) async throws {
    let link = try await TransportRegistry.standard.connect(url)
    let codec = format.codec()

    let hello = ChatMessage(
        id: "1",
        conversation: "team-lunch",
        sender: "ann",
        sentAtMs: 1_767_225_600_000,
        text: "Soup or salad?"
    )
    let outcome = await link.send(Payload(try codec.encode(hello), kind: format.isText ? .text : .binary))
    guard outcome.isSuccess else { return print("not sent: \(outcome)") }

    while let payload = try await link.receive() {
        let message = try codec.decode(ChatMessage.self, from: payload.bytes)
        #expect(message.text == hello.text)
        if message.id == hello.id { break }
    }
    await link.close()
}

@Suite("The README", .timeLimit(.minutes(1)))
struct ReadmeTests {
    @Test("shows code that works", arguments: ["ws", "mqtt", "tcp", "udp"], WireFormat.allCases)
    func example(scheme: String, format: WireFormat) async throws {
        let server = try await EmbeddedServer.start("\(scheme)://127.0.0.1:0")
        var endpoint = server.endpoint
        if scheme == "mqtt" {
            endpoint.options = ["publish", "subscribe"].map { .init(name: $0, value: "lunch") }
        }
        try await chat(at: endpoint.description, format: format)
        await server.stop()
    }
}
