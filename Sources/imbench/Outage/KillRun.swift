import CommandSupport
import Foundation
import OutboxStores
import SocketIO
import TransportAPI
import Transports

/// What keeps the outbox of an app.
enum OutageStore: String, Sendable, Hashable, CaseIterable {
    case file
    case sqlite
    case memory = "none"

    /// Its kind in a configuration; `nil` for the memory.
    var kind: StoreLocation.Kind? {
        switch self {
        case .file: .file
        case .sqlite: .sqlite
        case .memory: nil
        }
    }

    /// Why this machine does not have it; `nil` if it does.
    var refusal: String? { self == .sqlite ? SQLiteOutboxStore.refusal : nil }
}

/// The result of one process that was killed.
struct KillRow: Sendable {
    var transport: String
    var fault: OutageFault
    var store: OutageStore
    /// Messages for which `submit` has returned.
    var accepted = 0
    /// How many of these have arrived.
    var arrived = 0
    /// How many messages arrived again, under the identifier of an earlier one.
    var repeated = 0
    /// From the start of the next process to the first message that arrives.
    var recover: Duration?
    /// Why the row was not measured.
    var skipped: String?
    /// Why the row is a failure.
    var failure: String?

    var lost: Int { accepted - arrived }
    var name: String { "\(transport) \(fault.rawValue) \(store.rawValue)" }
    /// Whether messages are lost because nothing keeps them.
    var mayLose: Bool { fault == .clientKilled && store == .memory }
}

/// One row of `imbench outage` in which a process is killed: one app submits numbers and another one receives them, each in a
/// process of its own. One of them is killed with SIGKILL, and started again.
struct KillRun: Sendable {
    let transport: TransportDescriptor
    let fault: OutageFault
    let store: OutageStore
    let timing: OutageTiming
    /// How long messages go through before the kill.
    let moment: Duration
    /// The program of the apps and its first argument; `nil` for this program.
    var program: [String]?

    /// How long messages go through after the recovery.
    private static let afterwards = Duration.milliseconds(300)
    /// How long nothing may arrive before what is missing counts as lost.
    private static let silence = Duration.milliseconds(1000)

    /// Runs the row. It blocks, so do not call it on a loop.
    func measure() -> KillRow {
        var row = KillRow(transport: transport.name, fault: fault, store: store)
        row.skipped = fault.isMeaningless(for: transport) ?? store.refusal
        guard row.skipped == nil else { return row }
        do {
            try measure(&row)
        } catch {
            row.failure = (error as? SystemFailure)?.message ?? sentence(of: error)
        }
        return row
    }

    private func measure(_ row: inout KillRow) throws {
        let apps = try KilledPair(self)
        defer { apps.end() }
        try apps.startReceiver()
        try apps.startSubmitter()
        try apps.wait(timing.longestRecovery) { apps.arrivals > 0 }
        guard apps.arrivals > 0 else { throw SystemFailure("no message has arrived") }
        try apps.wait(moment)
        try fault == .clientKilled ? apps.killSubmitter() : apps.killReceiver()
        try apps.wait(timing.outage)
        let startedAt = MonotonicClock.now()
        apps.mark = startedAt
        try fault == .clientKilled ? apps.startSubmitter() : apps.startReceiver()
        try apps.wait(timing.longestRecovery) { apps.firstAfterMark != nil }
        row.recover = apps.firstAfterMark.map { .nanoseconds($0 - startedAt) }
        try apps.wait(Self.afterwards)
        apps.stopSubmitting()
        try apps.wait(timing.longestRecovery) { apps.hasStopped }
        try apps.wait(timing.longestRecovery) {
            apps.lost == 0
                || apps.lastHasArrived && MonotonicClock.now() - apps.lastArrival > Self.silence.wholeNanoseconds
        }
        (row.accepted, row.repeated) = (apps.accepted.count, apps.repeated)
        row.arrived = row.accepted - apps.lost
        row.failure = failure(row, apps)
    }

    private func failure(_ row: KillRow, _ apps: KilledPair) -> String? {
        if row.recover == nil { return "no message arrived after the process was started again" }
        if !apps.hasStopped { return "a message was not accepted for \(timing.longestRecovery.settingText)" }
        if !apps.lastHasArrived { return "the last accepted message has not arrived" }
        if row.lost > 0, !row.mayLose { return "\(counted(row.lost, "accepted message")) did not arrive" }
        if apps.renamed > 0 { return "\(counted(apps.renamed, "message")) arrived under two identifiers" }
        return nil
    }
}

/// The two processes of a row, and what they have printed. One thread uses it.
private final class KilledPair {
    private let run: KillRun
    private let program: [String]
    private let folder: String
    /// Keeps the port, also while the receiver is killed. A port for datagrams could be used by this process only.
    private let port: ReservedPort?
    private let endpoint: Endpoint
    private var submitter: ChildProcess?
    private var receiver: ChildProcess?
    /// The number with which the next process begins.
    private var next = 1
    /// The last accepted number.
    private var last: Int?

