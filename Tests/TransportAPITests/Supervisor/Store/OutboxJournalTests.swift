import SocketIO
import TestSupport
import Testing

@testable import TransportAPI

/// Tests what a journal tells its supervisor. ``SupervisorStoreTests`` tests both together.
@Suite("The journal of an outbox", .timeLimit(.minutes(5)), .ownThread)
struct OutboxJournalTests {
    private final class Store: OutboxStore {
        private let state = Locked<[[StoreChange]]>([])

        /// The numbers that each write added.
        var writes: [[UInt64]] {
            state.withLock { writes in
                writes.map { $0.compactMap { if case .put(let record) = $0 { record.key.number } else { nil } } }
            }
        }

        func open() throws(TransportError) -> [StoredRecord] { [] }
        func write(_ changes: [StoreChange]) throws(TransportError) { state.withLock { $0.append(changes) } }
        func close() {}
    }

    private final class Owner: OutboxJournalOwner {
        var stored: [(ids: [UInt64], last: UInt64)] = []

        func restored(
            _ session: StoredSession?,
            _ marks: [OriginFilter.Mark],
            _ messages: [StoredMessage],
            last: UInt64
        ) {}
        func storedMarks(_ count: Int) {}
        func storedSession(_ incarnation: UInt64, processed: UInt64) {}
        func stored(_ ids: [MessageID], through last: MessageID) { stored.append((ids.map(\.number), last.number)) }
        func notStored(_ ids: [MessageID], _ error: TransportError) {}
        func storeFailed(_ error: TransportError) {}
    }

    @Test("A message whose predecessor is still written is not the last of those that may be sent")
    func order() throws {
        let runtime = VirtualRuntime(blockingTime: .milliseconds(10))
        let (store, owner) = (Store(), Owner())
        let journal = OutboxJournal(store, nil, owner, on: runtime)
        let bound = RuntimeBound(journal, to: runtime)
        func act(_ body: @escaping @Sendable (OutboxJournal) -> Void) {
            runtime.execute { body(bound.value) }
            runtime.settle()
        }
        act { $0.open() }
        runtime.advance(by: .milliseconds(10))
        act {
            for number: UInt64 in [6, 8, 7, 5] { $0.insert(MessageID(number), bytes("x")) }
            $0.remove(MessageID(7))
        }
        runtime.advance(by: .milliseconds(10))
        #expect(owner.stored.map(\.ids) == [[6]] && owner.stored.map(\.last) == [4])
        runtime.advance(by: .milliseconds(10))
        #expect(owner.stored.map(\.ids) == [[6], [5, 8]] && owner.stored.map(\.last) == [4, 8])
        #expect(store.writes == [[6], [5, 8]])
        act { $0.end() }
        runtime.advance(by: .milliseconds(10))
    }
}
