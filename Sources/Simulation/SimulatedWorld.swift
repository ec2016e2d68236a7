import CSimulation
import SocketIO

/// Processes, their event loops and tasks, and the network between them, on the calling thread and in virtual time.
///
/// All random numbers come from the seed. The same seed gives the same run, step by step.
package final class SimulatedWorld: @unchecked Sendable {
    // Unchecked, because only the simulating thread uses it. All tasks run on that thread, too.

    /// The reason why a run has stopped.
    package enum Stop: Equatable {
        /// The condition was met.
        case met
        /// Nothing can run now, and nothing is scheduled.
        case idle
        /// The limit of virtual time was reached.
        case timeOver
        /// The limit of steps was reached.
        case stepsOver
    }

    private struct CaughtJob {
        var job: UnownedJob
        var process: SimulatedProcess
    }

    package let kernel: SimulatedKernel
    package let trace = Trace()
    package private(set) var processes: [SimulatedProcess] = []
    /// The numeric addresses of names that are no names of processes, in the resolver's order.
    package var addresses: [String: [String]] = [:]
    /// The number of steps so far: iterations of loops, and jobs of the global executor.
    package private(set) var steps = 0
    /// The most system calls that one step made.
    package private(set) var mostCalls = 0
    private var random: SimulationRandom
    /// Seeds the queues. Drawn on its own, so that a queue changes nothing before its first work.
    private var queues: SimulationRandom
    private var caught: [CaughtJob] = []
    private let none: SimulatedProcess
    private var isAttached = false

    package init(seed: UInt64) {
        kernel = SimulatedKernel(seed: seed, trace: trace)
        random = SimulationRandom(seed: seed, stream: 3)
        queues = SimulationRandom(seed: seed, stream: 23)
        none = kernel.current
    }

    /// The virtual time, in nanoseconds of `MonotonicClock`.
    package var now: Int64 { kernel.time }

    // MARK: Processes

    /// Starts a process on a new host, or on the host of a process that has ended.
    package func startProcess(_ name: String, host: UInt32? = nil) -> SimulatedProcess {
        let host = host ?? 0x0a00_0001 + UInt32(processes.count)
        let process = SimulatedProcess(name: name, host: host, nextPort: UInt16(32_768 + random.int(0...16_384)))
        processes.append(process)
        return process
    }

    /// Makes an event loop of a process.
    ///
    /// - Parameter hasEdges: whether its poller behaves like epoll(7); otherwise like poll(2).
    package func makeLoop(in process: SimulatedProcess, hasEdges: Bool = true) -> EventLoop {
        let poller = SimulatedPoller(kernel, hasEdges: hasEdges)
        let loop = run(in: process) {
            EventLoop(stepping: poller, names: SimulatedNames(self)) { [unowned self] _ in
                let queue = SimulatedQueue(self.kernel, process, seed: self.queues.next())
                process.queues.append(queue)
                return queue
            }
        }
        process.loops.append(SimulatedLoop(loop, poller))
        return loop
    }

    /// Runs `body` as part of `process`, for instance to start its tasks.
    package func run<Result>(in process: SimulatedProcess, _ body: () throws -> Result) rethrows -> Result {
        let former = kernel.current
        kernel.current = process
        defer { kernel.current = former }
        return try attached(body)
    }

    /// Ends a process at once. Work that one of its threads is blocked in is done or not.
    package func kill(_ process: SimulatedProcess, losesPower: Bool = false) {
        if !process.isDead { for queue in process.queues { queue.interrupt() } }
        kernel.kill(process, losesPower: losesPower)
    }

    // MARK: Time

    /// Waits for `nanoseconds` of virtual time.
    package nonisolated(nonsending) func pause(_ nanoseconds: Int64) async {
        await withUnsafeContinuation { (continuation: UnsafeContinuation<Void, Never>) in
            let process = kernel.current
            kernel.schedule(after: nanoseconds) { [kernel] in
                let former = kernel.current
                kernel.current = process
                continuation.resume()
                kernel.current = former
            }
        }
    }

    /// Calls `action` after `delay` nanoseconds of virtual time.
    package func after(_ delay: Int64, _ action: @escaping () -> Void) {
        kernel.schedule(after: delay, action)
    }

    // MARK: Running

    /// Runs until `condition` holds, nothing is left to do, or a limit is reached.
    package func run(until end: Int64, steps limit: Int, _ condition: () -> Bool = { false }) -> Stop {
        attached {
            while true {
                if condition() { return .met }
                if steps >= limit { return .stepsOver }
                kernel.runDue()
                if stepOne() { continue }
                guard let next = nextTime else { return .idle }
                guard next <= end else {
                    kernel.advance(to: end)
                    return .timeOver
                }
                kernel.advance(to: next)
            }
        }
    }

    private func attached<Result>(_ body: () throws -> Result) rethrows -> Result {
        // The body of a run may start processes and tasks itself.
        guard !isAttached else { return try body() }
        isAttached = true
        kernel.attach()
        csimulation_catch_jobs(
            { context, job, delay in
                guard let context, let job else { return }
                let world = Unmanaged<SimulatedWorld>.fromOpaque(context).takeUnretainedValue()
                world.catchJob(unsafeBitCast(job, to: UnownedJob.self), delay)
            },
            Unmanaged.passUnretained(self).toOpaque()
        )
        defer {
            isAttached = false
            csimulation_catch_jobs(nil, nil)
            kernel.detach()
        }
        return try body()
    }

    private func catchJob(_ job: UnownedJob, _ delay: UInt64) {
        let entry = CaughtJob(job: job, process: kernel.current)
        guard delay > 0 else { return caught.append(entry) }
        kernel.schedule(after: Int64(clamping: delay)) { [unowned self] in caught.append(entry) }
    }

    /// Runs one iteration of a loop or one job of the global executor, drawn from all that can run.
    private func stepOne() -> Bool {
        var runnable: [(loop: SimulatedLoop, process: SimulatedProcess)] = []
        for process in processes where process.pausedUntil <= kernel.time {
            for loop in process.loops where isRunnable(loop) { runnable.append((loop, process)) }
        }
        let jobs = caught.indices.filter { caught[$0].process.pausedUntil <= kernel.time }.prefix(8)
        guard !runnable.isEmpty || !jobs.isEmpty else { return false }
        let choice = random.int(0...runnable.count + jobs.count - 1)
        steps += 1
        let before = kernel.calls
        if choice < runnable.count {
            let (loop, process) = runnable[choice]
            kernel.current = process
            loop.iterations += 1
            trace.note(20, Int(process.host), choice, "\(clockText) \(process.name) iterates")
            loop.loop.step()
        } else {
            let entry = caught.remove(at: jobs[jobs.startIndex + choice - runnable.count])
            kernel.current = entry.process
            trace.note(21, Int(entry.process.host), choice, "\(clockText) \(entry.process.name) runs a task elsewhere")
            entry.job.runSynchronously(on: Self.anyThread)
        }
        kernel.current = none
        mostCalls = max(mostCalls, kernel.calls - before)
        return true
    }

    /// The executor that the runtime's own threads pass for jobs without a serial executor.
    private static let anyThread = unsafeBitCast((0, 0), to: UnownedSerialExecutor.self)

    private func isRunnable(_ loop: SimulatedLoop) -> Bool {
        loop.poller.isReady || loop.loop.nextStep.map { $0 <= kernel.time } ?? false
    }

    /// The time of the next step if none is possible now; `nil` if there is none.
    private var nextTime: Int64? {
        var next = kernel.nextEvent
        for process in processes {
            let isPaused = process.pausedUntil > kernel.time
            for loop in process.loops {
                guard let time = isPaused && isRunnable(loop) ? process.pausedUntil : loop.loop.nextStep else {
                    continue
                }
                next = min(next ?? .max, max(time, process.pausedUntil))
            }
            if isPaused, caught.contains(where: { $0.process === process }) {
                next = min(next ?? .max, process.pausedUntil)
            }
        }
        return next
    }

    private var clockText: String {
        let microseconds = (kernel.time - 1_000_000_000_000) / 1000
        return "\(microseconds / 1_000_000).\(String(microseconds % 1_000_000 + 1_000_000).dropFirst())"
    }
}

/// A simulated resolver: each process name is a host name, and a world can have further names.
final class SimulatedNames: NameService, @unchecked Sendable {
    // Unchecked, because only the simulating thread uses it.

    private unowned let world: SimulatedWorld

    init(_ world: SimulatedWorld) {
        self.world = world
    }

    func lookUp(
        _ host: String,
        port: UInt16,
        _ answer: @escaping @Sendable (Result<[SocketAddress], ConnectError>) -> Void
    ) {
        let process = world.processes.first { $0.name == host && !$0.isDead }
        let hosts = world.addresses[host] ?? process.map { [$0.hostName] } ?? []
        let addresses = hosts.compactMap { SocketAddress(numeric: $0, port: port) }
        world.after(world.kernel.drawPause()) {
            answer(addresses.isEmpty ? .failure(.nameNotFound("\(host): no such process")) : .success(addresses))
        }
    }
}
