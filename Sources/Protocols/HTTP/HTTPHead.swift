import TransportAPI

/// A field of an HTTP head: a name and a value (RFC 9110, section 5).
public struct HTTPHeader: Sendable, Hashable {
    /// The name. Its case has no meaning.
    public let name: String
    /// The value, without surrounding white space. It is never printed, because it may be a secret.
    @Secret public private(set) var value: String

    /// Creates a header that is known to be well-formed: it was read from a head, or is a constant.
    package init(parsed name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}

/// The head of an HTTP/1.1 message: its first line and its fields, in their order.
package struct HTTPHead: Sendable, Hashable {
    /// The request line or the status line, without its line end.
    package var startLine: String
    /// The fields, in their order.
    package var headers: [HTTPHeader]
}

extension ByteBuffer {
    /// Appends the Date header, which a server with a clock must send (RFC 9110, section 6.6.1); nothing without a time.
    mutating func append(date unixTime: Int64?) {
        if let unixTime { append(header: "Date", HTTPDate.text(unixTime)) }
    }

    /// Appends a line of a head.
    mutating func append(header name: String, _ value: String) {
        append(utf8: name)
        append(utf8: ": ")
        append(utf8: value)
        append(utf8: "\r\n")
    }
}

/// The reason why a head is refused.
package enum HTTPHeadError: Error, Sendable, Hashable {
    /// The head has more bytes or more fields than allowed.
    case tooLarge
    /// The head violates the grammar. The text says how.
    case malformed(String)
}

/// Reads the head of an HTTP/1.1 message (RFC 9112, sections 2 to 5), more strictly than required. It accepts only CRLF as
/// the end of a line, though a reader may accept a single LF (section 2.2), and no folded lines, though a client should
/// read them as one (section 5.2). It accepts no control characters and no space before a colon. Lenient readers make
/// request smuggling possible.
package struct HTTPHeadReader: Sendable, Hashable {
    /// The bytes that may still arrive. Interim heads count too.
    private var maximumBytes: Int
    private let maximumCount: Int
    private let skipsEmptyLines: Bool
    /// The number of bytes at the front of the input that are known not to hold the end of the head.
    private var scanned = 0

    /// Creates a reader.
    ///
    /// - Parameters:
    ///   - maximumBytes: the limit for all heads together, their empty lines included.
    ///   - maximumCount: the limit for the fields of each head.
    ///   - skipsEmptyLines: whether empty lines in front of a head are skipped, as a server does in front of a
    ///     request (RFC 9112, section 2.2). Otherwise they are refused.
    package init(maximumBytes: Int, maximumCount: Int = 100, skipsEmptyLines: Bool = false) {
        self.skipsEmptyLines = skipsEmptyLines
        self.maximumBytes = maximumBytes
        self.maximumCount = maximumCount
    }

    /// Consumes one head from the input and returns it. Returns `nil` if it has not arrived completely.
    package mutating func next(_ input: inout ByteBuffer) throws(HTTPHeadError) -> HTTPHead? {
        guard let found = try find(&input) else { return nil }
        consume(found, &input)
        return found.head
    }

    /// A head that is still in the input.
    struct Found: Sendable, Hashable {
        var head: HTTPHead
        fileprivate var length: Int
    }

    /// Returns the next head without consuming it. Returns `nil` if it has not arrived completely. Empty lines in front are
    /// consumed, if they are skipped.
    mutating func find(_ input: inout ByteBuffer) throws(HTTPHeadError) -> Found? {
        if skipsEmptyLines { skipEmptyLines(&input) }
        guard let end = try findEnd(input) else { return nil }
        let head = try input.withUnsafeReadableBytes { bytes throws(HTTPHeadError) in
            try parse(UnsafeRawBufferPointer(rebasing: bytes[..<end]))
        }
        return Found(head: head, length: end)
    }

    /// Consumes the head that ``find(_:)`` has returned just before.
    mutating func consume(_ found: Found, _ input: inout ByteBuffer) {
        input.consume(found.length)
        maximumBytes -= found.length
        scanned = 0
    }

    private mutating func skipEmptyLines(_ input: inout ByteBuffer) {
        while input.withUnsafeReadableBytes({ $0.starts(with: "\r\n".utf8) }), maximumBytes > 0 {
            input.consume(2)
            maximumBytes -= 2
            scanned = 0
        }
    }

    /// Searches for the empty line, reading each byte once. Refuses forbidden bytes as soon as they arrive.
    private mutating func findEnd(_ input: borrowing ByteBuffer) throws(HTTPHeadError) -> Int? {
        let start = scanned
        let limit = min(input.count, maximumBytes)
        let end = try input.withUnsafeReadableBytes { bytes throws(HTTPHeadError) -> Int? in
            for index in start..<max(limit, start) {
                let byte = bytes[index]
                let follows = index > 0 && bytes[index - 1] == UInt8(ascii: "\r")
                guard follows == (byte == UInt8(ascii: "\n")) else {
                    throw .malformed("a line does not end in CRLF")
                }
                if follows, index == 1 { throw .malformed("the first line is empty") }
                if follows, bytes[index - 2] == UInt8(ascii: "\n") { return index + 1 }
                guard byte >= 0x20 || byte == 0x09 || byte == 0x0a || byte == 0x0d, byte != 0x7f else {
                    throw .malformed("there is a control character")
                }
            }
            return nil
        }
        if end == nil, input.count >= maximumBytes { throw .tooLarge }
        scanned = limit
        return end
    }

    /// Parses a complete head, whose lines all end in CRLF.
    private func parse(_ bytes: UnsafeRawBufferPointer) throws(HTTPHeadError) -> HTTPHead {
        guard let first = bytes.firstIndex(of: UInt8(ascii: "\r")), first > 0 else {
            throw .malformed("the first line is empty")
        }
        var head = HTTPHead(startLine: text(bytes[..<first]), headers: [])
        var start = first + 2
        while start < bytes.count, let end = bytes[start...].firstIndex(of: UInt8(ascii: "\r")), end > start {
            let line = bytes[start..<end]
            start = end + 2
            guard head.headers.count < maximumCount else { throw .tooLarge }
            guard line.first != 0x20, line.first != 0x09 else { throw .malformed("a line is folded") }
            guard let colon = line.firstIndex(of: UInt8(ascii: ":")), HTTPSyntax.isToken(line[..<colon]) else {
                throw .malformed("a header has no valid name")
            }
            let value = HTTPSyntax.trim(line[(colon + 1)...])
            head.headers.append(HTTPHeader(parsed: text(line[..<colon]), text(value)))
        }
        return head
    }

    private func text(_ bytes: Slice<UnsafeRawBufferPointer>) -> String {
        String(decoding: UnsafeRawBufferPointer(rebasing: bytes), as: UTF8.self)
    }
}
