/// The numbers of the messages that this side sends in a session. They are those of their identifiers, so a message keeps
/// its number in the next session. A number can be left out, because its message was removed before it was sent.
struct SentNumbers: Sendable {
    /// The meaning of an acknowledgement.
    enum Acknowledgement: Sendable, Hashable {
        /// Something is acknowledged for the first time.
        case new
        /// The peer has acknowledged nothing new since the last acknowledgement.
        case repeated
        /// A later acknowledgement has overtaken it.
        case overtaken
    }

    /// The last number that was sent.
    private(set) var last: UInt64
    /// The last number that the peer has acknowledged. All messages up to it have ended.
    private(set) var acknowledged: UInt64
    /// The last number that an earlier process may have sent.
    private let lastOfEarlierProcess: UInt64
    /// What was acknowledged when the session began.
    private var start: UInt64

    /// - Parameters:
    ///   - acknowledged: The number up to which all messages have ended.
    ///   - lastOfEarlierProcess: The last number that an earlier process may have sent; 0 if there was none.
    init(after acknowledged: UInt64 = 0, lastOfEarlierProcess: UInt64 = 0) {
        (last, self.acknowledged, start) = (acknowledged, acknowledged, acknowledged)
        self.lastOfEarlierProcess = lastOfEarlierProcess
    }

    /// The first number that a new message can take.
    var next: UInt64 { last + 1 }

    /// Whether nothing was acknowledged in the session.
    var isUntouched: Bool { acknowledged == start }

    /// Whether an earlier process may have sent the message of this number.
    func mayHaveLeft(_ number: UInt64) -> Bool { number <= lastOfEarlierProcess }

    /// Records that the message of this number is sent.
    mutating func sent(_ number: UInt64) {
        last = max(last, number)
    }

    /// Records that the peer has received all messages up to `number`.
    ///
    /// - Throws: `.protocolViolation` if no message of this number was sent.
    mutating func acknowledge(through number: UInt64) throws(TransportError) -> Acknowledgement {
        guard number <= max(last, lastOfEarlierProcess) else {
            throw .envelope("an acknowledgement of a message that was never sent")
        }
        guard number > acknowledged else { return number == acknowledged ? .repeated : .overtaken }
        acknowledged = number
        last = max(last, number)
        return .new
    }

    /// The peer has begun another session, in which nothing was sent.
    mutating func restart() {
        (last, start) = (acknowledged, acknowledged)
    }
}
