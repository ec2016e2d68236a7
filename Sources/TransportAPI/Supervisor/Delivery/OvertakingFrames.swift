/// The frames that have arrived before the welcome, over a connection without an order.
struct OvertakingFrames: Sendable {
    private var frames: [SessionFrame] = []
    /// Their memory, in bytes.
    private(set) var bytes = 0
    private let limit: Int

    /// - Parameter limit: The memory that the frames may take, in bytes.
    init(limit: Int) {
        self.limit = limit
    }

    /// Keeps a frame.
    ///
    /// - Throws: `.resourcesExhausted` if there is no room. The message is then sent again over the next connection.
    mutating func keep(_ frame: SessionFrame) throws(TransportError) {
        var size = Payload.bookkeeping
        if case .message(_, let payload, _) = frame { size = payload.bufferedBytes }
        guard frames.count < SessionReceiver.window, size <= limit - bytes else { throw .tooMuchEarly }
        frames.append(frame)
        bytes += size
    }

    /// Drops the frames, because they belong to an earlier connection.
    mutating func removeAll() {
        (frames, bytes) = ([], 0)
    }

    /// Removes the frames and returns them in the order of their receipt.
    mutating func takeAll() -> [SessionFrame] {
        defer { removeAll() }
        return frames
    }
}
