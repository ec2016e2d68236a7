import CSocketIO
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import TrialCertificates

@testable import Transports

/// Many tasks on the global pool send, receive, ping, close, connect and cancel at random. They use real sockets of
/// every transport, over a path that stalls, drips, resets and vanishes. scripts/README.md says how to run many
/// operations.
@Suite("Random operations", .serialized, .timeLimit(OperationPlan.timeLimit), .ownThread)
struct RandomOperationsTests {
    @Test("All random operations on connections of every transport end, and leave nothing behind")
    func operations() async throws {
        let plan = OperationPlan()
        print("random operations: \(plan.count), IM_SEED=\(plan.seed)")
        let run = try OperationRun(plan)
        let report = await run.untilOverOrStuck()
        #expect(report.problems == [], "IM_SEED=\(plan.seed)")
        #expect(report.ended == plan.count && report.pending == 0, "IM_SEED=\(plan.seed)")
        // A few operations can all fail.
        if plan.count >= OperationPlan.defaultCount {
            for tally in ["connected", "received"] {
                #expect(report.tallies[tally, default: 0] > 0, "\(tally), IM_SEED=\(plan.seed)")
            }
        }
        print("random operations: \(report)")
    }
}

/// The number of operations in a run, and their seed.
struct OperationPlan {
    static let defaultCount = 3000
    /// The run is alone in the process, and then may have many operations, or has the default number.
    static let timeLimit = TimeLimitTrait.Duration.minutes(OperationPlan().isAlone ? 24 * 60 : 10)
    /// From `IM_OPERATIONS`.
    let count: Int
    /// From `IM_SEED`. The default is a new random seed in each run.
    let seed: UInt64
    /// Whether this run is alone in the process, so that nothing else opens descriptors or allocates memory meanwhile.
    let isAlone: Bool

    init() {
        let environment = ProcessInfo.processInfo.environment
        let asked = environment["IM_OPERATIONS"].flatMap(Int.init)
        count = max(1, asked ?? Self.defaultCount)
        isAlone = asked != nil
        seed = environment["IM_SEED"].flatMap(UInt64.init) ?? UInt64.random(in: 0 ... .max)
    }

    /// Every transport that has a network below it, and those of their modes that behave differently.
    static let modes: [String] =
        TransportRegistry.available.transports.filter { $0.defaultPort != nil }.map(\.name) + [
            "udp?reliable=ordered", "ws?deflate=small", "mqtt?qos=1", "mqtt?qos=2", "tcp?framing=u32",
        ]

    /// The number of operations in one round. A round uses one transport.
    var perRound: Int { max(min(count, 100), min(2000, count / (2 * Self.modes.count))) }
}

/// The results of a run.
struct OperationReport: CustomStringConvertible {
    var ended = 0
    var pending = 0
    var tallies: [String: Int] = [:]
    /// Descriptions of the failures. Empty if there are none.
    var problems: [String] = []
    /// Bytes allocated and descriptors open after the first round of each mode, and at the end.
    var heap: (before: Int, after: Int)?
    var descriptors: (before: Int, after: Int)?

    var description: String {
        let lines = tallies.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
        let memory = heap.map { ", heap \($0.before) to \($0.after) bytes" } ?? ""
        let open = descriptors.map { ", descriptors \($0.before) to \($0.after)" } ?? ""
        return "\(ended) ended, \(pending) pending\(memory)\(open)\n  \(lines.joined(separator: ", "))"
    }
}

/// All rounds of one run.
final class OperationRun: Sendable {
    /// The longest time of an operation in nanoseconds. It is longer than a close handshake over the worst path.
    private static let timeLimit: Int64 = 120_000_000_000
    /// How much caches may grow after the first rounds.
    private static let heapAllowance = 4 << 20
    private let plan: OperationPlan
    private let log = OperationLog()
    private let drivers = LiveDrivers()
    private let watch: EventLoop
    private let loops: [EventLoop]

