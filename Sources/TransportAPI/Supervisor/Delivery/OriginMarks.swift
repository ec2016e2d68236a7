/// The marks of messages from other clients of a broker, by which a message that arrives again is recognized. A message
/// counts as received only once the app has processed it, because the broker sends it again until then.
struct OriginMarks: Sendable {
    /// `nil` until a message of another client of a broker arrives.
    private var received: OriginFilter?
    /// The messages that the app was given over the current connection and has not processed.
    private var given: Set<OriginFilter.Mark> = []
    /// The messages that the app was given over an earlier connection and has not processed, by their keys.
    private var late: [UInt64: OriginFilter.Mark] = [:]

    /// Continues after an earlier process, whose store has the marks of processed messages under this key.
    mutating func restore(_ key: OriginFilter.Key, _ marks: [OriginFilter.Mark]) {
        received = OriginFilter(key, knowing: marks)
    }

    /// Returns the mark of a message, or `nil` if it has arrived before.
    mutating func mark(
        _ sender: SessionID,
        _ sequence: UInt64,
        _ payload: Payload,
        using random: inout RandomSource
    ) -> OriginFilter.Mark? {
        let filter = received ?? OriginFilter(using: &random)
        defer { received = filter }
        let mark = filter.mark(sender, sequence, payload)
        // If the app still processes the earlier copy, that copy is acknowledged before this one, because both came
        // over the same connection.
        return filter.contains(mark) || given.contains(mark) ? nil : mark
    }

    /// Records that the app is given a message that it acknowledges later.
    mutating func give(_ mark: OriginFilter.Mark) {
        given.insert(mark)
    }

    /// Records that a message was received, and processed if the app acknowledges messages.
    mutating func receive(_ mark: OriginFilter.Mark) {
        given.remove(mark)
        received?.insert(mark)
    }

    /// Records that the app has settled a message whose connection has ended, so that the broker will send it again.
    ///
    /// - Returns: The mark of a processed message.
    mutating func settleLate(_ key: UInt64, isAbandoned: Bool) -> OriginFilter.Mark? {
        guard let mark = late.removeValue(forKey: key), !isAbandoned else { return nil }
        received?.insert(mark)
        return mark
    }

    /// Records that the connection has ended, with these messages that the app has not processed.
    mutating func forgetGiven(_ marks: [UInt64: OriginFilter.Mark]) {
        late = marks
        given = []
    }
}
