import OutboxStores
import Simulation
import TransportAPI

/// The disk of a client, on which each of its processes opens the same store. It survives them. It has the bytes of the file of
/// a `FileOutboxStore`. A process that is killed while it writes leaves the beginning of a frame.
final class StackDisk {
    private var bytes = OutboxLog.header
    /// The records of all complete frames.
    private var records: [StoredRecord.Key: [UInt8]] = [:]
    private var random: SimulationRandom
    /// The percentage of calls that find the disk full.
    private let failures: Int
    /// How many processes are still to be killed during a write or soon after it.
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
        guard case .put(let record) = change, record.key.kind == 2, record.value.count >= 43 else { return nil }
        return record.value[35..<43].reduce(0) { $0 << 8 | UInt64($1) }
    }

    fileprivate func isFull() -> Bool { random.chance(failures) }

    /// What becomes of the process that writes now.
    enum Fate {
        case lives
        /// It is killed during the write.
        case torn
        /// It is killed after this time, in nanoseconds.
        case killed(after: Int64)
    }

    fileprivate func drawFate() -> Fate {
        guard kills > 0, random.chance(15) else { return .lives }
        kills -= 1
        return random.chance(50) ? .torn : .killed(after: Int64(random.magnitude(1_000...100_000_000)))
    }

    /// Returns the records; `nil` if another process has the store open.
    ///
    /// - Throws: What the reader says about the file.
    fileprivate func open(by process: SimulatedProcess) throws(OutboxLogReader.Problem) -> [StoredRecord]? {
        if let user, user !== process, !user.isDead { return nil }
        user = process
        let contents = try read()
        bytes.removeSubrange(contents.end...)
        return contents.records
    }

    private func read() throws(OutboxLogReader.Problem) -> OutboxLogReader.Contents {
        var reader = OutboxLogReader(maximumBytes: 1 << 28)
        try bytes.withUnsafeBytes { bytes in
            Result { () throws(OutboxLogReader.Problem) in try reader.read(bytes) }
        }.get()
        return try reader.finish()
    }

    /// Whether the next process would find the records of all complete frames.
    var isIntact: Bool {
        guard let contents = try? read() else { return false }
        return has(contents.records)
    }

    fileprivate func closed() { user = nil }

    /// Whether these are the records of all complete frames.
    fileprivate func has(_ found: [StoredRecord]) -> Bool {
        found == records.sorted { $0.key < $1.key }.map { StoredRecord($0.key, $0.value) }
    }

    /// Appends a frame, or only the beginning of it.
    fileprivate func write(_ changes: [StoreChange], isTorn: Bool) {
        var places: [OutboxLog.Place] = []
        let frame = OutboxLog.frame(changes, at: bytes.count, places: &places)
        guard !isTorn else {
            bytes += frame.prefix(random.magnitude(0...frame.count - 1))
            return
        }
        bytes += frame
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
        /// The process is about to die, during a write.
        case torn
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
        let records: [StoredRecord]?
        do throws(OutboxLogReader.Problem) { records = try outbox.disk.open(by: process) } catch {
            run.checker.fail("the store of \(outbox.name) is not read after a kill: \(error)")
            throw failure("open")
        }
        guard let records else {
            run.checker.fail("two processes have the store of \(outbox.name) open")
            throw failure("open")
        }
        if !outbox.disk.has(records) { run.checker.fail("the store of \(outbox.name) has other records after a kill") }
        phase = .opened
        return records
    }

    func write(_ changes: [StoreChange]) throws(TransportError) {
        let isFirst = phase == .opened
        if phase == .closed { run.checker.fail("the store of \(outbox.name) is written while it is closed") }
        guard phase != .torn else { throw failure("process") }
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
        let fate = run.isOver ? .lives : outbox.disk.drawFate()
        switch fate {
        case .torn:
            outbox.disk.write(changes, isTorn: true)
            phase = .torn
            run.world.trace.note(36, 0, 0, "\(process.name): killed while it writes to the store")
            run.killClient(process)
            throw failure("process")
        case .lives, .killed: outbox.disk.write(changes, isTorn: false)
        }
        if let processed = changes.compactMap(StackDisk.processed).last { outbox.stored(processed: processed) }
        if case .killed(let time) = fate { run.world.after(time) { [run, process] in run.killClient(process) } }
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
