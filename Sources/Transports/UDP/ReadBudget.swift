import Protocols
import SocketIO

/// Divides the time of a tick between emptying a shared socket and serving its sessions, so that neither waits long.
///
/// Datagrams are received in batches. A session that had nothing waiting is served between two batches, for no longer
/// than the emptying has taken plus one time budget. Otherwise the kernel's queue would fill and lose datagrams of all
/// sessions.
package struct ReadBudget {
    /// The maximum time for which a socket is emptied in one tick, in nanoseconds. It includes the serving between
    /// batches.
    static let bound = 10 * EventLoop.timeBudget

    /// The start of the current period of emptying or serving.
    private var since: Int64
    private var emptied: Int64 = 0
    private var served: Int64 = 0

    /// Starts a period of emptying.
    package init(_ now: Int64) {
        since = now
    }

    /// Starts a period of serving after a batch was received. Returns the time at which it must end.
    mutating func beginServing(_ now: Int64) -> Int64 {
        emptied += now - since
        since = now
        return now + min(Self.bound, max(0, emptied + EventLoop.timeBudget - served))
    }

    /// Ends a period of serving. Emptying continues.
    mutating func endServing(_ now: Int64) {
        served += now - since
        since = now
    }

    /// Returns whether the rest must wait for the next tick.
    package func isOver(_ now: Int64) -> Bool { emptied + served + now - since >= Self.bound }
}
