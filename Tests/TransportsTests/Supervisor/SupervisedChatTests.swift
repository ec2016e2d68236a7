import Codecs
import EmbeddedServers
import TestSupport
import Testing
import TransportAPI
import Transports
import TrialCertificates

/// Runs the same chat code over every transport and format. Only the configuration differs.
@Suite("A supervised chat", .timeLimit(.minutes(5)), .ownThread)
struct SupervisedChatTests {
    static let names = TransportRegistry.available.transports.map(\.name)

    /// A configuration with the URL of a server.
    private func file(_ server: EmbeddedServer, _ codec: WireFormat) throws -> TransportConfiguration {
        var endpoint = server.endpoint
        endpoint.options += try TransportRegistry.trial.transport(named: endpoint.scheme).loopback("ann")
        let text = """
            {"endpoints": ["\(endpoint)"], "codec": "\(codec.name)", "keepalive": {"interval": "30s"}}
            """
        return try TransportConfiguration(json: text.utf8)
    }

    @Test("The same code runs over every transport and format", arguments: names, WireFormat.allCases)
    func chat(name: String, codec: WireFormat) async throws {
        let server = try await EmbeddedServer.start("\(name)://127.0.0.1:0", registry: .trial)
        let configuration = try file(server, codec)
        let supervisor = try Supervisor(configuration, registry: .trial)
        let chat = supervisor.channel(of: ChatMessage.self, codec: configuration.codec.codec())
        let messages = chat.messages
        var states = supervisor.states.makeAsyncIterator()
        supervisor.connect()
        while let state = await states.next(), !state.isOpen {}

        var iterator = messages.makeAsyncIterator()
        for number in 0..<20 {
            var message = ChatMessage()
            message.id = "\(number)"
            message.text = "Grüße, 世界 \(number)"
            #expect(await chat.send(message).isSuccess)
            let echo = await iterator.next()
            #expect(echo?.id == "\(number)")
            #expect(echo?.text == message.text)
        }
        await supervisor.close()
        #expect(await supervisor.state() == .closed(.user))
        #expect(await iterator.next() == nil)
        #expect(await chat.send(ChatMessage()).isSuccess == false)
        await server.stop()
    }
}
