import Simulation
import TransportAPI

/// The disk of a client, on which each of its processes opens the same store. It survives them.
final class StackDisk {
    private var records: [StoredRecord.Key: [UInt8]] = [:]
    private var random: SimulationRandom
    /// The percentage of calls that find the disk full.
    private let failures: Int
    /// How many processes are still to be killed soon after a write.
    private var kills: Int
    /// The process that has the store open.
    private var user: SimulatedProcess?

    init(failures: Int, kills: Int, seed: UInt64) {
        (self.failures, self.kills) = (failures, kills)
        random = SimulationRandom(seed: seed, stream: 26)
    }

    /// The messages of the app that a process would find now.
    var messages: Set<StackMessage> {
        // The head of a record and of a message without a topic (Docs/reference/outbox-store.md).
        Set(records.compactMap { $0.key.kind == 1 ? StackMessage(Array($0.value.dropFirst(6))) : nil })
    }

    /// The number up to which the app has processed the server's messages, in the record of a session; `nil` for another
    /// record.
    static func processed(_ change: StoreChange) -> UInt64? {
        guard case .put(let record) = change, record.key.kind == 2, record.value.count == 51 else { return nil }
        return record.value[35..<43].reduce(0) { $0 << 8 | UInt64($1) }
    }

    fileprivate func isFull() -> Bool { random.chance(failures) }

    /// After which time the process is killed that has just written, in nanoseconds; `nil` if it is not.
    fileprivate func drawKill() -> Int64? {
        guard kills > 0, random.chance(5) else { return nil }
        kills -= 1
        return Int64(random.magnitude(1_000...100_000_000))
    }

    /// Returns `false` if another process has it open.
    fileprivate func open(by process: SimulatedProcess) -> Bool {
        if let user, user !== process, !user.isDead { return false }
        user = process
        return true
    }

    fileprivate func closed() { user = nil }

    fileprivate var sorted: [StoredRecord] {
        records.sorted { $0.key < $1.key }.map { StoredRecord($0.key, $0.value) }
    }

    fileprivate func change(_ changes: [StoreChange]) {
        for change in changes {
            switch change {
            case .put(let record): records[record.key] = record.value
            case .remove(let key): records[key] = nil
            }
        }
    }
}

/// The store of one process on the disk of its client.
final class StackStore: OutboxStore, @unchecked Sendable {
    // Unchecked, because only the thread of the simulation uses it.

    private enum Phase {
        case closed
        /// The process has not written yet.
        case opened
        case written
    }

    private let run: StackRun
    private let outbox: StackOutbox
    private let process: SimulatedProcess
    private var phase = Phase.closed
    /// How many calls have failed, and how many of them are the first write, of which a supervisor that ends meanwhile tells
    /// nothing.
    private(set) var failures = (all: 0, first: 0)

    init(_ run: StackRun, _ outbox: StackOutbox, _ process: SimulatedProcess) {
        (self.run, self.outbox, self.process) = (run, outbox, process)
    }

    func open() throws(TransportError) -> [StoredRecord] {
        try check("opened")
        guard outbox.disk.open(by: process) else {
            run.checker.fail("two processes have the store of \(outbox.name) open")
            throw failure("open")
        }
        phase = .opened
        return outbox.disk.sorted
    }

    func write(_ changes: [StoreChange]) throws(TransportError) {
        let isFirst = phase == .opened
        if phase == .closed { run.checker.fail("the store of \(outbox.name) is written while it is closed") }
        phase = .written
        do throws(TransportError) {
            try check("written")
        } catch {
            if isFirst, !process.isDead {
                failures.first += 1
                outbox.beginsOwnSession()
            }
            throw error
        }
        outbox.disk.change(changes)
        if let processed = changes.compactMap(StackDisk.processed).last { outbox.stored(processed: processed) }
        guard !run.isOver, let time = outbox.disk.drawKill() else { return }
        run.world.after(time) { [run, process] in run.killClient(process) }
    }

    func close() {
        phase = .closed
        if !process.isDead { outbox.disk.closed() }
    }

    /// Fails for a full disk, and for a process that was killed before.
    private func check(_ what: String) throws(TransportError) {
        if process.isDead { throw failure("process") }
        guard !run.isOver, outbox.disk.isFull() else { return }
        failures.all += 1
        run.world.trace.note(36, 0, 0, "\(process.name): the store cannot be \(what)")
        throw failure("disk")
    }

    private func failure(_ what: String) -> TransportError {
        TransportError(.storageFailed, .open, "the simulated \(what) takes nothing; wait for another one", detail: 28)
    }
}
