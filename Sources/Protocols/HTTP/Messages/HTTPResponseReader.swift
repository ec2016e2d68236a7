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
        /// The body is complete, but its end was not reported.
        case complete
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

    /// Consumes the next part of the response. Interim responses are skipped. Returns `nil` if the part has not arrived, and
    /// after the end.
    package mutating func next(_ input: inout ByteBuffer) throws(HTTPMessageError) -> Event? {
        switch state {
        case .head: return try readHead(&input)
        case .body(var reader):
            var body: [UInt8] = []
            let isComplete = try reader.read(&input, into: &body)
            state = isComplete ? .complete : .body(reader)
            if !body.isEmpty { return .body(body) }
            return isComplete ? end() : nil
        case .complete: return end()
        case .ended: return nil
        }
    }

    private mutating func readHead(_ input: inout ByteBuffer) throws(HTTPMessageError) -> Event? {
        while let head = try nextHead(&input) {
            guard let status = HTTPSyntax.status(head.startLine, atLeast: 0) else {
                throw .malformed("the status line is '\(String(excerptOf: head.startLine.utf8))'")
            }
            guard status != 101 else { throw .malformed("the server switches to a protocol that was not requested") }
            guard status >= 200 else { continue }
            let isOld = head.startLine.utf8.starts(with: "HTTP/1.0".utf8)
            let framing = try HTTPBodyFraming(response: head.headers, status: status, isOld: isOld)
            isPersistent = !isOld && framing != .untilEnd && head.headers.list("Connection", count: "close") == 0
            state = .body(try HTTPBodyReader(framing, maximumBody: .max, maximumTrailers: maximumTrailerBytes))
            return .head(head, status: status)
        }
        return nil
    }

    private mutating func nextHead(_ input: inout ByteBuffer) throws(HTTPMessageError) -> HTTPHead? {
        do throws(HTTPHeadError) {
            return try heads.next(&input)
        } catch {
            throw HTTPMessageError(error)
        }
    }

    private mutating func end() -> Event {
        state = .ended
        return .end
    }

    /// Handles the end of the connection, after ``next(_:)`` has returned `nil`.
    ///
    /// - Returns: `.end` if the end of the connection ends the body; `nil` if the response was complete before.
    /// - Throws: `.incomplete` if a part of the response is missing.
    package mutating func inputEnded() throws(HTTPMessageError) -> Event? {
        switch state {
        case .body(let reader) where reader.endsWithConnection: return end()
        case .head, .body: throw .incomplete
        case .complete: return end()
        case .ended: return nil
        }
    }
}
