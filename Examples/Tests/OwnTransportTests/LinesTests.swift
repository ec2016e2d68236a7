import EmbeddedServers
import OwnTransport
import Testing
import TransportAPI
import TransportContract
import Transports

@Suite("lines://", .timeLimit(.minutes(2)))
struct LinesTests {
    @Test("The transport keeps every promise", arguments: TransportContract.checks)
    func contract(check: ContractCheck) async throws {
        try await check.run(ContractSubject(.lines))
    }

    @Test("A registered transport is used by configurations, supervisors and servers")
    func registered() async throws {
        var registry = TransportRegistry.standard
        registry.register(.lines)
        let server = try await EmbeddedServer.start("lines://127.0.0.1:0", registry: registry)
        let file = #"{"endpoints": ["\#(server.endpoint)?max-message=1KiB"]}"#
        let configuration = try TransportConfiguration(json: file.utf8, registry: registry)
        let supervisor = try Supervisor(configuration, registry: registry)
        var messages = supervisor.messages.makeAsyncIterator()
        supervisor.connect()
        #expect(await supervisor.send(Payload(text: "one\ntwo")) == .written)
        #expect(await messages.next()?.bytes == Array("one\ntwo".utf8))
        await supervisor.close()
        await server.stop()
    }

    @Test("An option with a wrong value is refused with its name")
    func wrongOption() throws {
        let error = #expect(throws: TransportError.self) {
            _ = try TransportRegistry([.lines]).transport(for: Endpoint("lines://127.0.0.1?max-message=none"))
        }
        #expect(error?.reason.contains("max-message") == true)
    }
}
