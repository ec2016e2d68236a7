import Primitives

/// The bytes in flight in one direction, in the order in which they will arrive, and the path that decides when. Their size
/// and number are limited. This type does no I/O. Times are nanoseconds of one clock.
struct DelayLine {
    /// The largest number of bytes in flight.
    static let maximumBytes = 256 * 1024
    /// The largest number of pieces in flight. A piece is a read of a stream or a datagram.
    static let maximumPieces = 1024
    /// How often the bytes of a stream that pass slowly are passed on.
    private static let interval: Int64 = 20_000_000

    private struct Piece {
        var bytes: [UInt8]
        var passage: PathModel.Passage
    }

    private var path: PathModel
    private var pieces: [Piece] = []
    /// How many pieces at the front have arrived, and how many bytes of the next one.
    private var head = 0
    private var offset = 0
    private(set) var byteCount = 0

    init(_ parameters: PathModel.Parameters) {
        path = PathModel(parameters)
    }

    var count: Int { pieces.count - head }
    var isEmpty: Bool { count == 0 }
    /// How many bytes may be added now.
    var room: Int { count < Self.maximumPieces ? Self.maximumBytes - byteCount : 0 }
    /// When the first piece has arrived as a whole, or `nil` if there is none.
    var nextDue: Int64? { isEmpty ? nil : pieces[head].passage.arrival }
    /// The rest of the first piece in bytes.
    var firstCount: Int { isEmpty ? 0 : pieces[head].bytes.count - offset }

    /// Returns whether a piece of this size may be added now.
    func hasRoom(for bytes: Int) -> Bool { count < Self.maximumPieces && byteCount + bytes <= Self.maximumBytes }

    /// Adds a piece that enters the path now, and its duplicate if there is one, unless the path loses it or there is no room.
    mutating func append(_ bytes: [UInt8], _ draw: PathModel.Draw, at now: Int64) -> PathModel.Fate {
        var draw = draw
        // A late datagram lets one pass, so while it waits, no other one is late.
        let late = path.parameters.reordering > 0 ? pieces[head...].lastIndex { $0.passage.isLate } : nil
        if late != nil { draw.reordering = 1 }
        let fate = path.admit(bytes.count, draw, at: now, hasRoom: hasRoom(for: bytes.count))
        guard case .arrives(let passage, let copy) = fate else { return fate }
        var overtaken: Piece?
        if let late, pieces[late].passage.arrival > passage.arrival { overtaken = pieces.remove(at: late) }
        add(bytes, passage)
        if var piece = overtaken {
            (piece.passage.arrival, piece.passage.isLate) = (passage.arrival, false)
            insert(piece)
        }
        guard let copy else { return fate }
        guard hasRoom(for: bytes.count) else { return .arrives(passage, copy: nil) }
        add(bytes, copy)
        return fate
    }

    /// Changes the path, also for the pieces on it.
    mutating func change(to parameters: PathModel.Parameters, at now: Int64) {
        path.change(to: parameters, at: now)
        guard !isEmpty else { return }
        pieces[head].bytes.removeFirst(offset)
        offset = 0
        let waiting = pieces[head...]
        pieces = []
        head = 0
        for var piece in waiting {
            piece.passage = path.again(piece.passage, bytes: piece.bytes.count, at: now)
            insert(piece)
        }
    }

    /// Returns how many bytes of the first piece have arrived and were not consumed.
    func arrived(at now: Int64) -> Int {
        guard !isEmpty else { return 0 }
        let (passage, count) = (pieces[head].passage, pieces[head].bytes.count)
        guard now < passage.arrival else { return count - offset }
        guard now > passage.firstArrival else { return 0 }
        let share = Double(now - passage.firstArrival) / Double(passage.arrival - passage.firstArrival)
        return max(0, Int(share * Double(count)) - offset)
    }

    /// Returns when to look for bytes of the first piece again: when it has arrived as a whole, or earlier if it passes
    /// slowly. `nil` if there is none.
    func nextPart(after now: Int64) -> Int64? {
        guard !isEmpty else { return nil }
        let (passage, count) = (pieces[head].passage, pieces[head].bytes.count)
        let timePerByte = (passage.arrival - passage.firstArrival) / Int64(max(1, count)) + 1
        return min(passage.arrival, max(passage.firstArrival, now) + max(timePerByte, Self.interval))
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
        (pieces, head, offset, byteCount) = ([], 0, 0, 0)
    }

    private mutating func add(_ bytes: [UInt8], _ passage: PathModel.Passage) {
        byteCount += bytes.count
        insert(Piece(bytes: bytes, passage: passage))
    }

    private mutating func insert(_ piece: Piece) {
        var place = pieces.count
        while place > head, pieces[place - 1].passage.arrival > piece.passage.arrival { place -= 1 }
        pieces.insert(piece, at: place)
    }
}
