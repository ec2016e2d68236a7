import SocketIO
import TestSupport
import Testing
import TransportAPI

/// Tests the app's greeting in an attempt, with connections on the supervisor's runtime and elsewhere. Time is under the
/// test's control.
@Suite("A supervisor's greeting", .timeLimit(.minutes(5)), .ownThread)
struct SupervisorGreetingTests {
    private let runtime = VirtualRuntime()

    private func script(
        _ isNear: Bool = true,
        _ answer: @escaping @Sendable (Script.Attempt) -> Script.Answer = { _ in .open }
    ) -> Script {
        Script(at: isNear ? runtime : nil, answer)
    }

    private func supervisor(
        _ script: Script,
        _ endpoints: [String] = ["memory://server"],
        observer: Recorder? = nil,
        _ change: (inout Supervisor.Setup) -> Void = { _ in },
        greeting: @escaping ConnectionGreeting
    ) throws -> Supervisor {
        var setup = try script.setup(endpoints)
        setup.greeting = greeting
        setup.observer = observer
        change(&setup)
        return try Supervisor(setup, on: runtime)
    }

    private func isOpen(_ supervisor: Supervisor) throws -> Bool { try runtime.run { await supervisor.state() }.isOpen }

    /// The errors of the failed attempts.
    private func failures(_ recorder: Recorder) -> [TransportError] {
        recorder.events.compactMap { if case .attemptFailed(_, let error) = $0 { error } else { nil } }
    }

    @Test("Messages wait until the greeting has ended, and the state is open only then", arguments: [true, false])
    func order(isNear: Bool) throws {
        let script = script(isNear)
        let supervisor = try supervisor(script) {
            // A probe that is a message must wait as well.
            $0.configuration.keepalive.interval = .seconds(1)
            $0.configuration.keepalive.probe = .payload(Payload(text: "probe"), answer: nil)
        } greeting: { connection, _ in
            _ = await connection.send(Payload(text: "login"))
            guard let answer = try await connection.receive() else { throw TransportError(.closedByPeer, .open, "") }
            _ = await connection.send(Payload(text: "after \(answer.string)"))
        }
        let first = runtime.begin { await supervisor.send(Payload(text: "1")) }
        supervisor.connect()
        runtime.advance(by: .seconds(5))
        let second = runtime.begin { await supervisor.send(Payload(text: "2")) }
        let connection = try #require(script.last)
        #expect(connection.texts == ["login"])
        #expect(try !isOpen(supervisor))
        connection.give(Payload(text: "welcome"))
        runtime.settle()
        #expect(connection.texts == ["login", "after welcome", "1", "2"])
        #expect(try isOpen(supervisor))
        #expect(first.value == .written && second.value == .written)
        runtime.advance(by: .seconds(1))
        #expect(connection.texts.last == "probe")
        try runtime.run { await supervisor.close() }
    }

    @Test("The app receives what the greeting leaves, in order and after it", arguments: [true, false])
    func leftovers(isNear: Bool) throws {
        let script = script(isNear)
        let supervisor = try supervisor(script) { connection, _ in
            _ = try await connection.receive()
            _ = try await connection.receive()
        }
        let messages = supervisor.messages
        let received = runtime.begin {
            var texts: [String] = []
            for await message in messages { texts.append(message.string) }
            return texts
        }
        supervisor.connect()
        runtime.settle()
        let connection = try #require(script.last)
        for number in 1...5 { connection.give(Payload(text: "\(number)")) }
        runtime.settle()
        connection.give(Payload(text: "6"))
        runtime.settle()
        try runtime.run { await supervisor.close() }
        runtime.settle()
        #expect(received.value == ["3", "4", "5", "6"])
    }

    @Test("Messages that arrived before the end of a connection reach the app, although it ended in the greeting")
    func endedMeanwhile() throws {
        let script = script()
        let recorder = Recorder()
        let (gate, open) = AsyncStream<Void>.makeStream()
        let supervisor = try supervisor(script, observer: recorder) { _, _ in
            for await _ in gate { break }
        }
        let messages = supervisor.messages
        let received = runtime.begin { await messages.first { _ in true } }
        let outcome = runtime.begin { await supervisor.send(Payload(text: "queued")) }
        supervisor.connect()
        runtime.settle()
        let dead = try #require(script.last)
        dead.give(Payload(text: "notice"))
        dead.end(CloseReason(TransportError(.connectionReset, .open, "reset")))
        open.yield()
        runtime.settle()
        #expect(received.value??.string == "notice")
        #expect(dead.texts == [] && outcome.value == nil)
        open.finish()
        // The attempt counts, so that the backoff goes on.
        runtime.advance(by: .seconds(1))
        #expect(script.connections.count == 2)
        #expect(script.last?.texts == ["queued"] && outcome.value == .written)
        try runtime.run { await supervisor.close() }
    }

