#if os(Linux)
import CSocketIO
#endif

/// Which cores the server, its honest clients and its hostile ones run on. They stand for machines of their own, and what is asked
/// is what hostile clients cost the server, not what their own work costs this machine. So the server has a core for itself, and
/// whoever shares the other one with hostile clients goes first.
struct CrowdPlacement: Sendable {
    private let near: Int
    private let far: Int

    /// `nil` where there is one core only, or the system does not tell.
    static let apart = ThreadPlacement.apart().map { CrowdPlacement(near: $0.near, far: $0.far) }

    /// Places the calling thread, which is the server's.
    func placeServer() {
        CoreMask(only: far).applyToThisThread()
    }

    /// Places the calling thread, which is that of honest clients. It comes before hostile ones in the moment in which it has
    /// something to do (SCHED_FIFO, sched(7)), where the user may ask for that; else when the scheduler thinks it fair, which may
    /// take milliseconds.
    func placeHonest() {
        CoreMask(only: near).applyToThisThread()
        #if os(Linux)
        _ = csocketio_set_first_priority()
        #endif
    }

    /// Places the calling thread, which is that of hostile clients: it runs where nobody else has anything to do (SCHED_IDLE).
    func placeHostile() {
        CoreMask(only: near).applyToThisThread()
        #if os(Linux)
        _ = csocketio_set_idle_priority()
        #endif
    }
}
