import Protocols
import SocketIO
import TransportAPI

/// The path monitor of the operating system.
///
/// Its path is only advice. It knows only paths to other machines. A supervisor with an endpoint on loopback
/// (`127.0.0.1`, `localhost`, `memory:`) must not use it, because loopback works without any network.
public enum SystemPathMonitor {
    /// Creates a monitor of this machine's network. On Linux it uses rtnetlink.
    ///
    /// - Throws: `.unsupported` on other systems, where an app can use a ``ManualPathMonitor``. Otherwise the system's
    ///   error, if there are no descriptors left or if a sandbox forbids rtnetlink.
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
