import Protocols
import SocketIO
import TransportAPI

/// An event loop is what a supervisor lives on, together with its connections.
extension EventLoop: SupervisorRuntime {
    /// Where tasks run: here.
    package var taskExecutor: any TaskExecutor { self }
    /// The time at which the present turn began.
    package var clock: Instant { Instant(nanoseconds: now) }

    /// Calls `action` on the loop at `deadline`.
    package func schedule(at deadline: Instant, _ action: @escaping () -> Void) -> UInt64 {
        schedule(at: deadline.nanoseconds, action)
    }

    /// The system's cryptographic source.
    package func makeRandomSource() -> RandomSource {
        .system()
    }
}
