import TransportAPI

/// One field of an HTTP head: a name and a value (RFC 9110, section 5).
public struct HTTPHeader: Sendable, Hashable {
    /// The name; its case means nothing.
    public let name: String
    /// The value, without white space around it.
    public let value: String

    /// What was read from a head, and so is known to be well-formed.
    init(parsed name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}

/// The head of an HTTP/1.1 message: its first line and its fields, in their order.
package struct HTTPHead: Sendable, Hashable {
    package var startLine: String
    package var headers: [HTTPHeader]
}

extension ByteBuffer {
    /// Appends a line of a head.
    mutating func append(header name: String, _ value: String) {
        append(utf8: name)
        append(utf8: ": ")
        append(utf8: value)
        append(utf8: "\r\n")
    }
}

/// What is wrong with a head.
package enum HTTPHeadError: Error, Sendable, Hashable {
    /// More bytes, or more fields, than allowed.
    case tooLarge
    /// Against the grammar.
    case malformed(String)
}

/// Reads the head of an HTTP/1.1 message (RFC 9112, sections 2 to 5), strictly: lines end in CRLF and nothing else, no folded
/// lines, no control characters, no space before a colon. Lenience here is what request smuggling lives on.
package struct HTTPHeadReader: Sendable, Hashable {
    /// What may still come: interim heads count too.
    private var maximumBytes: Int
    private let maximumCount: Int
    private let skipsEmptyLines: Bool
    /// How much of the input is known not to hold the end of the head.
    private var scanned = 0

    /// A reader of heads of at most `maximumBytes` altogether, their empty lines included, and `maximumCount` fields each.
    ///
    /// - Parameter skipsEmptyLines: whether empty lines in front of a head are skipped, as a server does in front of a request
    ///   (RFC 9112, section 2.2); otherwise they are refused.
    package init(maximumBytes: Int, maximumCount: Int = 100, skipsEmptyLines: Bool = false) {
        self.skipsEmptyLines = skipsEmptyLines
        self.maximumBytes = maximumBytes
        self.maximumCount = maximumCount
    }

    /// Takes a head off the input; `nil` if it has not arrived whole.
    package mutating func next(_ input: inout ByteBuffer) throws(HTTPHeadError) -> HTTPHead? {
        if skipsEmptyLines { skipEmptyLines(&input) }
        guard let end = try findEnd(input) else { return nil }
        let head = try input.withUnsafeReadableBytes { bytes throws(HTTPHeadError) in
            try parse(UnsafeRawBufferPointer(rebasing: bytes[..<end]))
        }
        input.consume(end)
        maximumBytes -= end
        scanned = 0
        return head
    }

    private mutating func skipEmptyLines(_ input: inout ByteBuffer) {
        while input.withUnsafeReadableBytes({ $0.starts(with: "\r\n".utf8) }), maximumBytes > 0 {
            input.consume(2)
            maximumBytes -= 2
            scanned = 0
        }
    }

    /// Looks for the empty line, each byte once, and refuses what no head may hold as soon as it comes.
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

    /// Reads a whole head, whose lines are known to end in CRLF.
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
                throw .malformed("a header has no proper name")
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
