/// What is known of the network between this machine and all others.
public struct NetworkPath: Sendable, Hashable {
    /// Whether there is a network at all.
    public var isUsable: Bool
    /// Names the network, so that what was learned on it can be used on it again: the same network gives the same name, and
    /// another name means that the addresses have changed. Empty if unknown.
    public var network: String

    /// A path.
    public init(isUsable: Bool, network: String = "") {
        self.isUsable = isUsable
        self.network = network
    }
}

/// Watches the network path. The supervisor asks for the paths once and follows them until it is closed.
public protocol PathMonitor: Sendable {
    /// Calls `onChange` with the present path and whenever it has changed, from any thread, until the result is let go.
    func watch(_ onChange: @escaping @Sendable (NetworkPath) -> Void) -> any Sendable
}
