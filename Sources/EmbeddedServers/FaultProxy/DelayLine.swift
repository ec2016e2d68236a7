/// What is on its way in one direction, in the order in which it will arrive. Bounded in bytes and in number. Does no I/O;
/// times are nanoseconds of one clock.
struct DelayLine {
    /// The most bytes that it holds.
    static let maximumBytes = 256 * 1024
    /// The most pieces (reads of a stream, datagrams) that it holds.
    static let maximumPieces = 1024

    private struct Piece {
        var bytes: [UInt8]
        var entered: Int64
        /// Its part of the jitter, from 0 to 1.
        var spread: Double
        var due: Int64
    }

    /// Whether a piece never overtakes another, however much earlier it is due.
    private let keepsOrder: Bool
    private var pieces: [Piece] = []
    /// How many pieces at the front have arrived, and how many bytes of the one behind them.
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
    /// When the first piece arrives.
    var nextDue: Int64? { isEmpty ? nil : pieces[head].due }
    /// What is left of the first piece, in bytes.
    var firstCount: Int { isEmpty ? 0 : pieces[head].bytes.count - offset }

    /// Whether a piece of this size may be added now.
    func hasRoom(for bytes: Int) -> Bool { count < Self.maximumPieces && byteCount + bytes <= Self.maximumBytes }

    /// Adds a piece that enters the path now; the caller has asked whether there is room.
    mutating func append(_ bytes: [UInt8], now: Int64, spread: Double, _ faults: PathFaults) {
        byteCount += bytes.count
        insert(Piece(bytes: bytes, entered: now, spread: spread, due: now), faults)
    }

    /// Times anew what is on its way, after a change of delay or jitter.
    mutating func reschedule(_ faults: PathFaults) {
        guard !isEmpty else { return }
        let waiting = pieces[head...]
        pieces = []
        head = 0
        for piece in waiting { insert(piece, faults) }
    }

    /// Gives at most `limit` bytes of the first piece to `body`. The pointer must not outlive the closure.
    func withFirst<R>(upTo limit: Int = .max, _ body: (UnsafeRawBufferPointer) -> R) -> R? {
        guard !isEmpty else { return nil }
        return pieces[head].bytes.withUnsafeBytes { all in
            let end = offset + min(limit, all.count - offset)
            return body(UnsafeRawBufferPointer(rebasing: all[offset..<end]))
        }
    }

    /// Forgets `count` bytes of the first piece, and the piece with its last byte.
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

    /// Forgets everything.
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