    init(_ plan: OperationPlan) throws {
        self.plan = plan
        watch = try EventLoop(name: "im-watch")
        loops = try (0..<4).map { try EventLoop(name: "im-stress-\($0)") }
    }

    /// Runs all rounds. Returns early if an operation does not end.
    func untilOverOrStuck() async -> OperationReport {
        await withCheckedContinuation { continuation in
            let waiting = Locked<CheckedContinuation<OperationReport, Never>?>(continuation)
            Task.detached {
                let report = await self.run()
                waiting.withLock { $0.take() }?.resume(returning: report)
            }
            watch.execute { self.check(waiting) }
        }
    }

    /// Checks each second, on its own thread, because the global pool itself may be stuck.
    private func check(_ waiting: Locked<CheckedContinuation<OperationReport, Never>?>) {
        let stuck = log.pending(olderThan: Self.timeLimit)
        if !stuck.isEmpty {
            var report = log.report
            report.problems += stuck.map { "does not end: \($0)" }
            waiting.withLock { $0.take() }?.resume(returning: report)
        } else if waiting.withLock({ $0 != nil }) {
            _ = watch.schedule(at: MonotonicClock.now() + 1_000_000_000) { self.check(waiting) }
        }
    }

    @concurrent
    private func run() async -> OperationReport {
        var random = RandomSource.seeded(plan.seed)
        var left = plan.count
        var rounds = 0
        var before: (heap: Int, descriptors: Int)?
        var closing: [Task<Void, Never>] = []
        while left > 0 {
            let mode = OperationPlan.modes[rounds % OperationPlan.modes.count]
            let count = min(left, plan.perRound)
            let round = OperationRound(mode, rounds, random.next(), log, drivers, loops)
            await round.run(count)
            // Closing runs beside the next round, because it waits for peers that are gone.
            closing.append(Task.detached { await round.close() })
            left -= count
            rounds += 1
            if plan.isAlone, rounds % OperationPlan.modes.count == 0 {
                for task in closing { await task.value }
                closing = []
                if before == nil {
                    await untilGone()
                    before = (HeapInUse.bytes, OpenDescriptors.count)
                }
            }
        }
        for task in closing { await task.value }
        closing = []
        let alive = await untilGone()
        var report = log.report
        if alive > 0 { report.problems.append("\(alive) drivers of connections live on") }
        // Beside other tests, one of these can get a port of the run. CI also runs this test alone.
        let sockets = plan.isAlone ? await OpenDescriptors.untilNone(of: log.ports, on: watch) : 0
        if sockets > 0 { report.problems.append("\(sockets) sockets of the run are open") }
        if let before, rounds > OperationPlan.modes.count {
            // A connection whose TLS has failed stays open until the alert has left.
            await OpenDescriptors.untilAtMost(before.descriptors, on: watch)
            let after = (heap: HeapInUse.bytes, descriptors: OpenDescriptors.count)
            report.heap = (before.heap, after.heap)
            report.descriptors = (before.descriptors, after.descriptors)
            if after.descriptors > before.descriptors { report.problems.append("descriptors are left open") }
            if after.heap > before.heap + Self.heapAllowance { report.problems.append("memory is not given back") }
        }
        return report
    }

    /// Waits until all drivers are released, up to the time limit. Returns the number of the others.
    @discardableResult
    private func untilGone() async -> Int {
        let deadline = MonotonicClock.now() + Self.timeLimit
        while drivers.count > 0, MonotonicClock.now() < deadline { await watch.wait(.milliseconds(20)) }
        return drivers.count
    }
}

/// The operations in flight, and those that have ended.
final class OperationLog: Sendable {
    private struct State {
        var next = 0
        var pending: [Int: (what: String, since: Int64)] = [:]
        var report = OperationReport()
        var ports: Set<UInt16> = []
    }

    private let state = Locked(State())

    /// Runs an operation that counts.
    func run(_ what: String, _ operation: () async -> String) async {
        let id = begin(what)
        let tally = await operation()
        state.withLock { state in
            state.pending[id] = nil
            state.report.ended += 1
            state.report.tallies[tally, default: 0] += 1
        }
    }

