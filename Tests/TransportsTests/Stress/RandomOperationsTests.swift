import CSocketIO
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

/// Many tasks on the global pool send, receive, ping, close, connect and cancel at random, on real sockets of every
/// transport, over a path that stalls, drips, resets and vanishes. CONTRIBUTING.md says how to run many operations.
@Suite("Random operations", .serialized, .ownThread)
struct RandomOperationsTests {
    @Test("on connections of every transport all end, and leave nothing behind")
    func operations() async throws {
        let plan = OperationPlan()
        print("random operations: \(plan.count), IM_SEED=\(plan.seed)")
        let run = try OperationRun(plan)
        let report = await run.untilOverOrStuck()
        #expect(report.problems == [], "IM_SEED=\(plan.seed)")
        #expect(report.ended == plan.count && report.pending == 0, "IM_SEED=\(plan.seed)")
        print("random operations: \(report)")
    }
}

/// How many operations a run has, and which.
struct OperationPlan {
    /// From `IM_OPERATIONS`; 3,000 by default.
    let count: Int
    /// From `IM_SEED`; another one each time by default.
    let seed: UInt64
    /// Whether the run was asked for by itself, so that nothing else in the process opens descriptors or takes memory
    /// meanwhile.
    let isAlone: Bool

    init() {
        let environment = ProcessInfo.processInfo.environment
        let asked = environment["IM_OPERATIONS"].flatMap(Int.init)
        count = max(1, asked ?? 3000)
        isAlone = asked != nil
        seed = environment["IM_SEED"].flatMap(UInt64.init) ?? UInt64.random(in: 0 ... .max)
    }

    /// Every transport that has a network below it, and those of their modes that answer otherwise.
    static let modes: [String] =
        TransportRegistry.standard.transports.filter { $0.defaultPort != nil }.map(\.name) + [
            "udp?reliable=ordered", "ws?deflate=small", "mqtt?qos=1", "mqtt?qos=2", "tcp?framing=u32",
        ]

    /// The operations of one round, all over one transport.
    var perRound: Int { max(min(count, 100), min(2000, count / (2 * Self.modes.count))) }
}

/// What a run came to.
struct OperationReport: CustomStringConvertible {
    var ended = 0
    var pending = 0
    var tallies: [String: Int] = [:]
    /// What must not be; empty if all is well.
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
    /// How long an operation may take; longer than a close handshake over the worst path.
    private static let patience: Int64 = 120_000_000_000
    /// What caches may grow by after the first rounds.
    private static let heapAllowance = 4 << 20
    private let plan: OperationPlan
    private let ledger = OperationLedger()
    private let drivers = LiveDrivers()
    private let watch: EventLoop
    private let loops: [EventLoop]

    init(_ plan: OperationPlan) throws {
        self.plan = plan
        watch = try EventLoop(name: "im-watch")
        loops = try (0..<4).map { try EventLoop(name: "im-stress-\($0)") }
    }

    /// Runs all rounds; returns early if an operation does not end.
    func untilOverOrStuck() async -> OperationReport {
        await withCheckedContinuation { continuation in
            let waiting = Locked<CheckedContinuation<OperationReport, Never>?>(continuation)
            Task.detached {
                let report = await self.run()
                waiting.withLock { $0.take() }?.resume(returning: report)
            }
            watch.execute { self.look(waiting) }
        }
    }

    /// Looks each second, on a thread of its own: the global pool may be what is stuck.
    private func look(_ waiting: Locked<CheckedContinuation<OperationReport, Never>?>) {
        let stuck = ledger.pending(olderThan: Self.patience)
        if !stuck.isEmpty {
            var report = ledger.report
            report.problems += stuck.map { "does not end: \($0)" }
            waiting.withLock { $0.take() }?.resume(returning: report)
        } else if waiting.withLock({ $0 != nil }) {
            _ = watch.schedule(at: MonotonicClock.now() + 1_000_000_000) { self.look(waiting) }
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
            let round = OperationRound(mode, rounds, random.next(), ledger, drivers, loops)
            await round.run(count)
            // While the next round runs: a peer that is gone is waited for.
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
        var report = ledger.report
        if alive > 0 { report.problems.append("\(alive) drivers of connections live on") }
        let sockets = await OpenDescriptors.untilNone(of: ledger.ports, on: watch)
        if sockets > 0 { report.problems.append("\(sockets) sockets of the run are open") }
        if let before, rounds > OperationPlan.modes.count {
            let after = (heap: HeapInUse.bytes, descriptors: OpenDescriptors.count)
            report.heap = (before.heap, after.heap)
            report.descriptors = (before.descriptors, after.descriptors)
            if after.descriptors > before.descriptors { report.problems.append("descriptors are left open") }
            if after.heap > before.heap + Self.heapAllowance { report.problems.append("memory is not given back") }
        }
        return report
    }

    /// Waits until all drivers are gone, for as long as an operation may take; how many are not.
    @discardableResult
    private func untilGone() async -> Int {
        let deadline = MonotonicClock.now() + Self.patience
        while drivers.count > 0, MonotonicClock.now() < deadline { await watch.wait(.milliseconds(20)) }
        return drivers.count
    }
}

/// What is under way, and what has ended.
final class OperationLedger: Sendable {
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

    /// Runs something else that must end.
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

/// Knows of each driver whether it lives.
final class LiveDrivers: Sendable {
    private struct Weak: @unchecked Sendable {
        // Unchecked, because nobody does more with the driver than to see whether it is there.
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
    /// Calls `action` on the loop when the time is over.
    func after(_ delay: Duration, _ action: @escaping @Sendable () -> Void) {
        execute { _ = self.schedule(at: self.now + delay.wholeNanoseconds, action) }
    }

    /// Waits on the loop, which has no thread of the global pool.
    func wait(_ delay: Duration) async {
        await withCheckedContinuation { continuation in after(delay) { continuation.resume() } }
    }
}

/// What the allocator has given out.
enum HeapInUse {
    static var bytes: Int { csocketio_heap_in_use() }
}

/// The descriptors of this process.
enum OpenDescriptors {
    static var count: Int {
        (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 0
    }

    /// Waits until no socket of this process has one of these ports on either side, for a minute; how many have.
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
