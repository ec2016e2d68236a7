/// Reads the response to one request at a client (RFC 9112, sections 4 to 7). It is a value, and reads one response.
package struct HTTPResponseReader: Sendable {
    /// A part of a response.
    package enum Event: Sendable, Hashable {
        /// The head of the final response, and its status.
        case head(HTTPHead, status: Int)
        /// Bytes of the body, as they have arrived; at least one.
        case body([UInt8])
        /// The response is complete.
        case end
    }

    private enum State: Sendable {
        case head
        case body(HTTPBodyReader)
        case ended
    }

    private var heads: HTTPHeadReader
    private let maximumTrailerBytes: Int
    private var state = State.head
    private var isPersistent = false

    /// Creates a reader for the response to a request whose method is not HEAD or CONNECT.
    ///
    /// - Parameters:
    ///   - maximumHeaderBytes: the limit for all heads together, interim ones included, and for the trailers.
    ///   - maximumHeaderCount: the limit for the headers of each head.
    package init(maximumHeaderBytes: Int = 16 << 10, maximumHeaderCount: Int = 100) {
        heads = HTTPHeadReader(maximumBytes: maximumHeaderBytes, maximumCount: maximumHeaderCount)
        maximumTrailerBytes = maximumHeaderBytes
    }

    /// Whether the response is complete and the connection can be used for another request. Bytes in the input after the
    /// response have no request, so the caller must then close the connection.
    package var isReusable: Bool {
        if case .ended = state { isPersistent } else { false }
    }

    /// Consumes the next part of the response. Returns `nil` if it has not arrived, and after the end.
    package mutating func next(_ input: inout ByteBuffer) throws(HTTPMessageError) -> Event? {
        nil
    }

    /// Handles the end of the connection.
    ///
    /// - Returns: `.end` if the end of the connection ends the body; `nil` if the response was complete before.
    /// - Throws: `.incomplete` if a part of the response is missing.
    package mutating func inputEnded() throws(HTTPMessageError) -> Event? {
        nil
    }
}
