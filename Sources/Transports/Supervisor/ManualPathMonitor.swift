import Protocols
import TransportAPI

/// A path monitor that is told of the network by the program: by a test, or by an app that knows it from elsewhere
/// (NWPathMonitor, ConnectivityManager).
public final class ManualPathMonitor: PathMonitor {
    private let watchers: PathWatchers

    /// A monitor whose network is `path` for now. Default: a usable one without a name.
    public init(_ path: NetworkPath = NetworkPath(isUsable: true)) {
        watchers = PathWatchers(path)
    }

    /// Tells all watchers of `path`, before it returns unless another thread or the caller itself is about to tell them of
    /// another one. Nothing happens if the path is the same. From any thread.
    public func set(_ path: NetworkPath) {
        watchers.set(path)
    }

    /// Calls `onChange` with the present path before it returns, and whenever another one was set.
    public func watch(_ onChange: @escaping @Sendable (NetworkPath) -> Void) -> any Sendable {
        watchers.watch(keeping: nil, onChange)
    }
}
