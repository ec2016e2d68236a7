import Primitives
import TransportAPI

/// The messages to send, cut into pieces as packets have room, until all of each was acknowledged.
///
/// A piece may be in flight more than once, and may be cut differently when it is sent again. The acknowledged bytes of
/// a message count, not its pieces.
struct ReliablePieces: Sendable {
    /// A part of a message, or all of it.
    struct Piece: Sendable {
        var number: UInt64
        var offset: Int
        var count: Int
        /// The size of the message, in bytes.
        var total: Int

        var isWhole: Bool { count == total }
        /// The bytes that it takes in a packet.
        var wireSize: Int { count + (isWhole ? ReliableFrame.wholeHeader : ReliableFrame.fragmentHeader) }
    }

    private struct Message: Sendable {
        var id: UInt64
        var bytes: [UInt8]
        /// The bytes that were acknowledged.
        var arrived = NumberRanges()
        var missing: Int
        var isDone = false
    }

    private var messages = Deque<Message>()
    /// The number of the first message.
    private var first: UInt64 = 0
    /// The place of the first byte that was never sent.
    private var cursor: (number: UInt64, offset: Int) = (0, 0)
    /// The pieces to send again. The first of them has not arrived.
    var lost = Deque<Piece>()
    /// The sum of the costs of all messages whose first piece was cut.
    private var spent: UInt64 = 0
    private var credit: UInt64
    /// The sum of the costs of all messages that were not acknowledged.
    private(set) var buffered = 0
    private let limit: Int

    /// Creates an empty queue.
    ///
    /// - Parameters:
    ///   - credit: The credit that the peer grants at first.
    ///   - limit: The most bytes that are buffered. One message may exceed it, so that none is too large for an empty
    ///     queue.
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
        messages.append(Message(id: id, bytes: bytes, missing: bytes.count))
        buffered += ReliableTerms.cost(bytes.count)
    }

    mutating func raiseCredit(_ credit: UInt64) {
        self.credit = max(self.credit, credit)
    }

    // MARK: Sending

    /// Whether there is content that was never sent, and no credit for it.
    var isBlockedByCredit: Bool { lost.isEmpty && hasUncut && !hasCredit }

    /// Whether something can be sent now.
    var hasNext: Bool { head != nil }

    /// The fewest bytes of room for which ``next(room:of:)`` returns a piece, in a packet of `full` bytes.
    func least(of full: Int) -> Int {
        guard let head else { return 0 }
        return mayWait(head, full) ? head.wireSize : min(head.wireSize, Self.smallestFragment)
    }

    /// The next piece to send, cut to the `room` that is left in a packet of `full` bytes; `nil` if nothing fits. Lost
    /// pieces come first. A message that fits into a packet is not cut.
    func next(room: Int, of full: Int) -> Piece? {
        guard var piece = head else { return nil }
        if piece.wireSize <= room { return piece }
        guard room >= Self.smallestFragment, !mayWait(piece, full) else { return nil }
        piece.count = room - ReliableFrame.fragmentHeader
        return piece
    }

    private static let smallestFragment = ReliableFrame.fragmentHeader + Fragments.minimumSize

    private func mayWait(_ piece: Piece, _ full: Int) -> Bool { piece.isWhole && piece.wireSize <= full }

    /// The next piece, with all bytes that are left of it.
    private var head: Piece? {
        if let piece = lost.first { return piece }
        guard hasUncut, hasCredit else { return nil }
        let total = messages[Int(cursor.number - first)].bytes.count
        return Piece(number: cursor.number, offset: cursor.offset, count: total - cursor.offset, total: total)
    }

    private var hasUncut: Bool { cursor.number - first < UInt64(messages.count) }

    private var hasCredit: Bool {
        let size = messages[Int(cursor.number - first)].bytes.count
        return cursor.offset > 0 || spent + UInt64(ReliableTerms.cost(size)) <= credit
    }

    /// Records that a piece of ``next(room:of:)`` was written.
    mutating func sent(_ piece: Piece) {
        let end = piece.offset + piece.count
        guard let head = lost.first else {
            if piece.offset == 0 { spent += UInt64(ReliableTerms.cost(piece.total)) }
            cursor = end == piece.total ? (piece.number + 1, 0) : (piece.number, end)
            return
        }
        let last = head.offset + head.count
        guard end < last else {
            _ = lost.popFirst()
            return dropArrived()
        }
        // The rest must not be too small, so it may repeat a part of this piece.
        let offset = last == piece.total ? end : min(end, last - Fragments.minimumSize)
        lost[0].offset = offset
        lost[0].count = last - offset
        dropArrived()
    }

    /// Calls `body` with the bytes of a piece.
    func withBytes(of piece: Piece, _ body: (UnsafeRawBufferPointer) -> Void) {
        guard piece.number >= first, piece.number - first < UInt64(messages.count) else { return }
        messages[Int(piece.number - first)].bytes.withUnsafeBytes { all in
            guard piece.offset + piece.count <= all.count else { return }
            body(UnsafeRawBufferPointer(rebasing: all[piece.offset..<piece.offset + piece.count]))
        }
    }

    // MARK: Results

    /// Queues a piece to be sent again, unless it has arrived in another packet.
    mutating func sendAgain(_ piece: Piece) {
        if !hasArrived(piece) { lost.append(piece) }
    }

    /// Records that a piece has arrived. Returns the id of its message if all of that has arrived now.
    mutating func arrived(_ piece: Piece) -> UInt64? {
        guard !hasArrived(piece) else { return nil }
        let index = Int(piece.number - first)
        if piece.isWhole {
            messages[index].missing = 0
        } else {
            let run = UInt64(piece.offset)...UInt64(piece.offset + piece.count - 1)
            messages[index].missing -= Int(messages[index].arrived.insert(run))
        }
        defer { dropArrived() }
        guard messages[index].missing == 0 else { return nil }
        let id = messages[index].id
        buffered -= ReliableTerms.cost(messages[index].bytes.count)
        messages[index].bytes = []
        messages[index].isDone = true
        while let head = messages.first, head.isDone {
            _ = messages.popFirst()
            first += 1
        }
        return id
    }

    private func hasArrived(_ piece: Piece) -> Bool {
        guard piece.number >= first, piece.number - first < UInt64(messages.count) else { return true }
        let index = Int(piece.number - first)
        guard !messages[index].isDone, piece.count > 0 else { return messages[index].isDone }
        return messages[index].arrived.contains(UInt64(piece.offset)...UInt64(piece.offset + piece.count - 1))
    }

    private mutating func dropArrived() {
        while let piece = lost.first, hasArrived(piece) { _ = lost.popFirst() }
    }
}
