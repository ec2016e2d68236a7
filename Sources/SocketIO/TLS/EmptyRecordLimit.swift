/// Limits the records without data that a peer may send. Each costs as much as one with data.
struct EmptyRecordLimit {
    /// The consequence of a record without data.
    enum Verdict: Equatable {
        /// The next record is read.
        case next
        /// The next record waits for another read.
        case pause
        /// The connection is ended.
        case refuse
    }

    /// How many records without data may come in a row. Peers send a few after the handshake.
    static let mostInARow = 32
    /// How many records without data one read processes at most, if it has found data too.
    static let mostInARead = 16

    private var inARow = 0
    private var inRead = 0

    /// Begins another read.
    mutating func beginRead() {
        inRead = 0
    }

    /// Notes a record with data.
    mutating func foundData() {
        inARow = 0
    }

    /// Counts a record without data.
    ///
    /// - Parameter hasData: Whether this read has found data before it.
    mutating func foundNone(hasData: Bool) -> Verdict {
        inARow += 1
        inRead += 1
        guard inARow <= Self.mostInARow else { return .refuse }
        return hasData && inRead >= Self.mostInARead ? .pause : .next
    }
}
