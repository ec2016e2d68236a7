import SocketIO
import TestSupport
import Testing

@testable import TransportAPI

/// Tests an outbox that survives the end of the process.
@Suite("A supervisor's store", .timeLimit(.minutes(5)), .ownThread)
struct SupervisorStoreTests {
    private static let full = TransportError(.storageFailed, .open, "the disk is full", detail: 28)

    private let script = Script()
    private let store = StoreInMemory()

    private func supervisor(
        on runtime: VirtualRuntime,
        _ change: (inout SupervisorConfiguration) -> Void = { _ in },
        observer: (any SupervisorObserver)? = nil
    ) throws -> Supervisor {
        var setup = try script.setup(["memory://server"], change)
        (setup.store, setup.observer) = (store, observer)
        return try Supervisor(setup, on: runtime)
    }

    /// What a write did, as `+1 -2`.
    private func text(_ changes: [StoreChange]) -> String {
        changes.map { change in
            switch change {
            case .put(let record): "+\(record.key.number)"
            case .remove(let key): "-\(key.number)"
            }
        }.joined(separator: " ")
    }

    @Test("Each admitted message is written, and removed at its end")
    func pairs() throws {
        let runtime = VirtualRuntime()
        let supervisor = try supervisor(on: runtime) {
            $0.outbox.maximumCount = 2
            $0.outbox.whenFull = .refuseNewest
        }
        let sends = (1...3).map { number in runtime.begin { await supervisor.send(bytes("\(number)")) } }
        #expect(sends[2].value?.isSuccess == false)
        #expect(store.writes.map(text) == ["+1", "+2"] && store.kept == ["1", "2"])
        supervisor.connect()
        runtime.settle()
        #expect(store.kept == [])
        #expect(try runtime.run { await supervisor.send(bytes("4")) } == .written)
        #expect(store.writes.suffix(2).map(text) == ["+4", "-4"])
        try runtime.run { await supervisor.close() }
        #expect(!store.isOpen)
    }

    @Test("A message is neither accepted nor sent before it is written, and what gathers meanwhile is one write")
    func writeAhead() throws {
        let runtime = VirtualRuntime(blockingTime: .milliseconds(10))
        let supervisor = try supervisor(on: runtime)
        supervisor.connect()
        runtime.advance(by: .milliseconds(10))
        #expect(store.isOpen)
        let submits = (1...4).map { number in runtime.begin { try? await supervisor.submit(bytes("\(number)")) } }
        #expect(submits.allSatisfy { $0.value == nil } && script.last?.texts == [])
        runtime.advance(by: .milliseconds(10))
        #expect(store.writes.map(text) == ["+1"])
        #expect(submits.map { $0.value != nil } == [true, false, false, false] && script.last?.texts == ["1"])
        runtime.advance(by: .milliseconds(10))
        #expect(store.writes.map(text) == ["+1", "+2 +3 +4"])
        #expect(submits.allSatisfy { $0.value != nil } && script.last?.texts == ["1", "2", "3", "4"])
        let close = runtime.begin { await supervisor.close() }
        runtime.advance(by: .milliseconds(30))
        #expect(store.writes.dropFirst(2).map(text) == ["-1", "-2 -3 -4"])
        #expect(close.value == 0 && store.kept == [] && !store.isOpen)
    }

    @Test("A message that waits for room is written when it is admitted")
    func waiting() throws {
        let runtime = VirtualRuntime()
        let supervisor = try supervisor(on: runtime) { $0.outbox.maximumCount = 1 }
        let sends = (1...2).map { number in runtime.begin { await supervisor.send(bytes("\(number)")) } }
        #expect(store.kept == ["1"])
        sends[0].cancel()
        runtime.settle()
        #expect(store.kept == ["2"])
        try runtime.run { await supervisor.close() }
        #expect(store.kept == [])
    }

    @Test("A message that is cancelled while it is written is not sent, and does not stay in the store")
    func cancelled() throws {
        let runtime = VirtualRuntime(blockingTime: .milliseconds(10))
        let supervisor = try supervisor(on: runtime)
        supervisor.connect()
        runtime.advance(by: .milliseconds(10))
        let submits = (1...2).map { number in
            runtime.begin { await refusal(supervisor, "\(number)") }
        }
        for submit in submits { submit.cancel() }
        runtime.settle()
        #expect(submits.allSatisfy { $0.value??.code == .cancelled })
        runtime.advance(by: .milliseconds(20))
        // The second one was not begun.
        #expect(store.writes.map(text) == ["+1", "-1"] && script.last?.texts == [])
        let close = runtime.begin { await supervisor.close() }
        runtime.advance(by: .milliseconds(10))
        #expect(close.value == 0)
    }