    /// Runs other work that must end.
    func expectEnd(of what: String, _ work: () async -> Void) async {
        let id = begin(what)
        await work()
        state.withLock { $0.pending[id] = nil }
    }

    private func begin(_ what: String) -> Int {
        state.withLock { state in
            state.next += 1
            state.pending[state.next] = (what, MonotonicClock.now())
            return state.next
        }
    }

    func problem(_ sentence: String) {
        state.withLock { if $0.report.problems.count < 20 { $0.report.problems.append(sentence) } }
    }

    func note(port: UInt16?) {
        state.withLock { if let port { $0.ports.insert(port) } }
    }

    var ports: Set<UInt16> { state.withLock { $0.ports } }

    var report: OperationReport {
        state.withLock { state in
            var report = state.report
            report.pending = state.pending.count
            return report
        }
    }

    func pending(olderThan age: Int64) -> [String] {
        let now = MonotonicClock.now()
        return state.withLock { state in state.pending.values.filter { now - $0.since > age }.map(\.what).sorted() }
    }
}

/// Counts the drivers that are still alive.
final class LiveDrivers: Sendable {
    private struct Weak: @unchecked Sendable {
        // Unchecked, because the reference is only compared with nil.
        weak var driver: ConnectionDriver?
    }

    private let all = Locked<[Weak]>([])

    func add(_ connection: any Connection) {
        guard let driver = (connection as? CoreConnection)?.driver else { return }
        driver.loop.execute { [all] in
            let weak = Weak(driver: driver.value)
            all.withLock { $0.append(weak) }
        }
    }

    var count: Int {
        all.withLock { all in
            all.removeAll { $0.driver == nil }
            return all.count
        }
    }
}

extension EventLoop {
    /// Calls `action` on the loop after `delay`.
    func after(_ delay: Duration, _ action: @escaping @Sendable () -> Void) {
        execute { _ = self.schedule(at: self.now + delay.wholeNanoseconds, action) }
    }

    /// Waits on the loop, which uses no thread of the global pool.
    func wait(_ delay: Duration) async {
        await withCheckedContinuation { continuation in after(delay) { continuation.resume() } }
    }
}

/// The memory in use according to the allocator.
enum HeapInUse {
    static var bytes: Int { csocketio_heap_in_use() }
}

enum OpenDescriptors {
    static var count: Int {
        (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 0
    }

    /// Waits for up to a minute until at most `limit` descriptors are open.
    static func untilAtMost(_ limit: Int, on loop: EventLoop) async {
        for _ in 0..<600 where count > limit { await loop.wait(.milliseconds(100)) }
    }

    /// Waits for up to a minute until no socket of this process has one of these ports on either side. Returns the
    /// number of the others.
    static func untilNone(of ports: Set<UInt16>, on loop: EventLoop) async -> Int {
        for _ in 0..<600 {
            if sockets(at: ports) == 0 { return 0 }
            await loop.wait(.milliseconds(100))
        }
        return sockets(at: ports)
    }

    private static func sockets(at ports: Set<UInt16>) -> Int {
        let folder = "/proc/self/fd"
        let connections = ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [])
            .compactMap { try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\($0)") }
        let own = Set(connections.filter { $0.hasPrefix("socket:[") }.map { String($0.dropFirst(8).dropLast()) })
        var found = 0
        for table in ["tcp", "tcp6", "udp", "udp6"] {
            guard let text = try? String(contentsOfFile: "/proc/self/net/\(table)", encoding: .utf8) else { continue }
            for line in text.split(separator: "\n").dropFirst() {
                let fields = line.split(separator: " ")
                guard fields.count > 9, own.contains(String(fields[9])) else { continue }
                let hasPort = fields[1...2].contains { address in
                    guard let port = address.split(separator: ":").last else { return false }
                    return UInt16(port, radix: 16).map { ports.contains($0) } ?? false
                }
                if hasPort { found += 1 }
            }
        }
        return found
    }
}
