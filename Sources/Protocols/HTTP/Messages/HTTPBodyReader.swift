/// Reads the body of a message as it arrives (RFC 9112, sections 6 and 7). Extensions of chunks and trailers are checked and
/// ignored.
struct HTTPBodyReader: Sendable, Hashable {
    private enum State: Sendable, Hashable {
        /// This many bytes are missing; of the chunk, if the body has chunks.
        case data(Int)
        /// The line end after the data of a chunk is missing.
        case endOfChunk
        /// The line with the length of a chunk is missing.
        case chunkLine
        /// A line of the trailers, or the empty line after them, is missing.
        case trailer
        case untilEnd
        case ended
    }

    /// How many bytes of extensions a body may have beyond the number of its bytes.
    private static let maximumExtensions = 4 << 10
    /// How many hexadecimal digits the length of a chunk may have.
    private static let maximumDigits = 16

    private let isChunked: Bool
    private var state: State
    /// How many bytes may still be announced.
    private var room: Int
    /// How many bytes of trailers may still arrive, line ends included.
    private var trailerRoom: Int
    /// How many bytes of extensions came beyond the number of bytes of the body.
    private var extensions = 0
    /// How many bytes of the current line are known not to hold its end.
    private var scanned = 0

    /// Creates a reader.
    ///
    /// - Parameters:
    ///   - maximumBody: the limit of the body in bytes.
    ///   - maximumTrailers: the limit of all trailers in bytes, their line ends included.
    /// - Throws: `.bodyTooLarge` if a larger body is announced.
    init(_ framing: HTTPBodyFraming, maximumBody: Int, maximumTrailers: Int) throws(HTTPMessageError) {
        room = maximumBody
        trailerRoom = maximumTrailers
        isChunked = framing == .chunked
        switch framing {
        case .length(let length):
            guard length <= room else { throw .bodyTooLarge }
            state = length == 0 ? .ended : .data(length)
        case .chunked: state = .chunkLine
        case .untilEnd: state = .untilEnd
        }
    }

    /// Whether the end of the connection ends the body.
    var endsWithConnection: Bool { state == .untilEnd }

    /// Moves the bytes of the body that have arrived from the input to `body`. Returns whether the body is complete.
    mutating func read(_ input: inout ByteBuffer, into body: inout [UInt8]) throws(HTTPMessageError) -> Bool {
        while state != .ended {
            switch state {
            case .data(let missing):
                let count = move(missing, &input, &body, following: isChunked ? room : 0)
                guard count == missing else {
                    state = .data(missing - count)
                    return false
                }
                state = isChunked ? .endOfChunk : .ended
            case .endOfChunk:
                guard try readEndOfChunk(&input) else { return false }
                state = .chunkLine
            case .chunkLine:
                guard let length = try readChunkLine(&input) else { return false }
                state = length == 0 ? .trailer : .data(length)
            case .trailer:
                guard let isLast = try readTrailer(&input) else { return false }
                if isLast { state = .ended }
            case .untilEnd:
                let count = move(room, &input, &body, following: 0)
                room -= count
                guard input.isEmpty else { throw .bodyTooLarge }
                return false
            case .ended: break
            }
        }
        return true
    }

    /// Moves at most `most` bytes. At most `following` more can follow those.
    private func move(_ most: Int, _ input: inout ByteBuffer, _ body: inout [UInt8], following: Int) -> Int {
        let count = min(most, input.count)
        // An array doubles its memory, also for the last bytes. No body takes more than its largest size.
        if body.capacity - body.count < count {
            body.reserveCapacity(min(max(body.count + count, 2 * body.capacity), body.count + most + following))
        }
        input.withUnsafeReadableBytes { body.append(contentsOf: UnsafeRawBufferPointer(rebasing: $0[..<count])) }
        input.consume(count)
        return count
    }

