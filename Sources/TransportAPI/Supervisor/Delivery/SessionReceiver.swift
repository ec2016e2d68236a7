/// The receiving half of a session: gives each message once and in its order, whatever comes twice or too early.
package struct SessionReceiver: Sendable {
    /// What became of a message that was received.
    package enum Verdict: Sendable, Hashable {
        /// It is new, and was given out or is kept.
        case new
        /// It came before.
        case duplicate
        /// It came too early, and there is no room to keep it. It is forgotten.
        case noRoom
    }

    /// How many messages may be held until what comes before them has arrived: the largest window that a sender may have.
    static let window: UInt64 = 1024

    /// Everything up to this sequence number has been given out.
    package private(set) var received: UInt64 = 0
    /// What came too early; `nil` stands for a message that was given up.
    private var early: [UInt64: Payload?] = [:]
    /// How many messages are held.
    package var earlyCount: Int { early.count }
    /// How much memory they take, in bytes.
    package private(set) var earlyBytes = 0
    private let earlyLimit: Int
    /// Messages that came again.
    package private(set) var duplicates: UInt64 = 0

    /// - Parameter earlyLimit: how many bytes of messages may be held, each with 128 bytes beside it.
    package init(earlyLimit: Int = .max) {
        self.earlyLimit = earlyLimit
    }

    /// Takes a message, or word that there will be none, and calls `give` with all that is in order now, and its
    /// numbers.
    ///
    /// - Throws: `.protocolViolation` if the number lies beyond the window, where no honest sender is.
    package mutating func receive(
        _ sequence: UInt64,
        _ payload: Payload?,
        give: (UInt64, Payload) -> Void
    ) throws(TransportError) -> Verdict {
        guard sequence > received, early[sequence] == nil else {
            guard sequence > 0 else { throw .envelope("sequence numbers begin at one") }
            duplicates += 1
            return .duplicate
        }
        guard sequence - received <= Self.window else { throw .envelope("a sequence number lies beyond the window") }
        guard sequence == received + 1 else {
            let size = Self.size(payload)
            guard size <= earlyLimit - earlyBytes else { return .noRoom }
            early[sequence] = .some(payload)
            earlyBytes += size
            return .new
        }
        received = sequence
        if let payload { give(sequence, payload) }
        while !early.isEmpty, let next = early.removeValue(forKey: received + 1) {
            received += 1
            earlyBytes -= Self.size(next)
            if let next { give(received, next) }
        }
        if early.isEmpty, early.capacity > 16 { early = [:] }
        return .new
    }

    /// Forgets what came too early: the connection has ended, and all that was not acknowledged is sent again on the next one.
    package mutating func forgetEarly() {
        early = [:]
        earlyBytes = 0
    }

    private static func size(_ payload: Payload?) -> Int { payload?.bufferedBytes ?? Payload.bookkeeping }
}
