import CommandSupport
import Foundation
import Measuring
import OutboxStores
import Primitives
import Reporting
import SocketIO
import TransportAPI
import Transports

/// What one store costs an app beside the memory: a row of `imbench outage --store-cost`.
struct StoreCostRow: Sendable {
    var store: OutageStore
    /// `nil` for the memory.
    var sync: StoreSync?
    /// Submits per second in each repeat.
    var rates: [Double?] = []
    /// The times of single submits, over all repeats.
    var times = Histogram()
    /// In each repeat, the milliseconds from the creation of a supervisor to its first accepted message.
    var reopened: [Double] = []
    /// Why the row was not measured.
    var skipped: String?
    /// Why the row is a failure.
    var failure: String?

    /// The sync as in a configuration.
    var syncText: String {
        guard let sync else { return "-" }
        return switch sync {
        case .always: "always"
        case .interval(let time): time.settingText
        case .none: "none"
        }
    }

    var name: String { sync == nil ? "none" : "\(store.rawValue) with sync=\(syncText)" }
}

/// Measures the rows alternately: in each repeat all of them in random order. Nothing connects, so only the outbox is measured.
struct StoreCost: Sendable {
    /// The folder of the files. It is created, and removed at the end.
    let folder: String
    var repeats = 20
    /// How long a row submits in each repeat.
    var slice = Duration.milliseconds(250)
    /// How many messages wait in a store that is opened.
    var waiting = 10_000
    private let loop = EventLoop.shared

    /// Bytes of a message.
    static let size = 256

    init(folder: String) { self.folder = folder }

    /// All rows, of which those without their library have a reason.
    static var rows: [StoreCostRow] {
        [StoreCostRow(store: .memory)]
            + [OutageStore.file, .sqlite].flatMap { store in
                [StoreSync.none, .default, .always].map { sync in
                    StoreCostRow(store: store, sync: sync, skipped: store.refusal)
                }
            }
    }

    /// Measures all rows. It blocks, so do not call it on the loop.
    ///
    /// - Parameter step: Called before each repeat.
    func measure(seed: UInt64, step: () -> Void = {}) throws(SystemFailure) -> [StoreCostRow] {
        guard mkdir(folder, 0o700) == 0 else { throw SystemFailure("cannot make the folder \(folder)", errno: errno) }
        defer { try? FileManager.default.removeItem(atPath: folder) }
        var rows = Self.rows
        for store in [OutageStore.file, .sqlite] where store.refusal == nil {
            do throws(TransportError) {
                try tryBlocking(on: loop) { () async throws(TransportError) in try await fill(store) }
            } catch {
                for index in rows.indices where rows[index].store == store {
                    rows[index].failure = sentence(of: error)
                }
            }
        }
        var random = RandomSource.seeded(seed)
        for _ in 0..<repeats {
            step()
            for index in rows.indices.shuffled(using: &random) where rows[index].skipped == nil {
                guard !Interruption.isRequested else { return rows }
                guard rows[index].failure == nil else { continue }
                let row = rows[index]
                let result = runBlocking(on: loop) { () async -> Result<StoreCostRow, TransportError> in
                    do throws(TransportError) { return .success(try await measured(row)) } catch {
                        return .failure(error)
                    }
                }
                switch result {
                case .success(let row): rows[index] = row
                case .failure(let error): rows[index].failure = sentence(of: error)
                }
            }
        }
        return rows
    }

    /// The row with one more repeat.
    private func measured(_ row: StoreCostRow) async throws(TransportError) -> StoreCostRow {
        var row = row
        let path = folder + "/outbox"
        let message = Payload([UInt8](repeating: 0x61, count: Self.size))
        let supervisor = try supervisor(row, path)
        // The first one opens the store.
        _ = try await supervisor.submit(message)
        let begin = MonotonicClock.now()
        let end = begin + slice.wholeNanoseconds
        var (now, count) = (begin, 0)
        while now < end {
            _ = try await supervisor.submit(message)
            let after = MonotonicClock.now()
            row.times.record(after - now)
            (now, count) = (after, count + 1)
        }
        row.rates.append(Double(count) * 1e9 / Double(now - begin))
        await supervisor.close()
        remove(path)
        guard row.sync != nil else { return row }
        let start = MonotonicClock.now()
        let next = try self.supervisor(row, waitingPath(row.store))
        _ = try await next.submit(message)
        row.reopened.append(Double(MonotonicClock.now() - start) / 1e6)
        await next.close()
        return row
    }

    /// Fills the store that is reopened.
    private func fill(_ store: OutageStore) async throws(TransportError) {
        let supervisor = try supervisor(StoreCostRow(store: store, sync: StoreSync.none), waitingPath(store))
        let message = Payload([UInt8](repeating: 0x61, count: Self.size))
        let refused = Locked<TransportError?>(nil)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<waiting {
                group.addTask(executorPreference: loop) {
                    do throws(TransportError) {
                        _ = try await supervisor.submit(message)
                    } catch {
                        refused.withLock { $0 = error }
                    }
                }
            }
        }
        await supervisor.close()
        if let error = refused.withLock({ $0 }) { throw error }
    }

    private func waitingPath(_ store: OutageStore) -> String { folder + "/waiting-" + store.rawValue }

    private func supervisor(_ row: StoreCostRow, _ path: String) throws(TransportError) -> Supervisor {
        var configuration = TransportConfiguration(endpoints: [try Endpoint("tcp://127.0.0.1:1")])
        configuration.supervisor.delivery.mode = .session
        configuration.supervisor.outbox.maximumCount = 1 << 20
        configuration.supervisor.outbox.maximumBytes = 1 << 30
        if let kind = row.store.kind, let sync = row.sync {
            configuration.supervisor.outbox.store = StoreLocation(kind, path: path, sync: sync)
        }
        // It never connects, which would be a remark without an observer.
        return try Supervisor(configuration, on: loop) { $0.observer = OutageWatch() }
    }

    private func remove(_ path: String) {
        for end in ["", ".lock", ".new", "-wal", "-shm", "-journal"] { unlink(path + end) }
    }
}

