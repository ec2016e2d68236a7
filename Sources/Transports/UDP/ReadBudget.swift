import Protocols
import SocketIO

/// How the time of a tick is parted while a shared socket is emptied, so that neither that nor serving waits for long.
///
/// What comes is taken by the batch. Who had nothing waiting is served between two batches, but for no longer than the
/// emptying has taken and one share: beyond that the kernel's queue would fill, which loses anybody's datagrams.
struct ReadBudget {
    /// For how long a socket is emptied in one tick, in nanoseconds, with what is served meanwhile.
    static let bound = 10 * EventLoop.timeBudget

    /// When the present stretch of emptying or of serving began.
    private var since: Int64
    private var emptied: Int64 = 0
    private var served: Int64 = 0

    /// Emptying begins.
    init(_ now: Int64) {
        since = now
    }

    /// A batch has been taken, and serving begins: gives the time at which it is to end.
    mutating func beginServing(_ now: Int64) -> Int64 {
        emptied += now - since
        since = now
        return now + min(Self.bound, max(0, emptied + EventLoop.timeBudget - served))
    }

    /// Emptying goes on.
    mutating func endServing(_ now: Int64) {
        served += now - since
        since = now
    }

    /// Whether the rest has to wait for the next tick.
    func isOver(_ now: Int64) -> Bool { emptied + served + now - since >= Self.bound }
}