    @Test(
        "The error of a greeting fails the attempt with its code, and the connection is closed",
        arguments: [true, false]
    )
    func failure(isNear: Bool) throws {
        struct NoAnswer: Error {}
        let script = script(isNear)
        let recorder = Recorder()
        let errors: [any Error] = [
            NoAnswer(), TransportError(.serverUnavailable, .handshake, "later", retryAfter: .seconds(7)),
            TransportError(.cancelled, .open, "the greeting's own limit"), TransportError(.notFound, .open, "no room"),
        ]
        let next = Locked(0)
        let supervisor = try supervisor(script, observer: recorder) { _, _ in
            let number = next.withLock { next in
                next += 1
                return next - 1
            }
            throw errors[number]
        }
        supervisor.connect()
        runtime.advance(by: .seconds(1))
        #expect(failures(recorder).map(\.code) == [.systemError, .serverUnavailable])
        runtime.advance(by: .seconds(8))
        #expect(failures(recorder).map(\.code) == [.systemError, .serverUnavailable, .systemError, .notFound])
        #expect(script.connections.count == 4 && script.connections.allSatisfy { $0.reason == .user })
        // No retry helps where nothing is found.
        guard case .closed(let reason) = try runtime.run({ await supervisor.state() }) else {
            Issue.record("not closed")
            return
        }
        #expect(reason.error?.code == .notFound)
        #expect(!recorder.states.contains { $0.isOpen })
    }

    @Test(
        "A refused login leads to fresh credentials once, and the greeting gets the prepared endpoint",
        arguments: [true, false]
    )
    func refresh(works: Bool) throws {
        let script = script()
        let supervisor = try supervisor(script, ["tcp://first", "ws://second"]) {
            $0.preparation = { endpoint, isRefresh in
                var endpoint = endpoint
                endpoint.password = isRefresh ? "fresh" : "stale"
                return endpoint
            }
        } greeting: { connection, endpoint in
            _ = await connection.send(Payload(text: "\(endpoint.host) \(endpoint.password ?? "")"))
            guard works, endpoint.password == "fresh" else {
                throw TransportError(.authenticationFailed, .handshake, "wrong password")
            }
        }
        supervisor.connect()
        runtime.advance(by: .seconds(60))
        #expect(script.connections.map(\.texts) == [["first stale"], ["first fresh"]])
        #expect(try isOpen(supervisor) == works)
        try runtime.run { await supervisor.close() }
    }

    @Test("After a failed greeting the next endpoint follows at once")
    func failover() throws {
        let script = script()
        let supervisor = try supervisor(script, ["tcp://first", "ws://second"]) { _, endpoint in
            if endpoint.host == "first" { throw TransportError(.serverUnavailable, .handshake, "full") }
        }
        supervisor.connect()
        runtime.settle()
        runtime.advance(by: .zero)
        #expect(script.attempts.map(\.endpoint.host) == ["first", "second"])
        #expect(try isOpen(supervisor))
        try runtime.run { await supervisor.close() }
    }

    @Test("A greeting that does not end is cancelled at the connect timeout, and the error says what it was")
    func endless() throws {
        let script = script()
        let recorder = Recorder()
        let cancelled = Locked(0)
        let supervisor = try supervisor(script, observer: recorder) {
            $0.configuration.connectTimeout = .seconds(5)
        } greeting: { connection, _ in
            _ = try await connection.receive()
            if Task.isCancelled { cancelled.withLock { $0 += 1 } }
        }
        supervisor.connect()
        runtime.advance(by: .seconds(6))
        let error = try #require(failures(recorder).first)
        #expect(error.code == .timedOut && error.phase == .handshake && error.reason.contains("greeting"))
        #expect(script.connections.count == 2)
        #expect(script.connections[0].reason != nil && script.connections[1].reason == nil)
        #expect(cancelled.withLock { $0 } == 1)
        try runtime.run { await supervisor.close() }
    }

    @Test("A preparation that does not return is named in the error of its attempt")
    func endlessPreparation() throws {
        let script = script()
        let recorder = Recorder()
        let supervisor = try supervisor(script, observer: recorder) {
            $0.preparation = { endpoint, _ in
                for await _ in AsyncStream<Void>.makeStream().stream {}
                return endpoint
            }
        } greeting: { _, _ in
        }
        supervisor.connect()
        runtime.advance(by: .seconds(10))
        let error = try #require(failures(recorder).first)
        #expect(error.code == .timedOut && error.phase == .configure && error.reason.contains("preparation"))
        try runtime.run { await supervisor.close() }
    }

