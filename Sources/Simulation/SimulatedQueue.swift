import Primitives

/// A thread of a process for work that may block. Each piece of work takes a drawn time, and happens at its end.
final class SimulatedQueue: BlockingQueue, @unchecked Sendable {
    // Unchecked, because only the simulating thread uses it.

    private unowned let kernel: SimulatedKernel
    private unowned let process: SimulatedProcess
    private var random: SimulationRandom
    private var waiting = Deque<@Sendable () -> Void>()
    /// The piece in progress.
    private var current: (@Sendable () -> Void)?

    init(_ kernel: SimulatedKernel, _ process: SimulatedProcess, seed: UInt64) {
        (self.kernel, self.process) = (kernel, process)
        random = SimulationRandom(seed: seed)
    }

    func run(_ work: @escaping @Sendable () -> Void) {
        waiting.append(work)
        if current == nil { begin() }
    }

    /// The process is about to be killed. Half of the pieces in progress happen before that.
    func interrupt() {
        if current != nil, random.chance(50) { finish() }
    }

    private func begin() {
        guard let next = waiting.popFirst() else { return }
        current = next
        kernel.schedule(after: Int64(random.magnitude(10_000...100_000_000))) { [self] in end() }
    }

    private func end() {
        // A stopped process continues later.
        guard process.pausedUntil <= kernel.time else {
            return kernel.schedule(after: process.pausedUntil - kernel.time) { [self] in end() }
        }
        finish()
        begin()
    }

    private func finish() {
        let former = kernel.current
        kernel.current = process
        current.take()?()
        kernel.current = former
    }
}
