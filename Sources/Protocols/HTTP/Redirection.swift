/// Where the peer says that a connection is to be had instead.
public struct Redirection: Sendable, Hashable {
    /// The number with which it said so: an HTTP status.
    public var status: Int
    /// A reference, to be understood from the URL that was asked for.
    public var location: String

    /// A redirection spelled out.
    public init(status: Int, location: String) {
        self.status = status
        self.location = location
    }
}
