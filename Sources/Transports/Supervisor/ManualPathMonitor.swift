import Protocols
import TransportAPI

/// A path monitor whose path is set by the program: by a test, or by an app that knows the network from another source
/// (NWPathMonitor, ConnectivityManager).
public final class ManualPathMonitor: PathMonitor {
    private let watchers: PathWatchers

    /// Creates a monitor with this path. By default the network is usable and has no name.
    public init(_ path: NetworkPath = NetworkPath(isUsable: true)) {
        watchers = PathWatchers(path)
    }

    /// Notifies all watchers of `path`, unless it is the current path already. The watchers are notified before the
    /// call returns, unless another thread or the caller itself is notifying them of another path. Can be called from
    /// any thread.
    public func set(_ path: NetworkPath) {
        watchers.set(path)
    }

    /// Calls `onChange` with the current path before it returns, and with each path that is set later, until the result
    /// is released.
    public func watch(_ onChange: @escaping @Sendable (NetworkPath) -> Void) -> any Sendable {
        watchers.watch(keeping: nil, onChange)
    }
}
