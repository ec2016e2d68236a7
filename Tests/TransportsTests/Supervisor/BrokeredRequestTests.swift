import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI

/// Two clients of a broker that answer each other's requests.
@Suite("Requests through a broker", .timeLimit(.minutes(5)), .ownThread)
struct BrokeredRequestTests {
    private func supervisor(
        _ broker: EmbeddedServer,
        _ mode: DeliveryConfiguration.Mode,
        _ options: String
    ) throws -> (Supervisor, Recorder) {
        var configuration = SupervisorConfiguration.quick
        configuration.delivery.mode = mode
        let endpoint = try Endpoint("mqtt://127.0.0.1:\(broker.endpoint.port ?? 0)/?qos=1&\(options)")
        return try Supervisor.recorded([endpoint], configuration)
    }

    @Test(
        "A request goes to the topic of the other client, and its answer comes back",
        arguments: [.plain, .session] as [DeliveryConfiguration.Mode]
    )
    func answered(mode: DeliveryConfiguration.Mode) async throws {
        let broker = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let (ann, opened) = try supervisor(broker, mode, "publish=questions&subscribe=answers")
        let (ben, recorder) = try supervisor(broker, mode, "publish=answers&subscribe=questions")
        ben.onRequest(on: EventLoop.shared) { payload in
            guard payload.string != "49" else { throw RequestFailure(code: 49, reason: "not this one") }
            return bytes("re: " + payload.string)
        }
        ben.connect()
        ann.connect()
        await recorder.waitUntilOpen()
        await opened.waitUntilOpen()
        for number in 0..<49 {
            let answer = try await ann.request(bytes("\(number)"), timeout: .seconds(60))
            #expect(answer.string == "re: \(number)")
        }
        await #expect(throws: RequestError.refused(code: 49, reason: "not this one")) {
            _ = try await ann.request(bytes("49"), timeout: .seconds(60))
        }
        await ann.close()
        await ben.close()
        await broker.stop()
    }
}
