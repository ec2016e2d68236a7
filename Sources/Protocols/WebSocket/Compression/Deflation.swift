import TransportAPI

/// Compresses the messages that this side sends (RFC 7692, section 7.2.1). It decides which of them, and whether they
/// refer to earlier ones.
struct Deflation: Sendable {
    private let compressor: any MessageCompressor
    private let direction: DeflateAgreement.Direction
    private let threshold: Int
    /// Created for the first message.
    private var deflater: (any MessageDeflater)?
    /// The memory of `deflater` in bytes.
    private(set) var bufferedBytes = 0

    init(_ compression: WebSocketCompression, _ direction: DeflateAgreement.Direction) {
        compressor = compression.compressor
        self.direction = direction
        threshold = max(compression.threshold, 1)
    }

    /// Returns the compressed form. Returns `nil` if the message should be sent uncompressed, which both sides always
    /// may do (section 6).
    mutating func compress(_ bytes: UnsafeRawBufferPointer) -> [UInt8]? {
        // The client may require a window of 256 bytes, but zlib cannot compress with one.
        guard bytes.count >= threshold, direction.windowBits >= 9 else { return nil }
        if deflater == nil {
            deflater = compressor.makeDeflater(windowBits: direction.windowBits)
            bufferedBytes = deflater?.bufferedBytes ?? 0
        }
        guard let compressed = deflater?.deflate(bytes, within: ExpansionLimit()) else {
            // The peer does not get the message that this state includes. So the next message starts with new state, which
            // refers to nothing before it.
            deflater = nil
            bufferedBytes = 0
            return nil
        }
        guard !direction.keepsContext else { return compressed }
        deflater?.reset()
        return compressed.count < bytes.count ? compressed : nil
    }
}

/// Decompresses the messages that arrive (section 7.2.2). The limits are checked during decompression.
struct Inflation: Sendable {
    private let compressor: any MessageCompressor
    private let direction: DeflateAgreement.Direction
    private let expansion: ExpansionLimit
    /// Created for the first compressed message.
    private var inflater: (any MessageInflater)?
    /// The memory of `inflater` in bytes.
    private(set) var bufferedBytes = 0

    static let malformed = "a message is marked as compressed, but is not DEFLATE"
    /// The end of every flush, which senders omit.
    private static let tail: [UInt8] = [0, 0, 0xff, 0xff]

    /// How far back messages may refer, as a power of two. Zlib accepts a reference that goes further back as long as
    /// it still has those bytes, which depends on how the message arrives. Correct peers send no such references.
    var windowBits: Int { max(direction.windowBits, 9) }

    init(_ compression: WebSocketCompression, _ direction: DeflateAgreement.Direction) {
        compressor = compression.compressor
        expansion = compression.expansion
        self.direction = direction
    }

    /// Decompresses a piece of a message from its start, and appends the result to `output`. Returns how many bytes of
    /// the piece were consumed. `output` gets at most `limit` bytes, and at most as many as `arrived` bytes may expand
    /// to.
    ///
    /// - Parameter arrived: how many bytes of the message have arrived, including the whole piece.
    mutating func append(
        _ piece: UnsafeRawBufferPointer,
        _ arrived: Int,
        to output: inout MessageParts,
        limit: Int
    ) throws(TransportError) -> Int {
        if inflater == nil {
            inflater = compressor.makeInflater(windowBits: windowBits)
            bufferedBytes = inflater?.bufferedBytes ?? 0
        }
        guard let inflater else {
            throw TransportError(.resourcesExhausted, .open, "there is not enough memory to decompress messages")
        }
        let most = expansion.most(after: arrived)
        let room = min(limit, most) - output.settled
        let result = inflater.inflate(piece, onto: &output.last, limit: room, capacity: Self.capacity(output, limit))
        guard result != .tooLarge || most >= limit else { throw .webSocketExpansion(expansion.factor) }
        return try taken(result, limit)
    }

    /// Decompresses the end of a message whose last piece was appended.
    func finish(_ output: inout MessageParts, limit: Int) throws(TransportError) {
        guard let inflater else { throw .webSocketViolation("a compressed message is empty") }
        var tail = Self.tail[...]
        while !tail.isEmpty {
            let (room, capacity) = (limit - output.settled, Self.capacity(output, limit))
            let result = tail.withUnsafeBytes {
                inflater.inflate($0, onto: &output.last, limit: room, capacity: capacity)
            }
            tail.removeFirst(try taken(result, limit))
        }
        guard inflater.isAtBlockEnd else { throw .webSocketViolation("a compressed message ends within a block") }
        if !direction.keepsContext { inflater.reset() }
    }

    /// Returns how much memory the current part may take.
    private static func capacity(_ output: MessageParts, _ limit: Int) -> Int {
        min(MessageParts.size + MessageParts.slack, limit - output.settled)
    }

    /// Returns how many bytes were consumed, or throws the error.
    private func taken(_ result: InflateResult, _ limit: Int) throws(TransportError) -> Int {
        switch result {
        case .taken(let count): return count
        case .tooLarge: throw .webSocketTooLarge(limit)
        case .malformed: throw .webSocketViolation(Self.malformed)
        }
    }
}
