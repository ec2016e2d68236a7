import SocketIO
import TestSupport
import Testing
import TransportAPI

/// Tests an actor that lives on the supervisor's loop, called by a task that prefers another executor. Other jobs may
/// run on the loop between the start of each wait and its suspension.
@Suite("A supervisor and an actor on its loop", .timeLimit(.minutes(5)), .ownThread)
struct SupervisorActorTests {
    /// A supervisor that has no connection and room for one message.
    private static func supervisor() throws -> Supervisor {
        var configuration = SupervisorConfiguration.quick
        configuration.outbox.maximumCount = 1
        return try Supervisor.recorded([try Endpoint("memory://away")], configuration).0
    }

    @Test("An actor receives the outcome of a message that ended before the actor waited")
    func outcomes() async throws {
        let resident = Resident()
        let (first, second) = (try Self.supervisor(), try Self.supervisor())
        guard case .rejected(let error) = await resident.send(by: first, behind: { close(first) }) else {
            Issue.record("the send was not rejected")
            return
        }
        #expect(error.code == .closedByUser)
        let thrown = await #expect(throws: TransportError.self) {
            _ = try await resident.submit(to: second, filledWith: bytes("first")) { close(second) }
        }
        #expect(thrown?.code == .closedByUser)
    }

    @Test("An actor receives the end and the states that came before it waited")
    func ends() async throws {
        let resident = Resident()
        let (first, second) = (try Self.supervisor(), try Self.supervisor())
        await resident.closed(first) { close(first) }
        #expect(await resident.states(of: second) { close(second) }.map(\.isFinal) == [false, true])
    }

    @Test("A wait ends at once if the actor's task was cancelled before")
    func cancelled() async throws {
        let supervisor = try Self.supervisor()
        let task = Task(executorPreference: try EventLoop(name: "im-aside")) {
            withUnsafeCurrentTask { $0?.cancel() }
            return await Resident().send(by: supervisor) {}
        }
        guard case .rejected(let error) = await task.value else {
            Issue.record("the send was not rejected")
            return
        }
        #expect(error.code == .cancelled)
        await supervisor.close()
    }
}

/// Closes the supervisor at once, on the loop.
private func close(_ supervisor: Supervisor) {
    _ = Task.immediate { await supervisor.close() }
}

extension Resident {
    fileprivate func send(by supervisor: Supervisor, behind job: @escaping @Sendable () -> Void) async -> SendOutcome {
        EventLoop.shared.execute(job)
        return await supervisor.send(bytes("late"))
    }

    fileprivate func submit(
        to supervisor: Supervisor,
        filledWith first: Payload,
        behind job: @escaping @Sendable () -> Void
    ) async throws -> MessageID {
        _ = try await supervisor.submit(first)
        EventLoop.shared.execute(job)
        return try await supervisor.submit(bytes("late"))
    }

    fileprivate func closed(_ supervisor: Supervisor, behind job: @escaping @Sendable () -> Void) async {
        EventLoop.shared.execute(job)
        await supervisor.closed()
    }

    /// Returns the first two states.
    fileprivate func states(
        of supervisor: Supervisor,
        behind job: @escaping @Sendable () -> Void
    ) async -> [SupervisorState] {
        var states = supervisor.states.makeAsyncIterator()
        let first = await states.next(isolation: #isolation)
        EventLoop.shared.execute(job)
        let second = await states.next(isolation: #isolation)
        return [first, second].compactMap { $0 }
    }
}
