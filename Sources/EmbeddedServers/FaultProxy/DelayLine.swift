/// The bytes in flight in one direction, in the order in which they will arrive. Their size and number are limited.
/// This type does no I/O. Times are nanoseconds of one clock.
struct DelayLine {
    /// The largest number of bytes in flight.
    static let maximumBytes = 256 * 1024
    /// The largest number of pieces in flight. A piece is a read of a stream or a datagram.
    static let maximumPieces = 1024

    private struct Piece {
        var bytes: [UInt8]
        var entered: Int64
        /// Its part of the jitter, from 0 to 1.
        var spread: Double
        var due: Int64
    }

    /// Whether no piece overtakes another, even if it is due earlier.
    private let keepsOrder: Bool
    private var pieces: [Piece] = []
    /// How many pieces at the front have arrived, and how many bytes of the next one.
    private var head = 0
    private var offset = 0
    private(set) var byteCount = 0

    init(keepsOrder: Bool) {
        self.keepsOrder = keepsOrder
    }

    var count: Int { pieces.count - head }
    var isEmpty: Bool { count == 0 }
    /// How many bytes may be added now.
    var room: Int { count < Self.maximumPieces ? Self.maximumBytes - byteCount : 0 }
    /// When the first piece arrives, or `nil` if there is none.
    var nextDue: Int64? { isEmpty ? nil : pieces[head].due }
    /// The rest of the first piece in bytes.
    var firstCount: Int { isEmpty ? 0 : pieces[head].bytes.count - offset }

    /// Returns whether a piece of this size may be added now.
    func hasRoom(for bytes: Int) -> Bool { count < Self.maximumPieces && byteCount + bytes <= Self.maximumBytes }

    /// Adds a piece that enters the path now. The caller has checked that there is room.
    mutating func append(_ bytes: [UInt8], now: Int64, spread: Double, _ faults: PathFaults) {
        byteCount += bytes.count
        insert(Piece(bytes: bytes, entered: now, spread: spread, due: now), faults)
    }

    /// Computes the arrival times again after a change of delay or jitter.
    mutating func reschedule(_ faults: PathFaults) {
        guard !isEmpty else { return }
        let waiting = pieces[head...]
        pieces = []
        head = 0
        for piece in waiting { insert(piece, faults) }
    }

    /// Calls `body` with at most `limit` bytes of the first piece. The pointer must not outlive the call.
    func withFirst<R>(upTo limit: Int = .max, _ body: (UnsafeRawBufferPointer) -> R) -> R? {
        guard !isEmpty else { return nil }
        return pieces[head].bytes.withUnsafeBytes { all in
            let end = offset + min(limit, all.count - offset)
            return body(UnsafeRawBufferPointer(rebasing: all[offset..<end]))
        }
    }

    /// Removes `count` bytes of the first piece, and the piece after its last byte.
    mutating func consume(_ count: Int) {
        guard !isEmpty else { return }
        let taken = min(count, firstCount)
        offset += taken
        byteCount -= taken
        guard firstCount == 0 else { return }
        pieces[head].bytes = []
        offset = 0
        head += 1
        if head == pieces.count || head >= 256 {
            pieces.removeFirst(head)
            head = 0
        }
    }

    /// Removes all pieces.
    mutating func removeAll() {
        self = DelayLine(keepsOrder: keepsOrder)
    }

    private mutating func insert(_ piece: Piece, _ faults: PathFaults) {
        var piece = piece
        piece.due = piece.entered + faults.transit(piece.spread)
        var place = pieces.count
        if keepsOrder {
            if !isEmpty { piece.due = max(piece.due, pieces[place - 1].due) }
        } else {
            while place > head, pieces[place - 1].due > piece.due { place -= 1 }
        }
        pieces.insert(piece, at: place)
    }
}