    @Test("Restored messages are sent before all others, and those that cannot be sent are returned")
    func restored() throws {
        let runtime = VirtualRuntime()
        store.put([bytes("old 1"), bytes("too large for this outbox"), bytes("old 2")])
        let recorder = Recorder()
        let supervisor = try supervisor(on: runtime, { $0.outbox.maximumBytes = 20 }, observer: recorder)
        let submit = runtime.begin { try? await supervisor.submit(bytes("new")) }
        supervisor.connect()
        runtime.settle()
        #expect(script.last?.texts == ["old 1", "old 2", "new"] && submit.value == MessageID(10))
        let back = supervisor.undelivered
        #expect(try runtime.run { await back.first { _ in true } }?.payload == bytes("too large for this outbox"))
        #expect(store.kept == [])
        let ids = recorder.events.compactMap { if case .submitted(let id, _) = $0 { id } else { nil } }
        let ends = recorder.events.compactMap { if case .finished(let id, _) = $0 { id } else { nil } }
        #expect(Set(ids) == Set(ends) && ids.count == 4 && ends.count == 4)
        try runtime.run { await supervisor.close() }
    }

    @Test("Restored messages that have no room at first are sent later")
    func restoredWithoutRoom() throws {
        let runtime = VirtualRuntime()
        store.put((1...3).map { bytes("\($0)") })
        let supervisor = try supervisor(on: runtime) { $0.outbox.maximumCount = 2 }
        supervisor.connect()
        runtime.settle()
        #expect(script.last?.texts == ["1", "2", "3"] && store.kept == [])
        try runtime.run { await supervisor.close() }
    }

    @Test("A closed supervisor keeps undelivered submitted messages in the store, but none that a caller waits for")
    func closed() throws {
        let runtime = VirtualRuntime()
        let supervisor = try supervisor(on: runtime)
        _ = try runtime.run { try? await supervisor.submit(bytes("for the next one")) }
        let waited = runtime.begin { await supervisor.send(bytes("told")) }
        try runtime.run { await supervisor.close() }
        #expect(waited.value?.isSuccess == false)
        #expect(store.kept == ["for the next one"] && !store.isOpen)
        let next = try self.supervisor(on: runtime)
        next.connect()
        runtime.settle()
        #expect(script.last?.texts == ["for the next one"])
        try runtime.run { await next.close() }
    }

    @Test("A submitter learns why the store could not write, and the message is not sent")
    func unwritten() throws {
        let runtime = VirtualRuntime()
        let recorder = Recorder()
        let supervisor = try supervisor(on: runtime, observer: recorder)
        supervisor.connect()
        runtime.settle()
        store.fail(writes: [Self.full])
        #expect(try runtime.run { await refusal(supervisor, "1") } == Self.full)
        #expect(try runtime.run { await supervisor.send(bytes("2")) } == .written)
        #expect(script.last?.texts == ["2"] && store.kept == [])
        #expect(recorder.events.contains(.storeFailed(Self.full)))
        store.fail(writes: [Self.full])
        #expect(try runtime.run { await supervisor.send(bytes("3")) } == .rejected(Self.full))
        try runtime.run { await supervisor.close() }
    }

    @Test("The end of a message that could not be written is tried again")
    func unremoved() throws {
        let runtime = VirtualRuntime()
        let supervisor = try supervisor(on: runtime)
        _ = try runtime.run { try? await supervisor.submit(bytes("1")) }
        store.fail(writes: [Self.full, Self.full])
        supervisor.connect()
        runtime.settle()
        #expect(script.last?.texts == ["1"] && store.kept == ["1"])
        // With the next message, for which there is no room yet.
        #expect(try runtime.run { await supervisor.send(bytes("2")) } == .rejected(Self.full))
        #expect(store.writes.map(text) == ["+1", "-1"] && store.kept == [])

        store.fail(writes: [])
        let third = try runtime.run { try? await supervisor.submit(bytes("3")) }
        #expect(third != nil && store.kept == [])
        try runtime.run { await supervisor.close() }
    }

    @Test("Removals that fail are tried again after five seconds, and at the end")
    func retried() throws {
        let runtime = VirtualRuntime()
        let supervisor = try supervisor(on: runtime)
        _ = try runtime.run { try? await supervisor.submit(bytes("1")) }
        store.fail(writes: [Self.full, Self.full])
        supervisor.connect()
        runtime.settle()
        runtime.advance(by: .seconds(5))
        #expect(store.kept == ["1"])
        try runtime.run { await supervisor.close() }
        #expect(store.kept == [] && !store.isOpen)
    }

