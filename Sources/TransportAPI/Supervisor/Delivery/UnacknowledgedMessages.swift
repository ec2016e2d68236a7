import Primitives

/// The messages that an app was given to acknowledge and has not acknowledged.
public struct UnacknowledgedMessages: Sendable, Hashable {
    /// The number of messages. It includes those that were acknowledged while an earlier one was not.
    public var count: Int
    /// How long the app has had the oldest of them.
    public var oldest: Duration
    /// Whether the app has released the oldest message without acknowledging it. The next connection brings it again.
    /// Until then no later message is acknowledged to the peer.
    public var isAbandoned: Bool
}
