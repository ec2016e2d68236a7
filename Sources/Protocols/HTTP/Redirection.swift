/// Where the peer says that a connection is to be had instead.
package struct Redirection: Sendable, Hashable {
    /// The number with which it said so: an HTTP status.
    package var status: Int
    /// A reference, to be understood from the URL that was asked for.
    package var location: String

    /// A redirection spelled out.
    package init(status: Int, location: String) {
        self.status = status
        self.location = location
    }
}
