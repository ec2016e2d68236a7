/// The state of the network between this machine and other machines.
public struct NetworkPath: Sendable, Hashable {
    /// Whether there is a network at all.
    public var isUsable: Bool
    /// The name of the network. The same network has the same name, so that intervals measured on it can be used again.
    /// Another name means that the addresses have changed. Empty if unknown.
    public var network: String

    /// Creates a path.
    public init(isUsable: Bool, network: String = "") {
        self.isUsable = isUsable
        self.network = network
    }
}

/// Monitors the network path. The supervisor calls ``watch(_:)`` once and keeps the result until it is closed.
public protocol PathMonitor: Sendable {
    /// Calls `onChange` with the current path and after each change, from any thread, until the result is released.
    func watch(_ onChange: @escaping @Sendable (NetworkPath) -> Void) -> any Sendable
}
