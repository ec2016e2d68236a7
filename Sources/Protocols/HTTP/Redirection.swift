/// The address to connect to instead, as the peer has sent it.
package struct Redirection: Sendable, Hashable {
    /// The HTTP status of the peer's answer.
    package var status: Int
    /// A URI reference, to be resolved against the URL of the request.
    package var location: String

    /// Creates a redirection from its parts.
    package init(status: Int, location: String) {
        self.status = status
        self.location = location
    }
}
