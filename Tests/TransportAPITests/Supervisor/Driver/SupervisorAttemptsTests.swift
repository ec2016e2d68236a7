import TestSupport
import Testing
import TransportAPI

/// Tests when and where a supervisor connects, and when it stops. Time is under the test's control.
@Suite("A supervisor's connection attempts", .timeLimit(.minutes(5)), .ownThread)
struct SupervisorAttemptsTests {
    private let runtime = VirtualRuntime()

    private func reason(_ supervisor: Supervisor) throws -> CloseReason? {
        if case .closed(let reason) = try runtime.run({ await supervisor.state() }) { reason } else { nil }
    }

    @Test("Attempts follow the backoff if the server accepts connections and closes them at once")
    func acceptAndClose() throws {
        let script = Script { _ in .openAndClose }
        let supervisor = try Supervisor(
            script.setup {
                $0.backoff = .exponential(initial: .seconds(1), maximum: .seconds(16), multiplier: 2, jitter: .none)
            },
            on: runtime
        )
        supervisor.connect()
        // The attempts are at 0, 1, 3, 7, 15, 31 and 47 seconds. After that there is one every 16 seconds.
        runtime.advance(by: .seconds(60))
        #expect(script.attempts.count == 7)
        runtime.advance(by: .seconds(3600))
        #expect(script.attempts.count == 7 + 225)
        try runtime.run { await supervisor.close() }
    }

    @Test("The backoff starts again after a connection that was stable")
    func stable() throws {
        let script = Script { $0.number < 6 ? .fail(.refused) : .open }
        let supervisor = try Supervisor(
            script.setup {
                $0.backoff = .schedule([.seconds(1), .seconds(100)], givesUp: false)
                $0.keepalive.interval = .off
            },
            on: runtime
        )
        supervisor.connect()
        runtime.advance(by: .seconds(600))
        #expect(script.attempts.count == 7)
        script.last?.end(CloseReason(.network))
        runtime.advance(by: .seconds(1))
        #expect(script.attempts.count == 8)
        try runtime.run { await supervisor.close() }
    }

    @Test("A new attempt does not wait until the failed connection has closed")
    func slowClose() throws {
        let script = Script { _ in .open }
        let supervisor = try Supervisor(
            script.setup { $0.backoff = .schedule([.zero], givesUp: false) },
            on: runtime
        )
        supervisor.connect()
        runtime.advance(by: .seconds(1))
        let dead = try #require(script.last)
        dead.closeSlowly()
        dead.end(CloseReason(TransportError(.keepaliveTimeout, .open, "no answer came in time")))
        runtime.advance(by: .seconds(1))
        #expect(script.attempts.count == 2)
        dead.finishClosing()
        try runtime.run { await supervisor.close() }
    }

    @Test("A supervisor tries all endpoints before the first pause, and first the one that worked last")
    func endpoints() throws {
        let script = Script { $0.endpoint.host == "good" ? .open : .fail(.refused) }
        let supervisor = try Supervisor(script.setup(["tcp://bad", "ws://worse", "udp://good"]), on: runtime)
        supervisor.connect()
        runtime.advance(by: .zero)
        #expect(script.attempts.map(\.endpoint.host) == ["bad", "worse", "good"])
        #expect(try runtime.run { await supervisor.state() }.isOpen)
        runtime.advance(by: .seconds(60))
        script.last?.end(CloseReason(TransportError(.connectionReset, .open, "reset")))
        runtime.advance(by: .seconds(1))
        #expect(script.attempts.map(\.endpoint.host) == ["bad", "worse", "good", "good"])
        try runtime.run { await supervisor.close() }
    }

    @Test("A supervisor cancels an attempt that takes too long and makes the next one")
    func hanging() throws {
        let script = Script { $0.number == 0 ? .hang : .open }
        let supervisor = try Supervisor(script.setup { $0.connectTimeout = .seconds(5) }, on: runtime)
        supervisor.connect()
        runtime.advance(by: .seconds(6))
        #expect(script.attempts.count == 2)
        #expect(script.cancelled == 1)
        #expect(try runtime.run { await supervisor.state() }.isOpen)
        try runtime.run { await supervisor.close() }
    }

    @Test("`close` cancels an attempt, and a connection that opens after that is closed")
    func closeWhileConnecting() throws {
        let script = Script { _ in .hang }
        let supervisor = try Supervisor(script.setup(), on: runtime)
        supervisor.connect()
        runtime.settle()
        try runtime.run { await supervisor.close() }
        runtime.settle()
        #expect(script.cancelled == 1)
        supervisor.connect()
        runtime.advance(by: .seconds(3600))
        #expect(script.attempts.count == 1)
        #expect(try reason(supervisor) == .user)
        #expect(runtime.timerCount == 0)
    }

    @Test("A supervisor gives up after the maximum number of attempts, and rejects messages with the last error")
    func maximumAttempts() throws {
        let script = Script { _ in .fail(.refused) }
        let supervisor = try Supervisor(script.setup { $0.maximumAttempts = 5 }, on: runtime)
        let outcome = runtime.begin { await supervisor.send(bytes("hello")) }
        supervisor.connect()
        runtime.advance(by: .seconds(3600))
        #expect(script.attempts.count == 5)
        #expect(try reason(supervisor)?.error?.code == .refused)
        let late = runtime.begin { await supervisor.send(bytes("late")) }
        runtime.settle()
        for sent in [outcome.value, late.value] {
            #expect(sent.map { if case .rejected(let error) = $0 { error.code == .refused } else { false } } == true)
        }
    }

