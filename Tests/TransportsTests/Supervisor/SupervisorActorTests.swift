import SocketIO
import TestSupport
import Testing
import TransportAPI

/// An actor that lives on the supervisor's loop, in a task that prefers another executor: between the beginning of each
/// wait and the wait itself, others may run on the loop.
@Suite("A supervisor and an actor on its loop", .timeLimit(.minutes(5)), .ownThread)
struct SupervisorActorTests {
    /// One that has no connection and room for one message.
    private static func supervisor() throws -> Supervisor {
        var configuration = SupervisorConfiguration.quick
        configuration.outbox.maximumCount = 1
        return try Supervisor.recorded([try Endpoint("memory://nobody")], configuration).0
    }

    @Test("agree about a message that ends before the actor waits for it")
    func outcomes() async throws {
        let resident = Resident()
        let (first, second) = (try Self.supervisor(), try Self.supervisor())
        guard case .rejected(let error) = await resident.send(by: first, behind: { close(first) }) else {
            Issue.record("was not rejected")
            return
        }
        #expect(error.code == .closedByUser)
        let thrown = await #expect(throws: TransportError.self) {
            _ = try await resident.submit(to: second, filledWith: bytes("first")) { close(second) }
        }
        #expect(thrown?.code == .closedByUser)
    }

    @Test("agree about the end, and about states that come before the actor waits for them")
    func ends() async throws {
        let resident = Resident()
        let (first, second) = (try Self.supervisor(), try Self.supervisor())
        await resident.closed(first) { close(first) }
        #expect(await resident.states(of: second) { close(second) }.map(\.isFinal) == [false, true])
    }

    @Test("agree about a wait of a task that was cancelled before")
    func cancelled() async throws {
        let supervisor = try Self.supervisor()
        let task = Task(executorPreference: try EventLoop(name: "im-aside")) {
            withUnsafeCurrentTask { $0?.cancel() }
            return await Resident().send(by: supervisor) {}
        }
        guard case .rejected(let error) = await task.value else {
            Issue.record("was not rejected")
            return
        }
        #expect(error.code == .cancelled)
        await supervisor.close()
    }
}

/// Closes at once, on the loop.
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

    /// The first two.
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