    private func readEndOfChunk(_ input: inout ByteBuffer) throws(HTTPMessageError) -> Bool {
        let (first, second) = (input.byte(at: 0), input.byte(at: 1))
        guard first ?? 0x0d == 0x0d, second ?? 0x0a == 0x0a else {
            throw .malformed("the data of a chunk does not end in CRLF")
        }
        guard second != nil else { return false }
        input.consume(2)
        return true
    }

    /// Reads the length of a chunk and its extensions (section 7.1). Returns `nil` if the line is not complete.
    private mutating func readChunkLine(_ input: inout ByteBuffer) throws(HTTPMessageError) -> Int? {
        let longest = Self.maximumDigits + Self.maximumExtensions + 2
        let found = try findLine(input, longest, "the extensions of a chunk are too long")
        guard let line = found else { return nil }
        let (length, digits) = try input.withUnsafeReadableBytes { bytes throws(HTTPMessageError) in
            try Self.parseChunkLine(bytes[..<line])
        }
        input.consume(line + 2)
        guard length <= room else { throw .bodyTooLarge }
        room -= length
        extensions = max(0, extensions + line - digits - length)
        guard extensions <= Self.maximumExtensions else { throw .malformed("the extensions of chunks are too long") }
        return length
    }

    /// Returns the length, and how many digits it has.
    private static func parseChunkLine(
        _ line: Slice<UnsafeRawBufferPointer>
    ) throws(HTTPMessageError) -> (length: Int, digits: Int) {
        var length = 0
        var digits = 0
        for byte in line {
            guard let digit = FormQuery.hexadecimal(byte) else { break }
            digits += 1
            guard digits <= maximumDigits, length <= Int.max >> 4 else {
                throw .malformed("the length of a chunk is too large")
            }
            length = length << 4 | Int(digit)
        }
        guard digits > 0 else { throw .malformed("a chunk has no length") }
        let rest = line.dropFirst(digits)
        guard rest.isEmpty || HTTPSyntax.trim(rest).first == UInt8(ascii: ";") else {
            throw .malformed("the length of a chunk is malformed")
        }
        return (length, digits)
    }

    /// Reads a line of the trailers (section 7.1.2). Returns whether it is the empty one after them, and `nil` if it is not
    /// complete.
    private mutating func readTrailer(_ input: inout ByteBuffer) throws(HTTPMessageError) -> Bool? {
        guard let line = try findLine(input, trailerRoom, "the trailers are too long") else { return nil }
        let isValid = input.withUnsafeReadableBytes { bytes in
            bytes[..<line].firstIndex(of: UInt8(ascii: ":")).map { HTTPSyntax.isToken(bytes[..<$0]) } ?? (line == 0)
        }
        guard isValid else { throw .malformed("a trailer has no valid name") }
        input.consume(line + 2)
        trailerRoom -= line + 2
        return line == 0
    }

    /// Searches for the CRLF of a line, reading each byte once. Returns the length of the line, and `nil` if its end has not
    /// arrived.
    ///
    /// - Parameter most: the longest line in bytes, with its end.
    private mutating func findLine(
        _ input: borrowing ByteBuffer,
        _ most: Int,
        _ tooLong: String
    ) throws(HTTPMessageError) -> Int? {
        let (start, end) = (scanned, min(input.count, most))
        let found = try input.withUnsafeReadableBytes { bytes throws(HTTPMessageError) -> Int? in
            for index in start..<max(start, end) {
                let byte = bytes[index]
                let follows = index > 0 && bytes[index - 1] == UInt8(ascii: "\r")
                guard follows == (byte == UInt8(ascii: "\n")) else { throw .malformed("a line does not end in CRLF") }
                if follows { return index - 1 }
                guard byte >= 0x20 || byte == 0x09 || byte == 0x0d, byte != 0x7f else {
                    throw .malformed("there is a control character in a line of the body")
                }
            }
            return nil
        }
        scanned = found == nil ? end : 0
        if found == nil, input.count >= most { throw .malformed(tooLong) }
        return found
    }
}