    @Test("A supervisor gives up when it had no connection for the maximum time")
    func maximumElapsed() throws {
        let script = Script { _ in .fail(.unreachable) }
        let supervisor = try Supervisor(script.setup { $0.maximumElapsed = .seconds(10) }, on: runtime)
        supervisor.connect()
        runtime.advance(by: .seconds(3600))
        #expect(script.attempts.count == 11)
        #expect(try reason(supervisor)?.error?.code == .unreachable)
    }

    @Test("A supervisor waits for as long as the server's retry-after says")
    func retryAfter() throws {
        let script = Script { $0.number == 0 ? .fail(.serverUnavailable, retryAfter: .seconds(90)) : .open }
        let supervisor = try Supervisor(script.setup(), on: runtime)
        supervisor.connect()
        runtime.advance(by: .seconds(89))
        #expect(script.attempts.count == 1)
        runtime.advance(by: .seconds(1))
        #expect(script.attempts.count == 2)
        try runtime.run { await supervisor.close() }
    }

    @Test("A supervisor avoids a server for its retry-after time and tries the other endpoints meanwhile")
    func retryElsewhere() throws {
        let script = Script {
            $0.endpoint.host == "busy" ? .fail(.serverUnavailable, retryAfter: .seconds(90)) : .fail(.refused)
        }
        let supervisor = try Supervisor(script.setup(["ws://busy", "ws://away"]), on: runtime)
        supervisor.connect()
        runtime.advance(by: .seconds(89))
        #expect(script.attempts.prefix(2).map(\.endpoint.host) == ["busy", "away"])
        #expect(script.attempts.count { $0.endpoint.host == "busy" } == 1)
        #expect(script.attempts.count { $0.endpoint.host == "away" } > 3)
        script.answer { _ in .open }
        runtime.advance(by: .seconds(30))
        #expect(script.connections.count == 1)
        try runtime.run { await supervisor.close() }
    }

    @Test("A supervisor discards a server's retry-after time when the server accepts a connection")
    func retryForgotten() throws {
        let script = Script { $0.number == 0 ? .fail(.serverUnavailable, retryAfter: .seconds(3600)) : .open }
        let supervisor = try Supervisor(script.setup(), on: runtime)
        supervisor.connect()
        runtime.advance(by: .seconds(60))
        supervisor.connect()
        runtime.advance(by: .seconds(60))
        #expect(script.connections.count == 1)
        script.last?.end(CloseReason(.network))
        runtime.advance(by: .seconds(60))
        #expect(script.connections.count == 2)
        try runtime.run { await supervisor.close() }
    }

    @Test("Refused credentials that nothing can replace are not tried again")
    func fixedCredentials() throws {
        let script = Script { _ in .fail(.authenticationFailed) }
        let supervisor = try Supervisor(script.setup(), on: runtime)
        supervisor.connect()
        runtime.advance(by: .seconds(60))
        #expect(script.attempts.count == 1)
        #expect(try reason(supervisor)?.initiator == .authentication)
    }

    @Test("A supervisor requests fresh credentials once after a refusal", arguments: [true, false])
    func refresh(works: Bool) throws {
        let script = Script { $0.endpoint.password == "fresh" && works ? .open : .fail(.authenticationFailed) }
        var setup = try script.setup()
        setup.preparation = { endpoint, isRefresh in
            var endpoint = endpoint
            endpoint.password = isRefresh ? "fresh" : "stale"
            return endpoint
        }
        let supervisor = try Supervisor(setup, on: runtime)
        supervisor.connect()
        runtime.advance(by: .seconds(60))
        #expect(script.attempts.map(\.endpoint.password) == ["stale", "fresh"])
        #expect(try runtime.run { await supervisor.state() }.isOpen == works)
        if !works { #expect(try reason(supervisor)?.initiator == .authentication) }
        try runtime.run { await supervisor.close() }
    }

    @Test("A supervisor gives up an endpoint that answers 404, and ends when no endpoint is left")
    func notFound() throws {
        let script = Script { $0.endpoint.host == "gone" ? .fail(.notFound) : .fail(.refused) }
        let supervisor = try Supervisor(script.setup(["ws://gone", "ws://away"]), on: runtime)
        supervisor.connect()
        runtime.advance(by: .seconds(10))
        #expect(script.attempts.count { $0.endpoint.host == "gone" } == 1)
        #expect(script.attempts.count { $0.endpoint.host == "away" } > 5)
        script.answer { _ in .fail(.notFound) }
        runtime.advance(by: .seconds(10))
        #expect(try reason(supervisor)?.error?.code == .notFound)
    }

    @Test("A supervisor fails with the error that the preparation throws")
    func preparation() throws {
        struct NoNetwork: Error {}
        let script = Script()
        var setup = try script.setup { $0.maximumAttempts = 3 }
        setup.preparation = { _, _ in throw NoNetwork() }
        let supervisor = try Supervisor(setup, on: runtime)
        supervisor.connect()
        runtime.advance(by: .seconds(60))
        #expect(script.attempts.isEmpty)
        #expect(try reason(supervisor)?.error?.code == .systemError)
    }
}