    private(set) var accepted: Set<Int> = []
    /// How many accepted messages have not arrived.
    private(set) var lost = 0
    private(set) var hasStopped = false
    private var identifiers: Set<Substring> = []
    private var numbers: Set<Int> = []
    private(set) var arrivals = 0
    private(set) var repeated = 0
    /// Numbers that arrived under a second identifier.
    private(set) var renamed = 0
    private(set) var lastArrival: Int64 = 0
    /// The time from which ``firstAfterMark`` counts.
    var mark = Int64.max
    private(set) var firstAfterMark: Int64?

    /// The most lines that are read from one process before the other one.
    private static let burst = 256

    init(_ run: KillRun) throws {
        guard let program = run.program ?? Bundle.main.executablePath.map({ [$0, KilledApp.word] }) else {
            throw SystemFailure("the path of this program is unknown, so it cannot start its apps")
        }
        (self.run, self.program) = (run, program)
        let reserved = try ReservedPort(isDatagram: run.transport.isDatagram)
        port = run.transport.isDatagram ? nil : reserved
        endpoint = try Endpoint("\(run.transport.name)://\(reserved.address)")
        folder = FileManager.default.temporaryDirectory.path + "/imbench-\(getpid())-\(reserved.port)"
        guard mkdir(folder, 0o700) == 0 else { throw SystemFailure("cannot make the folder \(folder)", errno: errno) }
    }

    /// Ends both processes and removes their files.
    func end() {
        for app in [submitter, receiver].compactMap(\.self) {
            kill(app.identifier, SIGKILL)
            _ = app.end()
        }
        (submitter, receiver) = (nil, nil)
        try? FileManager.default.removeItem(atPath: folder)
    }

    func startReceiver() throws { receiver = try start(.receive) }

    func startSubmitter() throws {
        let store = run.store.kind.map { StoreLocation($0, path: folder + "/outbox") }
        submitter = try start(.submit(from: next, store))
    }

    private func start(_ role: KilledApp.Role) throws -> ChildProcess {
        try ChildProcess(program + KilledApp.words(role, endpoint, run.timing))
    }

    func killSubmitter() throws {
        guard let app = submitter else { return }
        submitter = nil
        try Self.killAndRead(app, take: accept)
        // The number after the last one may have been accepted too, and the kill came before its line. It counts neither as
        // accepted nor as arrived, and no other message has it.
        next += 1
    }

    func killReceiver() throws {
        guard let app = receiver else { return }
        receiver = nil
        try Self.killAndRead(app, take: receive)
    }

    /// Kills a process, and reads what it had printed before.
    private static func killAndRead(_ app: ChildProcess, take: (String) throws -> Void) throws {
        kill(app.identifier, SIGKILL)
        while case .line(let line) = app.next(timeout: 1000) {
            // The last line may be incomplete.
            try? take(line)
        }
        _ = app.end()
    }

    func stopSubmitting() {
        _ = submitter?.write("stop")
    }

    /// Whether the last accepted message has arrived. Messages are in order, so those before it have arrived or are lost.
    var lastHasArrived: Bool { last.map(numbers.contains) ?? false }

    /// Reads what both processes print, for a time or until something is true. It ends early if the program is interrupted.
    func wait(_ time: Duration, until isDone: () -> Bool = { false }) throws {
        let end = MonotonicClock.now() + time.wholeNanoseconds
        while !isDone(), MonotonicClock.now() < end, !Interruption.isRequested {
            let isIdle = try !read(submitter, take: accept)
            if try !read(receiver, take: receive), isIdle { poll(nil, 0, 1) }
        }
    }

    /// Reads the next lines of a process. Returns `false` if there are none.
    private func read(_ app: ChildProcess?, take: (String) throws -> Void) throws -> Bool {
        guard let app else { return false }
        for count in 0..<Self.burst {
            switch app.next(timeout: 0) {
            case .line(let line): try take(line)
            case .nothing: return count > 0
            case .tooLong: throw SystemFailure("an app has printed a line over the limit")
            case .end: throw SystemFailure("an app has ended")
            }
        }
        return true
    }

    /// Takes a line of the app that submits.
    private func accept(_ line: String) throws {
        if line == KilledApp.stopped {
            hasStopped = true
        } else {
            guard let number = Int(line) else { throw Self.unexpected(line) }
            if accepted.insert(number).inserted, !numbers.contains(number) { lost += 1 }
            (last, next) = (number, number + 1)
        }
    }

    /// Takes a line of the app that receives.
    private func receive(_ line: String) throws {
        let words = line.split(separator: " ")
        guard words.count == 3, let number = Int(words[1]), let time = Int64(words[2]) else {
            throw Self.unexpected(line)
        }
        arrivals += 1
        lastArrival = time
        if time > mark, firstAfterMark == nil { firstAfterMark = time }
        if identifiers.insert(words[0]).inserted {
            if !numbers.insert(number).inserted {
                renamed += 1
            } else if accepted.contains(number) {
                lost -= 1
            }
        } else {
            repeated += 1
        }
    }

    private static func unexpected(_ line: String) -> SystemFailure {
        SystemFailure(
            line.hasPrefix(KilledApp.failed)
                ? "an app failed: \(line.dropFirst(KilledApp.failed.count))"
                : "an app has printed the unexpected line '\(line.prefix(60))'"
        )
    }
}
