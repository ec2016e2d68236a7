import TransportAPI

/// The compression of what this side sends (RFC 7692, section 7.2.1): which messages, and with what memory of those before.
struct Deflation: Sendable {
    private let compressor: any MessageCompressor
    private let direction: DeflateAgreement.Direction
    private let threshold: Int
    /// Made for the first message.
    private var deflater: (any MessageDeflater)?
    /// How much memory that takes.
    private(set) var bufferedBytes = 0

    init(_ compression: WebSocketCompression, _ direction: DeflateAgreement.Direction) {
        compressor = compression.compressor
        self.direction = direction
        threshold = max(compression.threshold, 1)
    }

    /// The compressed form; `nil` if the message is to go out as it is, which both sides always may.
    mutating func compress(_ bytes: UnsafeRawBufferPointer) -> [UInt8]? {
        // A server may ask for 256 bytes, with which zlib can't compress.
        guard bytes.count >= threshold, direction.windowBits >= 9 else { return nil }
        if deflater == nil {
            deflater = compressor.makeDeflater(windowBits: direction.windowBits)
            bufferedBytes = deflater?.bufferedBytes ?? 0
        }
        guard let compressed = deflater?.deflate(bytes) else {
            // Whatever it remembered, the peer has not seen: the next message begins anew.
            deflater = nil
            bufferedBytes = 0
            return nil
        }
        guard !direction.keepsContext else { return compressed }
        deflater?.reset()
        return compressed.count < bytes.count ? compressed : nil
    }
}

/// The decompression of what arrives (section 7.2.2), bounded while it goes on.
struct Inflation: Sendable {
    private let compressor: any MessageCompressor
    private let direction: DeflateAgreement.Direction
    private let maximumExpansion: Int
    private let freeExpansion: Int
    /// Made for the first compressed message.
    private var inflater: (any MessageInflater)?
    /// How much memory that takes.
    private(set) var bufferedBytes = 0

    static let malformed = "a message is marked as compressed, and is not"
    /// What every flush ends with, and senders leave out.
    private static let tail: [UInt8] = [0, 0, 0xff, 0xff]

    /// How far back messages may refer, as a power of two. What refers further back is let in as far as zlib still has
    /// it before it, which depends on how it arrives: no honest peer does.
    var windowBits: Int { max(direction.windowBits, 9) }

    init(_ compression: WebSocketCompression, _ direction: DeflateAgreement.Direction) {
        compressor = compression.compressor
        maximumExpansion = compression.maximumExpansion
        freeExpansion = compression.freeExpansion
        self.direction = direction
    }

    /// Appends the plain form of the beginning of a piece of a message, of which `arrived` bytes have come with it; returns how
    /// long that beginning was. `output` gets no more than `limit` bytes, nor more than `arrived` bytes may expand to.
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
            throw TransportError(.resourcesExhausted, .open, "there is no memory to decompress with")
        }
        let most = max(freeExpansion, arrived.multipliedSaturated(maximumExpansion))
        let room = min(limit, most) - output.settled
        let result = inflater.inflate(piece, onto: &output.last, limit: room, capacity: Self.capacity(output, limit))
        guard result != .tooLarge || most >= limit else { throw .webSocketExpansion(maximumExpansion) }
        return try taken(result, limit)
    }

    /// Appends the rest of a message whose last piece has come.
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

    /// How much memory the part at hand may take.
    private static func capacity(_ output: MessageParts, _ limit: Int) -> Int {
        min(MessageParts.size + MessageParts.slack, limit - output.settled)
    }

    /// How much of a piece was taken.
    private func taken(_ result: InflateResult, _ limit: Int) throws(TransportError) -> Int {
        switch result {
        case .taken(let count): return count
        case .tooLarge: throw .webSocketTooLarge(limit)
        case .malformed: throw .webSocketViolation(Self.malformed)
        }
    }
}
