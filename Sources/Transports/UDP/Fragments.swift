import TransportAPI

/// A message of which some fragments have arrived. It holds what has arrived and no more, whatever size was announced.
struct Fragments: Sendable {
    /// The smallest fragment but for a message's last one, in bytes; bounds how many there are.
    static let minimumSize = 256

    /// The size of the whole message.
    let total: Int
    private var pieces: [(offset: Int, bytes: [UInt8])] = []
    private var received = 0

    /// - Parameter total: has been checked against the limit.
    init(total: Int) {
        self.total = total
    }

    var isComplete: Bool { received == total }

    /// Adds a fragment. What of it is there already stays as it came first: a sender may cut a message anew when it sends a
    /// part again.
    ///
    /// - Throws: `.protocolViolation` if it is not a part of this message, or is too small.
    mutating func insert(_ bytes: [UInt8], at offset: Int, of announced: Int) throws(TransportError) {
        guard announced == total else { throw .lie("the fragments of a message announce different sizes") }
        guard !bytes.isEmpty, offset <= total, bytes.count <= total - offset else {
            throw .lie("a fragment lies outside of its message")
        }
        let end = offset + bytes.count
        guard bytes.count >= Self.minimumSize || end == total else { throw .lie("a fragment is too small") }
        var place = pieces.count
        while place > 0, pieces[place - 1].offset + pieces[place - 1].bytes.count > offset { place -= 1 }
        var start = offset
        while start < end {
            let next = place < pieces.count ? pieces[place].offset : end
            if start < next {
                let stop = min(next, end)
                let isAll = start == offset && stop == end
                pieces.insert((start, isAll ? bytes : Array(bytes[start - offset..<stop - offset])), at: place)
                received += stop - start
                start = stop
            } else {
                start = next + pieces[place].bytes.count
            }
            place += 1
        }
    }

    /// The message, once it is complete.
    func joined() -> [UInt8] {
        var whole: [UInt8] = []
        whole.reserveCapacity(received)
        for piece in pieces { whole.append(contentsOf: piece.bytes) }
        return whole
    }
}

extension TransportError {
    /// The far side has sent what the reliable mode does not allow.
    static func lie(_ reason: String) -> TransportError {
        TransportError(.protocolViolation, .open, reason)
    }
}