    @Test(
        "A greeting that ignores its cancellation loses its connection, and the next attempts go on",
        arguments: [true, false]
    )
    func stubborn(isNear: Bool) throws {
        let script = script(isNear)
        let (gate, open) = AsyncStream<Void>.makeStream()
        let late = Locked<[SendOutcome]>([])
        let supervisor = try supervisor(script) {
            $0.configuration.connectTimeout = .seconds(5)
        } greeting: { connection, endpoint in
            guard script.connections.count == 1 else { return }
            // A task of its own is not cancelled.
            await Task { for await _ in gate { break } }.value
            let outcome = await connection.send(Payload(text: "late"))
            late.withLock { $0.append(outcome) }
        }
        supervisor.connect()
        runtime.advance(by: .seconds(6))
        #expect(script.connections.count == 2)
        #expect(try isOpen(supervisor))
        open.yield()
        runtime.settle()
        while late.withLock({ $0.isEmpty }) { runtime.settle() }
        #expect(late.withLock { $0.first.map { if case .rejected = $0 { true } else { false } } } == true)
        #expect(script.connections[0].texts == [])
        #expect(script.connections.count == 2)
        #expect(try isOpen(supervisor))
        try runtime.run { await supervisor.close() }
    }

    enum Interruption: CaseIterable { case close, suspend, offline }

    @Test(
        "Close, suspend and the loss of the network cancel a greeting and end its connection",
        arguments: Interruption.allCases,
        [true, false]
    )
    func interrupted(by interruption: Interruption, isNear: Bool) throws {
        let script = script(isNear)
        let paths = ScriptedPath()
        let supervisor = try supervisor(script) {
            $0.paths = paths
        } greeting: { connection, _ in
            _ = try await connection.receive()
        }
        let outcome = runtime.begin { await supervisor.send(Payload(text: "queued")) }
        supervisor.connect()
        runtime.settle()
        let connection = try #require(script.last)
        switch interruption {
        case .close: try runtime.run { await supervisor.close() }
        case .suspend: supervisor.suspend()
        case .offline: paths.report(NetworkPath(isUsable: false))
        }
        runtime.settle()
        #expect(connection.reason != nil)
        runtime.advance(by: .seconds(60))
        #expect(script.connections.count == 1)
        #expect(connection.texts == [])
        if interruption != .close { #expect(outcome.value == nil) }
        try runtime.run { await supervisor.close() }
        #expect(outcome.value.map { if case .rejected = $0 { true } else { false } } == true)
    }

    @Test(
        "A greeting that waits for the supervisor's own `send` ends with the connect timeout, and the message is sent later"
    )
    func waitsForItself() throws {
        let script = script()
        let recorder = Recorder()
        let supervisor = Locked<Supervisor?>(nil)
        let made = try self.supervisor(script, observer: recorder) {
            $0.configuration.connectTimeout = .seconds(5)
        } greeting: { _, _ in
            guard script.connections.count == 1 else { return }
            _ = await supervisor.withLock { $0 }?.send(Payload(text: "inner"))
        }
        supervisor.withLock { $0 = made }
        let outcome = runtime.begin { await made.send(Payload(text: "outer")) }
        made.connect()
        runtime.advance(by: .seconds(6))
        #expect(failures(recorder).first?.code == .timedOut)
        #expect(failures(recorder).first?.reason.contains("waits for the supervisor") == true)
        #expect(script.last?.texts == ["outer"])
        #expect(outcome.value == .written)
        try runtime.run { await made.close() }
        supervisor.withLock { $0 = nil }
    }

    @Test("A connection that the app has kept from a greeting still sends")
    func kept() throws {
        let script = script()
        let supervisor = try supervisor(script) { connection, _ in
            _ = await connection.send(Payload(text: "login"))
        }
        supervisor.connect()
        runtime.settle()
        #expect(try isOpen(supervisor))
        let connection = try #require(script.last)
        let outcome = try runtime.run { await connection.send(Payload(text: "aside")) }
        #expect(outcome == .written)
        #expect(try runtime.run { await supervisor.send(Payload(text: "1")) } == .written)
        #expect(connection.texts == ["login", "aside", "1"])
        try runtime.run { await supervisor.close() }
    }

    @Test("A session refuses a greeting, and names the preparation")
    func session() throws {
        let script = script()
        do throws(TransportError) {
            var setup = Supervisor.Setup(endpoints: [try Endpoint("tcp://server")]) { (_) throws(TransportError) in
                throw TransportError(.refused, .connect, "")
            }
            setup.configuration.delivery.mode = .session
            setup.greeting = { _, _ in }
            _ = try Supervisor(setup, on: runtime)
            Issue.record("accepted")
        } catch {
            #expect(error.code == .invalidConfiguration && error.phase == .configure)
            #expect(error.reason.contains("greeting") && error.reason.contains("'preparation'"))
        }
        #expect(script.attempts.isEmpty)
    }
}

/// A path monitor that the test controls.
private final class ScriptedPath: PathMonitor {
    private let update = Locked<(@Sendable (NetworkPath) -> Void)?>(nil)

    func watch(_ update: @escaping @Sendable (NetworkPath) -> Void) -> any Sendable {
        self.update.withLock { $0 = update }
        update(NetworkPath(isUsable: true))
        return 0
    }

    func report(_ path: NetworkPath) { update.withLock { $0 }?(path) }
}
