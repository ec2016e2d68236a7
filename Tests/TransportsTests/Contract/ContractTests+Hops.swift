import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

// An actor that lives on the loop, called by a task that prefers another executor: at each of its suspensions the
// system sends it through the queue of the loop once more, and what stands there already comes before.
extension ContractTests {
    @Test("lets an actor on its loop wait for what comes just before that", arguments: names)
    func waitBehindTheEnd(name: String) async throws {
        let pair = try await Pair(name)
        let connection = try #require(pair.client as? CoreConnection)
        let resident = Resident()
        #expect(try await resident.receive(connection) { connection.driver.value.abandon(.user) } == nil)
        let second = try await Pair(name)
        let other = try #require(second.client as? CoreConnection)
        #expect(await resident.closed(other) { other.driver.value.abandon(.user) }.initiator == .user)
        for pair in [pair, second] { await pair.close() }
    }

    @Test("ends the waits of an actor on its loop whose task was cancelled before", arguments: names)
    func cancelledBefore(name: String) async throws {
        let pair = try await Pair(name)
        let connection = try #require(pair.client as? CoreConnection)
        let (resident, aside) = (Resident(), try EventLoop(name: "im-aside"))
        let waits: [@Sendable () async throws -> Void] = [
            { _ = try await resident.receive(connection) {} },
            { _ = try await pair.listener.accept() },
        ]
        for wait in waits {
            let task = Task(executorPreference: aside) {
                withUnsafeCurrentTask { $0?.cancel() }
                try await wait()
            }
            let error = await #expect(throws: TransportError.self) { try await task.value }
            #expect(error?.code == .cancelled)
        }
        await pair.close()
    }

    @Test("accepts for an actor on its loop what comes just before", arguments: names)
    func acceptBehind(name: String) async throws {
        let listener = try await registry.listen(Self.url(name))
        let core = try #require(listener as? CoreListener)
        #expect(try await Resident().accept(core).map { _ in 0 } == nil)
    }
}

extension Resident {
    fileprivate func receive(_ connection: CoreConnection, behind job: @escaping @Sendable () -> Void) async throws
        -> Payload?
    {
        EventLoop.shared.execute(job)
        return try await connection.receive()
    }

    fileprivate func accept(_ listener: CoreListener) async throws -> (any Connection)? {
        EventLoop.shared.execute { _ = Task.immediate { await listener.close() } }
        return try await listener.accept()
    }

    fileprivate func closed(_ connection: CoreConnection, behind job: @escaping @Sendable () -> Void) async
        -> CloseReason
    {
        EventLoop.shared.execute(job)
        return await connection.closed()
    }
}
