import CSocketIO
import Measuring

/// The cores of the server, of its honest clients and of its hostile ones. In production they are separate machines. The
/// measurement is about the cost of hostile clients for the server, not for this machine. So the server has its own core.
/// Honest and hostile clients have their own cores where there are three. On two cores they share one, and honest clients
/// have priority.
struct CrowdPlacement: Sendable {
    private let near: Int
    private let far: Int
    private let hostile: Int

    /// `nil` if there is only one core, or the system does not provide the cores.
    static func apart() -> CrowdPlacement? {
        guard let cores = CoreMask.ofThisThread()?.cores, let ends = ThreadPlacement.apart() else { return nil }
        return CrowdPlacement(near: ends.near, far: ends.far, hostile: cores.count > 2 ? cores[1] : ends.near)
    }

    /// Places the calling thread, which is the server's. If the user may set it, the thread has priority over other programs
    /// (nice(2)). Otherwise it would wait for them more often during an attack, when it has more work.
    func placeServer() {
        CoreMask(only: far).applyToThisThread()
        #if os(Linux)
        _ = csocketio_set_favoured()
        #endif
    }

    /// Places the calling thread, which is that of honest clients. It preempts hostile ones at once (SCHED_FIFO, sched(7)),
    /// if the user may set that. Otherwise the scheduler may take milliseconds.
    func placeHonest() {
        CoreMask(only: near).applyToThisThread()
        #if os(Linux)
        _ = csocketio_set_first_priority()
        #endif
    }

    /// Places the calling thread, which is that of hostile clients. It runs while its core is otherwise idle (SCHED_IDLE),
    /// unless its clients connect at a fixed rate, for which they need little time and must have it.
    func placeHostile(isPaced: Bool) {
        CoreMask(only: hostile).applyToThisThread()
        guard !isPaced else { return }
        #if os(Linux)
        _ = csocketio_set_idle_priority()
        #endif
    }
}
