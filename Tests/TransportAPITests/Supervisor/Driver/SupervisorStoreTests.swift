import SocketIO
import TestSupport
import Testing
import TransportAPI

/// Tests an outbox that is saved beyond the end of the process.
@Suite("A supervisor's store", .timeLimit(.minutes(5)), .ownThread)
struct SupervisorStoreTests {
    /// A store that records its calls.
    private final class Store: OutboxStore {
        private struct State {
            var messages: [MessageID: Payload] = [:]
            var calls: [String] = []
        }

        private let state = Locked(State())
        private let left: [Payload]

        init(_ left: [Payload] = []) {
            self.left = left
        }

        var calls: [String] { state.withLock { $0.calls } }
        /// The messages that the next process would find.
        var kept: [Payload] {
            state.withLock { state in state.messages.sorted { $0.key < $1.key }.map(\.value) }
        }

        func load() -> [(id: MessageID, payload: Payload)] {
            left.enumerated().map { (MessageID(UInt64($0.offset) + 7), $0.element) }
        }

        func insert(_ id: MessageID, _ payload: Payload) {
            state.withLock { state in
                state.messages[id] = payload
                state.calls.append("insert \(id.number)")
            }
        }

        func remove(_ id: MessageID) {
            state.withLock { state in
                state.messages[id] = nil
                state.calls.append("remove \(id.number)")
            }
        }
    }

    private let runtime = VirtualRuntime()
    private let script = Script()

    private func supervisor(_ store: Store, _ change: (inout SupervisorConfiguration) -> Void = { _ in }) throws
        -> Supervisor
    {
        var setup = try script.setup(["memory://server"], change)
        setup.store = store
        return try Supervisor(setup, on: runtime)
    }

    @Test("A supervisor inserts each admitted message into the store and removes it at its end")
    func pairs() throws {
        let store = Store()
        let supervisor = try supervisor(store) {
            $0.outbox.maximumCount = 2
            $0.outbox.whenFull = .refuseNewest
        }
        let sends = (1...3).map { number in runtime.begin { await supervisor.send(bytes("\(number)")) } }
        #expect(sends[2].value?.isSuccess == false)
        #expect(store.calls == ["insert 1", "insert 2"])
        #expect(store.kept.map(\.string) == ["1", "2"])
        supervisor.connect()
        runtime.settle()
        #expect(store.calls.suffix(2) == ["remove 1", "remove 2"])
        #expect(try runtime.run { await supervisor.send(bytes("4")) } == .written)
        #expect(store.calls.suffix(2) == ["insert 4", "remove 4"])
        try runtime.run { await supervisor.close() }
    }

    @Test("A supervisor inserts a message that waits for room when the message is admitted")
    func waiting() throws {
        let store = Store()
        let supervisor = try supervisor(store) { $0.outbox.maximumCount = 1 }
        let sends = (1...2).map { number in runtime.begin { await supervisor.send(bytes("\(number)")) } }
        #expect(store.calls == ["insert 1"])
        sends[0].cancel()
        runtime.settle()
        #expect(store.calls == ["insert 1", "remove 1", "insert 2"])
        try runtime.run { await supervisor.close() }
        #expect(store.calls.last == "remove 2")
    }

    @Test("A supervisor sends restored messages before all others and returns those that cannot be sent")
    func restored() throws {
        let store = Store([bytes("old 1"), bytes("too large for this outbox"), bytes("old 2")])
        let recorder = Recorder()
        var setup = try script.setup { $0.outbox.maximumBytes = 20 }
        (setup.store, setup.observer) = (store, recorder)
        let ready = setup
        // The supervisor is created on the runtime itself, so nothing runs between its creation and the first `send`.
        let made = try runtime.run {
            let supervisor = try? Supervisor(ready, on: runtime)
            _ = try? await supervisor?.submit(bytes("new"))
            return supervisor
        }
        let supervisor = try #require(made)
        supervisor.connect()
        runtime.settle()
        #expect(script.last?.texts == ["old 1", "old 2", "new"])
        let back = supervisor.undelivered
        #expect(try runtime.run { await back.first { _ in true } }?.payload == bytes("too large for this outbox"))
        #expect(store.calls == ["remove 8", "insert 10", "remove 7", "remove 9", "remove 10"])
        let ids = recorder.events.compactMap { if case .submitted(let id, _) = $0 { id } else { nil } }
        let ends = recorder.events.compactMap { if case .finished(let id, _) = $0 { id } else { nil } }
        #expect(Set(ids) == Set(ends) && ids.count == 4 && ends.count == 4)
        try runtime.run { await supervisor.close() }
    }

    @Test("A closed supervisor keeps undelivered submitted messages in the store, but none that a caller waits for")
    func closed() throws {
        let store = Store()
        let supervisor = try supervisor(store)
        _ = try runtime.run { try? await supervisor.submit(bytes("for the next one")) }
        let waited = runtime.begin { await supervisor.send(bytes("told")) }
        try runtime.run { await supervisor.close() }
        #expect(waited.value?.isSuccess == false)
        #expect(store.kept == [bytes("for the next one")])
    }
}