    @Test("A store that cannot be opened rejects messages with its error, and is opened with the next one")
    func unopened() throws {
        let runtime = VirtualRuntime()
        store.fail(open: Self.full)
        let supervisor = try supervisor(on: runtime)
        supervisor.connect()
        runtime.settle()
        #expect(store.opened == 1)
        #expect(try runtime.run { await supervisor.send(bytes("1")) } == .rejected(Self.full))
        #expect(try runtime.run { await refusal(supervisor, "2") } == Self.full)
        #expect(store.opened == 3)
        store.fail(open: nil)
        #expect(try runtime.run { await supervisor.send(bytes("3")) } == .written)
        #expect(script.last?.texts == ["3"])
        try runtime.run { await supervisor.close() }
        #expect(!store.isOpen)
    }

    @Test("A store with a record of another version is refused and closed, and keeps the record")
    func otherVersion() throws {
        let runtime = VirtualRuntime()
        let record = StoredRecord(StoredRecord.Key(kind: 1, number: 5), [9])
        store.put(record)
        let supervisor = try supervisor(on: runtime)
        let error = try runtime.run { await refusal(supervisor, "1") }
        #expect(error?.code == .storageFailed && !store.isOpen && store.writes == [])
        try runtime.run { await supervisor.close() }
    }

    @Test("A supervisor that is closed before its store is open leaves the messages to the next one")
    func closedEarly() throws {
        let runtime = VirtualRuntime(blockingTime: .seconds(1))
        store.put([bytes("old")])
        let supervisor = try supervisor(on: runtime)
        let close = runtime.begin { await supervisor.close() }
        runtime.advance(by: .seconds(2))
        #expect(close.value == 0 && store.kept == ["old"] && store.writes == [] && !store.isOpen)
    }

    @Test("A store that hangs delays the end by ten seconds at most")
    func hanging() throws {
        let runtime = VirtualRuntime(blockingTime: .seconds(3600))
        let supervisor = try supervisor(on: runtime)
        let send = runtime.begin { await supervisor.send(bytes("1")) }
        let close = runtime.begin { await supervisor.close() }
        #expect(send.value?.isSuccess == false && close.value == nil)
        runtime.advance(by: .seconds(10))
        #expect(close.value == 0)
    }

    /// The reason why a supervisor does not accept a message.
    private func refusal(_ supervisor: Supervisor, _ text: String) async -> TransportError? {
        do throws(TransportError) {
            _ = try await supervisor.submit(bytes(text))
            return nil
        } catch {
            return error
        }
    }
}

@Suite("Messages in a store") struct StoredMessageTests {
    @Test(
        "A message is read back from its record",
        arguments: [
            Payload([]), Payload([0, 1, 255]), Payload(text: "hé"), Payload([1], topic: "a/b"), Payload([1], topic: ""),
            Payload([1], qos: .atMostOnce), Payload([1], qos: .exactlyOnce, isRetained: true),
        ]
    )
    func back(payload: Payload) throws {
        let record = StoredMessage(MessageID(1 << 62), payload).record
        let message = try StoredMessage(record)
        #expect(message.id == MessageID(1 << 62) && message.payload == payload)
    }

    private static let key = StoredRecord.Key(kind: 1, number: 1)

    @Test(
        "A record that is no message is refused",
        arguments: [
            StoredRecord(StoredRecord.Key(kind: 2, number: 1), [1, 0, 0, 0, 0, 0]), StoredRecord(key, []),
            StoredRecord(key, [2, 0, 0, 0, 0, 0]), StoredRecord(key, [1, 0, 0, 0, 0]),
            StoredRecord(key, [1, 1, 0, 0, 0, 2, 65]), StoredRecord(key, [1, 1, 255, 255, 255, 255, 65]),
            StoredRecord(key, [1, 0, 0, 0, 0, 1, 65]), StoredRecord(key, [1, 1, 0, 0, 0, 1, 0xFF]),
            StoredRecord(key, [1, 0xF8, 0, 0, 0, 0]),
            StoredRecord(StoredRecord.Key(kind: 1, number: 0), [1, 0, 0, 0, 0, 0]),
            StoredRecord(StoredRecord.Key(kind: 1, number: 1 << 62 + 1), [1, 0, 0, 0, 0, 0]),
        ]
    )
    func refused(record: StoredRecord) {
        #expect(throws: TransportError.self) { _ = try StoredMessage(record) }
    }
}