func measureStores(_ options: OutageCommand, in parent: String) throws -> Int32 {
    let target = try options.report.target()
    let seed = runSeed(options.seed)
    let cost = StoreCost(folder: "\(parent)/imbench-\(getpid())")
    var progress = Progress(total: cost.repeats, isQuiet: options.general.isQuiet)
    var results = StoreCostResults(run: RunResults(of: options, seed: seed), cost: cost)
    results.rows = try cost.measure(seed: seed) { progress.step("stores") }
    progress.finish()
    results.run.end()
    try target.write(results.report, options.report)
    return results.rows.contains { $0.failure != nil } ? ExitStatus.failed : ExitStatus.good
}

/// The results of `imbench outage --store-cost`.
struct StoreCostResults: Sendable {
    /// Environment, options and seed, without rows.
    var run: RunResults
    var cost: StoreCost
    var rows: [StoreCostRow] = []

    var report: Report {
        let table = table
        return Report(
            name: "imbench outage",
            title: "Stores of an outbox: submits per second beside the memory, and the time to open one again",
            trust: run.trust,
            warnings: run.warnings,
            verdict: verdict,
            facts: run.facts,
            sections: [
                Report.Section(
                    heading: "What a store costs",
                    question: "How much longer does a submit take with a store?",
                    table: table,
                    notes: rows.compactMap { row in row.failure.map { "\(row.name) has FAILED: \($0)" } } + [
                        conditions
                    ],
                    next: [
                        .init(
                            "To see what a store saves when the process is killed",
                            "imbench outage --fault client-killed"
                        )
                    ]
                )
            ],
            records: table,
            data: run.envelope(results: table.members.map(ReportValue.object))
        )
    }

    private var conditions: String {
        "Messages of \(StoreCost.size) bytes were submitted one after the other, without a connection, for "
            + "\(cost.slice.settingText) in each of \(cost.repeats) repeats; the rows alternate in random order. "
            + "After a median stands its 95 % interval. A ratio compares a row with the memory in the same repeat."
    }

    private var memory: [Double?] { rows.first { $0.sync == nil }?.rates ?? [] }

    /// How many times as long as in memory a submit takes, in each repeat.
    private func ratios(_ row: StoreCostRow) -> RepeatStatistics? {
        RepeatStatistics(RepeatStatistics.ratios(memory, to: row.rates).compactMap(\.self))
    }

    /// What the default sync and a sync of each write cost.
    private var verdict: [String] {
        func sentence(_ sync: StoreSync, _ condition: String) -> String? {
            let compared = rows.compactMap { row in
                row.sync == sync ? ratios(row).map { "\($0.text) times as long with \(row.store.rawValue)" } : nil
            }
            guard !compared.isEmpty else { return nil }
            return "\(condition), a submit takes \(compared.joined(separator: " and ")) as in memory."
        }
        return [
            sentence(.default, "With a sync to the disk each second"), sentence(.always, "With a sync for each write"),
        ].compactMap(\.self)
    }

    private var table: Table {
        Table(
            labels: 2,
            columns: [
                .text("store", "store", "what keeps the outbox; none is the memory"),
                .text("sync", "sync", "when it is written to the disk"),
                .number("submits/s", "submits_per_s", "messages accepted per second"),
                .number(nil, "submits_per_s_low"), .number(nil, "submits_per_s_high"),
                .number("× memory", "time_to_memory", "time of a submit, as a multiple of that in memory"),
                .number(nil, "time_to_memory_low"), .number(nil, "time_to_memory_high"),
                .number("p99 µs", "submit_p99_us", "99th percentile of the time of a submit"),
                .number(
                    "reopen ms",
                    "reopen_ms",
                    "from a new supervisor to its first accepted message, with \(grouped(String(cost.waiting))) messages waiting"
                ), .number(nil, "reopen_ms_low"), .number(nil, "reopen_ms_high"),
                .text(nil, "failure"), .text(nil, "skipped"),
            ],
            rows: rows.map { row in
                var cells = [Table.Cell(row.store.rawValue), Table.Cell(row.syncText)]
                cells += Self.cells(RepeatStatistics(row.rates.compactMap(\.self)))
                cells += Self.cells(row.sync == nil ? nil : ratios(row))
                cells.append(Table.Cell(Latency(row.times).p99))
                cells += Self.cells(RepeatStatistics(row.reopened))
                cells += [row.failure, row.skipped].map { Table.Cell(value: ReportValue($0), text: "") }
                return Table.Row(cells: cells, note: row.skipped, isFailure: row.failure != nil)
            }
        )
    }

    /// The cells of a median and its interval.
    private static func cells(_ statistics: RepeatStatistics?) -> [Table.Cell] {
        [
            Table.Cell(statistics?.median, statistics?.text ?? "-"), Table.Cell(statistics?.interval?.low),
            Table.Cell(statistics?.interval?.high),
        ]
    }
}
