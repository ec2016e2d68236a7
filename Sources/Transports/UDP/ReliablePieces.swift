import TransportAPI

/// The messages that were given to be sent, cut into pieces that fit a packet, until all of each has been acknowledged.
struct ReliablePieces: Sendable {
    /// The most bytes of a message in one packet; leaves room for a short acknowledgement beside them.
    static let largest = 1100

    /// A part of a message, or all of it. Each is in one place at a time: not cut yet, on its way in one packet, or lost.
    struct Piece: Sendable {
        var number: UInt64
        var offset: Int
        var count: Int
        /// The size of the message.
        var total: Int

        var isWhole: Bool { count == total }
        /// The bytes that it takes in a packet.
        var wireSize: Int { count + (isWhole ? ReliableFrame.wholeHeader : ReliableFrame.fragmentHeader) }
    }

    private struct Message: Sendable {
        var id: UInt64
        var bytes: [UInt8]
        var pieces: Int
        var size: Int { bytes.count }
    }

    private var messages = Queue<Message>()
    /// The number of the first of them.
    private var first: UInt64 = 0
    /// The message of which the next piece is cut, and where.
    private var cursor: (number: UInt64, offset: Int) = (0, 0)
    private var lost = Queue<Piece>()
    /// The costs of the messages of which a first piece has been cut, from the beginning.
    private var spent: UInt64 = 0
    private var credit: UInt64
    /// The costs of all messages that were not acknowledged.
    private(set) var buffered = 0
    private let limit: Int

    /// - Parameters:
    ///   - credit: what the far side may be sent at first.
    ///   - limit: how much may be buffered; one message may pass it, so that none is too large for an empty buffer.
    init(credit: Int, limit: Int) {
        self.credit = UInt64(credit)
        self.limit = limit
    }

    var isEmpty: Bool { messages.isEmpty }

    func hasRoom(for size: Int) -> Bool {
        messages.isEmpty
            || buffered + ReliableTerms.cost(size) <= limit && messages.count < ReliableTerms.numberWindow
    }

    mutating func append(_ bytes: [UInt8], id: UInt64) {
        let pieces = max(1, (bytes.count + Self.largest - 1) / Self.largest)
        messages.append(Message(id: id, bytes: bytes, pieces: pieces))
        buffered += ReliableTerms.cost(bytes.count)
    }

    mutating func raiseCredit(_ credit: UInt64) {
        self.credit = max(self.credit, credit)
    }

    // MARK: Sending

    /// Whether something was never sent, and there is no credit for it.
    var isBlockedByCredit: Bool { lost.isEmpty && hasUncut && !hasCredit }

    /// The next piece to send: what was lost first.
    var next: Piece? {
        if let piece = lost.head { return piece }
        guard hasUncut, hasCredit else { return nil }
        let total = messages[Int(cursor.number - first)].size
        return Piece(
            number: cursor.number,
            offset: cursor.offset,
            count: min(Self.largest, total - cursor.offset),
            total: total
        )
    }

    private var hasUncut: Bool { cursor.number - first < UInt64(messages.count) }

    private var hasCredit: Bool {
        let size = messages[Int(cursor.number - first)].size
        return cursor.offset > 0 || spent + UInt64(ReliableTerms.cost(size)) <= credit
    }

    /// ``next`` has been written.
    mutating func sent(_ piece: Piece) {
        guard lost.popFirst() == nil else { return }
        if piece.offset == 0 { spent += UInt64(ReliableTerms.cost(piece.total)) }
        let end = piece.offset + piece.count
        cursor = end == piece.total ? (piece.number + 1, 0) : (piece.number, end)
    }

    /// Gives the bytes of a piece to `body`.
    func withBytes(of piece: Piece, _ body: (UnsafeRawBufferPointer) -> Void) {
        guard piece.number >= first, piece.number - first < UInt64(messages.count) else { return }
        messages[Int(piece.number - first)].bytes.withUnsafeBytes { all in
            guard piece.offset + piece.count <= all.count else { return }
            body(UnsafeRawBufferPointer(rebasing: all[piece.offset..<piece.offset + piece.count]))
        }
    }

    // MARK: What became of them

    mutating func wasLost(_ piece: Piece) {
        lost.append(piece)
    }

    /// A piece has arrived. Gives the id of its message if that was the last piece of it.
    mutating func arrived(_ piece: Piece) -> UInt64? {
        guard piece.number >= first, piece.number - first < UInt64(messages.count) else { return nil }
        let index = Int(piece.number - first)
        messages[index].pieces -= 1
        guard messages[index].pieces == 0 else { return nil }
        let id = messages[index].id
        buffered -= ReliableTerms.cost(messages[index].size)
        messages[index].bytes = []
        while let head = messages.head, head.pieces == 0 {
            _ = messages.popFirst()
            first += 1
        }
        return id
    }
}
