import CSocketIO
import CommandSupport
import Foundation
import Synchronization

/// Keeps the cores from sleeping while code is compared. One thread spins on each core that this process may use. It has idle
/// priority (SCHED_IDLE, sched(7)), so any thread with work preempts it at once.
package final class AwakeSpinners: Sendable {
    private final class Shared: Sendable {
        let mustStop = Atomic<Bool>(false)
        let ready = Atomic<Int>(0)
        /// The first error number, or 0.
        let failure = Atomic<Int32>(0)
    }

    private let shared = Shared()
    private let threads: [WorkerThread]

    /// How many cores are kept awake.
    package var cores: Int { threads.count }

    /// Starts the threads, and returns when all of them spin.
    ///
    /// - Throws: if the system refuses. No thread is then left running.
    package init() throws(SystemFailure) {
        #if os(Linux)
        let cores = CoreMask.ofThisThread()?.cores ?? []
        guard !cores.isEmpty else { throw SystemFailure("cannot keep the cores awake: the system does not list them") }
        var started: [WorkerThread] = []
        do throws(SystemFailure) {
            for core in cores { started.append(try WorkerThread { [shared] in Self.spin(on: core, shared) }) }
        } catch {
            shared.mustStop.store(true, ordering: .relaxed)
            for thread in started { thread.join() }
            throw error
        }
        threads = started
        while shared.ready.load(ordering: .acquiring) < cores.count { sched_yield() }
        let failure = shared.failure.load(ordering: .relaxed)
        guard failure == 0 else {
            stop()
            throw SystemFailure("cannot keep the cores awake", errno: failure)
        }
        #else
        threads = []
        throw SystemFailure("cannot keep the cores awake: this system has no idle priority for threads")
        #endif
    }

    deinit { stop() }

    /// Ends the threads and waits for them. Does nothing the second time.
    package func stop() {
        guard !shared.mustStop.exchange(true, ordering: .relaxed) else { return }
        for thread in threads { thread.join() }
    }

    #if os(Linux)
    private static func spin(on core: Int, _ shared: Shared) {
        let isSet = CoreMask(only: core).applyToThisThread() && csocketio_set_idle_priority() == 0
        if !isSet { shared.failure.store(errno, ordering: .relaxed) }
        shared.ready.add(1, ordering: .releasing)
        // A thread of normal priority must never spin, because it would slow down the measurement.
        guard isSet else { return }
        while !shared.mustStop.load(ordering: .relaxed) {}
    }
    #endif
}
