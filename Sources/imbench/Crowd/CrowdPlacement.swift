#if os(Linux)
import CSocketIO
#endif

/// Which cores the server, its honest clients and its hostile ones run on. They stand for machines of their own, and
/// what is asked is what hostile clients cost the server, not what their own work costs this machine. So the server has
/// a core for itself, and so have honest clients and hostile ones where there are three; where there are two, whoever
/// shares one with hostile clients goes first.
struct CrowdPlacement: Sendable {
    private let near: Int
    private let far: Int
    private let hostile: Int

    /// `nil` where there is one core only, or the system does not tell.
    static func apart() -> CrowdPlacement? {
        guard let cores = CoreMask.ofThisThread()?.cores, let ends = ThreadPlacement.apart() else { return nil }
        return CrowdPlacement(near: ends.near, far: ends.far, hostile: cores.count > 2 ? cores[1] : ends.near)
    }

    /// Places the calling thread, which is the server's. It goes before what else uses this machine (nice(2)), where
    /// the user may ask for that: under an attack it has more to do, and would be kept waiting by others more often.
    func placeServer() {
        CoreMask(only: far).applyToThisThread()
        #if os(Linux)
        _ = csocketio_set_favoured()
        #endif
    }

    /// Places the calling thread, which is that of honest clients. It comes before hostile ones in the moment in which
    /// it has something to do (SCHED_FIFO, sched(7)), where the user may ask for that; else when the scheduler thinks
    /// it fair, which may take milliseconds.
    func placeHonest() {
        CoreMask(only: near).applyToThisThread()
        #if os(Linux)
        _ = csocketio_set_first_priority()
        #endif
    }

    /// Places the calling thread, which is that of hostile clients: it runs when nobody else has anything to do there
    /// (SCHED_IDLE).
    func placeHostile() {
        CoreMask(only: hostile).applyToThisThread()
        #if os(Linux)
        _ = csocketio_set_idle_priority()
        #endif
    }
}
