import Primitives
import Protocols
import SocketIO
import TransportAPI

/// An event loop is the runtime of supervisors and of their connections.
extension EventLoop: SupervisorRuntime {
    /// The executor of tasks, which is the loop itself.
    package var taskExecutor: any TaskExecutor { self }
    /// The time at which the current tick began.
    package var clock: Instant { Instant(nanoseconds: now) }

    /// Calls `action` on the loop at `deadline`.
    package func schedule(at deadline: Instant, _ action: @escaping () -> Void) -> UInt64 {
        schedule(at: deadline.nanoseconds, action)
    }

    /// Forgets the addresses that have failed in the former network.
    package func networkChanged() {
        failedAddresses.removeAll()
        networkChanges += 1
    }

    /// Returns a source of the system's cryptographic random numbers.
    package func makeRandomSource() -> RandomSource {
        .system()
    }

    /// Makes a queue with a thread of its own, unless the loop has other ones.
    package func makeBlockingQueue(_ name: String) throws(TransportError) -> any BlockingQueue {
        if let queues { return queues(name) }
        do throws(SystemError) {
            return try BlockingThread(name)
        } catch {
            throw TransportError(error, .configure)
        }
    }

    /// Returns the queue for files, which the first call makes.
    package func fileQueue() throws(TransportError) -> any BlockingQueue {
        if let files { return files }
        let queue = try makeBlockingQueue("files")
        files = queue
        return queue
    }
}
