import TransportAPI

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
