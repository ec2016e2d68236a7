/// The sequence numbers of the messages that this side sends in a session.
struct SentNumbers: Sendable {
    /// The meaning of an acknowledgement.
    enum Acknowledgement: Sendable, Hashable {
        /// This number of messages is acknowledged for the first time.
        case new(Int)
        /// The peer has acknowledged nothing new since the last acknowledgement.
        case repeated
        /// A later acknowledgement has overtaken it.
        case overtaken
    }

    /// The last number that was assigned.
    private(set) var last: UInt64 = 0
    /// The last number that the peer has acknowledged.
    private(set) var acknowledged: UInt64 = 0

    /// The number of the next new message.
    var next: UInt64 { last + 1 }

    /// Records that the message of this number is sent.
    mutating func sent(_ sequence: UInt64) {
        last = max(last, sequence)
    }

    /// Records that the peer has received all messages up to `sequence`.
    ///
    /// - Throws: `.protocolViolation` if no message of this number was sent.
    mutating func acknowledge(through sequence: UInt64) throws(TransportError) -> Acknowledgement {
        guard sequence <= last else { throw .envelope("an acknowledgement of a message that was never sent") }
        guard sequence > acknowledged else { return sequence == acknowledged ? .repeated : .overtaken }
        defer { acknowledged = sequence }
        return .new(Int(clamping: sequence - acknowledged))
    }
}
