import Protocols
import SocketIO
import TransportAPI

/// The path monitor of the operating system.
///
/// What it says is advice. It knows of the way to other machines only: a supervisor whose endpoint is on loopback
/// (`127.0.0.1`, `localhost`, `memory:`) must not use it, since loopback works without any network.
public enum SystemPathMonitor {
    /// A monitor that follows the network of this machine, on Linux by rtnetlink.
    ///
    /// - Throws: `unsupported` on other systems, where a ``ManualPathMonitor`` can be fed by the app; otherwise what keeps
    ///   this process from asking the system (no descriptors left, a sandbox).
    public static func make(on loop: EventLoop = .shared) throws(TransportError) -> any PathMonitor {
        #if os(Linux)
        do {
            return try NetlinkPathMonitor(on: loop)
        } catch {
            throw TransportError(error, .configure)
        }
        #else
        throw TransportError(
            .unsupported,
            .configure,
            "there is no path monitor for this system; use ManualPathMonitor"
        )
        #endif
    }
}
