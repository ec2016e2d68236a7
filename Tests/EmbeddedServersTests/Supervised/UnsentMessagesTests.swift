import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Outcomes of messages that a connection had taken and that never left.
@Suite("Messages that never left", .timeLimit(.minutes(5)), .ownThread)
struct UnsentMessagesTests {
    @Test(
        "When a supervisor closes, messages beyond the in-flight window are rejected, and those in it are unknown",
        arguments: ["mqtt", "mqtt+ws"],
        [1, 2].flatMap { qos in
            ["clean-session=on", "client-id=ann&clean-session=off", "early-publish=on"].map { (qos, $0) }
        }
    )
    func window(scheme: String, service: (qos: Int, session: String)) async throws {
        let (qos, session) = service
        let rig = try await SubscriberRig(scheme, "in-flight=2&\(session)", qos: qos)
        await rig.connect()
        if session.contains("early") { #expect(await rig.supervisor.send(message(0)) == .acknowledged) }
        await rig.proxy.set(PathFaults(blackHoleToClient: true))
        let supervisor = rig.supervisor
        let sends = (1...5).map { number in rig.begin { await supervisor.send(message(number)) } }
        // The loop begins them in order, and this after them.
        try await rig.begin {}.value
        await rig.proxy.wait { $0.bufferedBytes > 0 }
        await supervisor.close()
        var outcomes: [SendOutcome] = []
        for send in sends { outcomes.append(try await send.value) }
        for outcome in outcomes[..<2] { #expect(outcome.error?.code == .closedByUser && !outcome.isRejected) }
        for outcome in outcomes[2...] { #expect(outcome.error?.code == .closedByUser && outcome.isRejected) }
        await rig.stop()
    }

    @Test("When a supervisor gives up, messages beyond the in-flight window are rejected", arguments: [1, 2])
    func givesUp(qos: Int) async throws {
        let port = try ReservedPort(isDatagram: false)
        let server = try await EmbeddedServer.startBroker("mqtt://\(port.address)/")
        let proxy = try await FaultProxy.start(to: server.endpoint, seed: 1)
        let proxied = try #require(proxy.endpoint.port)
        let file = """
            {"endpoints": ["mqtt://127.0.0.1:\(proxied)/?qos=\(qos)&in-flight=2&clean-session=off&client-id=ann"],
             "maximum-attempts": 1, "backoff": {"policy": "immediate"}}
            """
        let supervisor = try Supervisor(TransportConfiguration(json: file.utf8))
        let recorder = supervisor.states
        supervisor.connect()
        for await state in recorder where state.isOpen { break }
        await proxy.set(PathFaults(blackHoleToClient: true))
        let sends = (1...5).map { number in
            Task(executorPreference: EventLoop.shared) { await supervisor.send(message(number)) }
        }
        await Task(executorPreference: EventLoop.shared) {}.value
        await proxy.wait { $0.bufferedBytes > 0 }
        await proxy.cut(.reset)
        var outcomes: [SendOutcome] = []
        for send in sends { outcomes.append(await send.value) }
        #expect(outcomes.map(\.isRejected) == [false, false, true, true, true], "\(outcomes)")
        #expect(outcomes.allSatisfy { $0.error != nil })
        await proxy.stop()
        await server.stop()
    }
}

private func message(_ number: Int) -> Payload { Payload(text: "\(number)", topic: "t") }

extension SendOutcome {
    fileprivate var error: TransportError? {
        switch self {
        case .rejected(let error), .unknown(let error): error
        case .acknowledged, .written, .expired: nil
        }
    }

    fileprivate var isRejected: Bool {
        if case .rejected = self { true } else { false }
    }
}
