import SocketIO

@testable import TransportAPI

/// A store in memory that fails when a test says so. It stands for the disk: several supervisors can have it, one after
/// another.
final class StoreInMemory: OutboxStore {
    private struct State {
        var records: [StoredRecord.Key: [UInt8]] = [:]
        var writes: [[StoreChange]] = []
        var openError: TransportError?
        /// The errors of the next writes.
        var writeErrors: [TransportError] = []
        var opened = 0
        var isOpen = false
    }

    private let state = Locked(State())

    /// The changes of each write that has succeeded.
    var writes: [[StoreChange]] { state.withLock { $0.writes } }
    var isOpen: Bool { state.withLock { $0.isOpen } }
    var opened: Int { state.withLock { $0.opened } }
    /// The messages that the next process would find.
    var kept: [String] {
        state.withLock { state in
            state.records.keys.sorted().compactMap { key in
                (try? StoredMessage(StoredRecord(key, state.records[key] ?? [])))?.payload.string
            }
        }
    }

    func fail(open error: TransportError?) { state.withLock { $0.openError = error } }
    func fail(writes errors: [TransportError]) { state.withLock { $0.writeErrors = errors } }
    func put(_ record: StoredRecord) { state.withLock { $0.records[record.key] = record.value } }
    func put(_ payloads: [Payload]) {
        for (index, payload) in payloads.enumerated() {
            put(StoredMessage(MessageID(UInt64(index) + 7), payload).record)
        }
    }

    func open() throws(TransportError) -> [StoredRecord] {
        try state.withLock { (state) throws(TransportError) in
            state.opened += 1
            if let error = state.openError { throw error }
            state.isOpen = true
            return state.records.sorted { $0.key < $1.key }.map { StoredRecord($0.key, $0.value) }
        }
    }

    func write(_ changes: [StoreChange]) throws(TransportError) {
        try state.withLock { (state) throws(TransportError) in
            if !state.writeErrors.isEmpty { throw state.writeErrors.removeFirst() }
            for change in changes {
                switch change {
                case .put(let record): state.records[record.key] = record.value
                case .remove(let key): state.records[key] = nil
                }
            }
            state.writes.append(changes)
        }
    }

    func close() { state.withLock { $0.isOpen = false } }
}
