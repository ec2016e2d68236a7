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
