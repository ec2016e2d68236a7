import Primitives
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

/// A session server behind WebSocket handshakes that authenticate by a token in the query.
@Suite("The identity and the state of a session", .timeLimit(.minutes(5)), .ownThread)
struct SessionIdentityTests {
    /// A session server, and the sessions that have begun.
    private struct Server {
        let listener: any Listener
        let sessions: SessionServer
        let begun: AsyncStream<Session>

        init() async throws {
            let (begun, continuation) = AsyncStream<Session>.makeStream()
            let sessions = SessionServer { continuation.yield($0) }
            let listener = try await TransportRegistry.standard.listen(
                "ws://127.0.0.1:0",
                decide: { request in
                    switch request.query {
                    case "ann": .acceptAs(Identity("ann", claims: ["role": "admin"]))
                    case "bob": .acceptAs(Identity("bob"))
                    case "guest": .accept
                    default: .refuse(status: 401)
                    }
                }
            )
            (self.listener, self.sessions, self.begun) = (listener, sessions, begun)
            Task(executorPreference: EventLoop.shared) { try await sessions.serve(listener) }
        }

        func client(_ name: String, _ id: SessionID, launch: UInt16 = 1) throws -> Supervisor {
            var endpoint = listener.endpoint
            endpoint.options.append(.init(name: "query", value: name))
            var configuration = SupervisorConfiguration.quick
            configuration.delivery.mode = .session
            let whole = TransportConfiguration(endpoints: [endpoint], supervisor: configuration)
            return try Supervisor(whole) { $0.client = SessionClient(id: id, launch: launch) }
        }

        func stop() async {
            await sessions.close()
            await listener.close()
        }
    }

    private func lastState(_ supervisor: Supervisor) async -> SupervisorState? {
        var last: SupervisorState?
        for await state in supervisor.states { last = state }
        return last
    }

    @Test("A connection has the identity that the handshake's decision returned")
    func connectionIdentity() async throws {
        let registry = TransportRegistry.standard
        let listener = try await registry.listen(
            "ws://127.0.0.1:0",
            decide: { request in
                request.header("Authorization") == "Bearer 7" ? .acceptAs(Identity("ann")) : .refuse(status: 401)
            }
        )
        var endpoint = listener.endpoint
        endpoint.options.append(.init(name: "header", value: "Authorization: Bearer 7"))
        async let accepted = listener.accept()
        let client = try await registry.connect(endpoint)
        let server = try #require(try await accepted)
        #expect(server.identity == Identity("ann"))
        #expect(client.identity == nil)
        let refused = await #expect(throws: TransportError.self) { try await registry.connect(listener.endpoint) }
        #expect(refused?.code == .authenticationFailed)
        await client.close()
        await listener.close()
    }

    @Test("A session has the identity of the connection that began it")
    func sessionIdentity() async throws {
        let server = try await Server()
        let id = SessionID(high: 1, low: 2)
        let supervisor = try server.client("ann", id)
        supervisor.connect()
        var begun = server.begun.makeAsyncIterator()
        let session = try #require(await begun.next())
        #expect(session.identity == Identity("ann", claims: ["role": "admin"]))
        await supervisor.close()
        await server.stop()
    }

    @Test("A client with another identity, or with none, cannot resume a session", arguments: ["bob", "guest"])
    func otherIdentity(name: String) async throws {
        let server = try await Server()
        let id = SessionID(high: 3, low: 4)
        let first = try server.client("ann", id)
        first.connect()
        var begun = server.begun.makeAsyncIterator()
        let session = try #require(await begun.next())
        #expect(await first.send(bytes("mine")) == .acknowledged)
        let second = try server.client(name, id, launch: 2)
        let end = Task { await lastState(second) }
        second.connect()
        guard case .closed(let reason) = await end.value else {
            Issue.record("it is not closed")
            return
        }
        #expect(reason.error?.code == .forbidden)
        // The session of the first client goes on.
        #expect(await first.send(bytes("still mine")) == .acknowledged)
        #expect(await session.state() == .connected)
        await first.close()
        await server.stop()
    }

    @Test("A session says whether it is connected, and which messages its client has not acknowledged")
    func states() async throws {
        let server = try await Server()
        let supervisor = try server.client("ann", SessionID(high: 5, low: 6))
        supervisor.connect()
        var begun = server.begun.makeAsyncIterator()
        let session = try #require(await begun.next())
        var states = session.states.makeAsyncIterator()
        #expect(await supervisor.send(bytes("hello")) == .acknowledged)
        var state = await states.next()
        while state != nil, state != .connected { state = await states.next() }

        supervisor.suspend()
        guard case .disconnected(let time, let reason) = await states.next() else {
            Issue.record("it is not disconnected")
            return
        }
        #expect(time >= .zero)
        #expect(reason.initiator == .peer)
        let outcome = Task { await session.send(bytes("while away")) }
        try await Task.yield(while: await session.unacknowledged().isEmpty)
        #expect(await session.unacknowledged() == [bytes("while away")])

        supervisor.resume()
        #expect(await outcome.value == .acknowledged)
        #expect(await session.unacknowledged().isEmpty)
        #expect(await states.next() == .connected)
        await session.close()
        guard case .ended = await states.next() else {
            Issue.record("it has not ended")
            return
        }
        #expect(await states.next() == nil)
        await supervisor.close()
        await server.stop()
    }
}
