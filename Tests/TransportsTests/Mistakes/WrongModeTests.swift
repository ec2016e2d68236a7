import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

/// Clients without sessions at session servers, and the reverse.
@Suite("Clients in another delivery mode than their server", .timeLimit(.minutes(5)), .ownThread)
struct WrongModeTests {
    private static let names = ["tcp", "ws", "udp", "memory"]

    @Test("A plain client learns that the server expects sessions, and is closed")
    func plainClients() async throws {
        var rows: [MistakeRow] = []
        var configuration = SessionServer.Configuration()
        configuration.helloTimeout = .milliseconds(50)
        for name in Self.names {
            let events = ServerEvents()
            let host = try await ObservedSessionHost(name, configuration, events)
            for sends in [true, false] {
                rows.append(
                    MistakeRow(
                        client: "`\(name)`, plain, \(sends ? "sends" : "sends nothing")",
                        server: "session server",
                        outcome: try await .of(host.endpoint, sends: sends),
                        expected: "set the client's delivery mode to session",
                        mustRetry: false
                    )
                )
                rows[rows.count - 1].check()
            }
            let event = try await events.first()
            #expect(event.reason.error?.code == .unsupported && "\(event)".contains("delivery mode"), "\(event)")
            await host.stop()
        }
        try checkDocumented(rows)
    }

    @Test("A plain client over a framing without a close frame learns it from the server's last message")
    func plainFraming() async throws {
        let host = try await ObservedSessionHost("tcp", SessionServer.Configuration(), ServerEvents(), "?framing=u32")
        let outcome = try await MistakeOutcome.of(host.endpoint)
        #expect(outcome.error.code == .unsupported && !outcome.isRetried)
        await host.stop()
    }

    @Test("A session client learns that the server has no sessions, and tries again only a silent server")
    func sessionClients() async throws {
        var rows: [MistakeRow] = []
        for name in Self.names {
            for behaviour in PlainBehaviour.allCases {
                let server = try await MisunderstoodServer(name, behaviour)
                rows.append(
                    MistakeRow(
                        client: "`\(name)`, session",
                        server: "plain, \(behaviour.rawValue)",
                        // The attempt at a silent server ends after this. On a busy machine, the answer to the ping in
                        // the middle of this time comes late.
                        outcome: try await .of(
                            server.endpoint,
                            .session,
                            within: behaviour == .silent ? .seconds(6) : .seconds(10)
                        ),
                        expected: "set the delivery mode to plain",
                        mustRetry: behaviour == .silent
                    )
                )
                rows[rows.count - 1].check()
                await server.stop()
            }
        }
        try checkDocumented(rows)
    }

    @Test("A session client tries again if the server answers no pings")
    func deadServer() async throws {
        // The kernel accepts the connection, and no program reads it.
        let raw = try RawServer(.silent)
        let outcome = try await MistakeOutcome.of(
            try Endpoint("tcp://127.0.0.1:\(raw.port)"),
            .session,
            within: .seconds(5)
        )
        #expect(outcome.error.code == .timedOut && outcome.isRetried)
        #expect(outcome.error.reason.contains("set the delivery mode to plain"))
        raw.stop()
    }
}

/// The reaction of a server without sessions to a hello.
enum PlainBehaviour: String, CaseIterable {
    case echoes = "returns messages"
    case silent = "answers nothing"
    case speaks = "sends other messages"
}

/// A server without sessions, which runs on its loop alone.
private final class MisunderstoodServer: Sendable {
    private let listener: any Listener
    var endpoint: Endpoint { listener.endpoint }

    init(_ name: String, _ behaviour: PlainBehaviour) async throws {
        listener = try await TransportRegistry.standard.listen(
            at: Endpoint("\(name)://127.0.0.1:0"),
            on: .shared,
            .handle { Answering(behaviour) }
        )
    }

    func stop() async { await listener.close() }
}

private final class Answering: MessageHandler {
    private let behaviour: PlainBehaviour

    init(_ behaviour: PlainBehaviour) { self.behaviour = behaviour }

    func opened(_: any MessagePeer) {}

    func received(_ payload: Payload, from peer: any MessagePeer) {
        switch behaviour {
        case .echoes: _ = peer.sendNow(payload)
        case .speaks: _ = peer.sendNow(bytes(#"{"text": "welcome"}"#))
        case .silent: break
        }
    }

    func ended(_: any MessagePeer) {}
}

/// A session server whose listener is observed.
private final class ObservedSessionHost: Sendable {
    private let listener: any Listener
    private let server: SessionServer
    var endpoint: Endpoint { listener.endpoint }

    init(
        _ name: String,
        _ configuration: SessionServer.Configuration,
        _ events: ServerEvents,
        _ options: String = ""
    ) async throws {
        listener = try await TransportRegistry.standard.listen(
            "\(name)://127.0.0.1:0\(options)",
            observer: events.observer
        )
        server = SessionServer(configuration, on: EventLoop.shared) { _ in }
        Task(executorPreference: EventLoop.shared) { [server, listener] in try await server.serve(listener) }
    }

    func stop() async {
        await listener.close()
        await server.close()
    }
}
