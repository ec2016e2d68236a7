/// How one side of a session numbers its messages.
package struct SessionNumbering: Sendable, Hashable {
    /// The greatest number of a message. A side that sends a thousand messages a second reaches it after a hundred million
    /// years.
    static let largest: UInt64 = 1 << 62

    /// The last number that this side does not send any more. All messages up to it have ended.
    package let ended: UInt64
    /// A random number, by which the other side recognizes messages of this side in later sessions. It is no secret.
    package let sender: UInt64

    /// Creates the numbering of a side that sends messages after this number.
    package init(after ended: UInt64, sender: UInt64) {
        (self.ended, self.sender) = (ended, sender)
    }

    /// Reads a numbering.
    ///
    /// - Throws: `.protocolViolation` for a number that no message has.
    init(first: UInt64, sender: UInt64) throws(TransportError) {
        guard (1...Self.largest).contains(first) else {
            throw .envelope("numbers begin with \(first); allowed is 1 to 2^62")
        }
        self.init(after: first - 1, sender: sender)
    }

    /// The numbering of a side that has sent nothing.
    package static let fromOne = SessionNumbering(after: 0, sender: 0)

    /// The first number that this side may still send.
    var first: UInt64 { ended + 1 }
}
