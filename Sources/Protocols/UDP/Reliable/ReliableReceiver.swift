import Primitives
import TransportAPI

/// The messages that arrive. It joins fragments, and returns each message once, in the order of sending if the session
/// is ordered. It also counts the credit of the peer.
///
/// All buffered bytes fit into the window that was announced to the peer. A message counts from its first fragment
/// until its receiver has processed it. A peer that sends more violates the protocol, and nothing is allocated for it.
struct ReliableReceiver: Sendable {
    let terms: ReliableTerms
    /// How many messages, and bytes of them, may wait for their receiver before no more are given out.
    private let inbox: (messages: Int, bytes: Int)
    /// Whether ``confirm()`` is called when a receiver has processed a message. Otherwise it counts as processed at
    /// once.
    private let isConfirming: Bool

    /// The messages of which fragments are missing.
    private var partial: [UInt64: Fragments] = [:]
    /// Whole messages that arrived before an earlier one.
    private var early: [UInt64: [UInt8]] = [:]
    private var ready = Deque<[UInt8]>()
    /// The sizes of the messages that were given out and are not processed.
    private var unconfirmed = Deque<Int>()
    private var unconfirmedBytes = 0
    /// The numbers of the messages that have arrived whole.
    var finished = NumberRanges()
    /// The number of the next message, if the session is ordered.
    private var next: UInt64 = 0
    /// The costs of all buffered messages, at most the window.
    private(set) var held = 0
    /// The costs of all processed messages.
    private var done: UInt64 = 0
    private var creditTold: UInt64

    init(_ terms: ReliableTerms, inbox: (messages: Int, bytes: Int), isConfirming: Bool) {
        self.terms = terms
        self.inbox = inbox
        self.isConfirming = isConfirming
        creditTold = UInt64(terms.window)
    }

    /// The costs of messages that the peer may have sent by now, from the beginning of the session.
    var credit: UInt64 { done + UInt64(terms.window) }

    /// Whether the credit has grown enough for an acknowledgement.
    var isCreditWorthTelling: Bool { credit - creditTold >= UInt64(terms.window / 4) }

    mutating func toldCredit() {
        creditTold = credit
    }

    /// How many messages have arrived, whole or in part, and were not given out.
    var waiting: Int { partial.count + early.count + ready.count }

    // MARK: Arriving

    /// Takes a whole message. Returns `false` if it had arrived before.
    ///
    /// - Throws: `.protocolViolation`.
    mutating func take(whole bytes: [UInt8], _ number: UInt64) throws(TransportError) -> Bool {
        guard try isNew(number) else { return false }
        if let fragments = partial.removeValue(forKey: number) {
            // It was cut when it was sent again, and one of the first packets arrives late.
            guard fragments.total == bytes.count else { throw .lie("the fragments of a message announce another size") }
        } else {
            try hold(bytes.count)
        }
        finish(number, bytes)
        return true
    }

    /// Takes a fragment. Returns `false` if its message had arrived before.
    ///
    /// - Throws: `.protocolViolation`.
    mutating func take(
        fragment bytes: [UInt8],
        _ number: UInt64,
        offset: Int,
        total: Int
    ) throws(TransportError) -> Bool {
        guard try isNew(number) else { return false }
        // They are taken out of the dictionary, so that they have one owner while they change.
        var fragments: Fragments
        if let known = partial.removeValue(forKey: number) {
            fragments = known
        } else {
            try hold(total)
            fragments = Fragments(total: total)
        }
        try fragments.insert(bytes, at: offset, of: total)
        if fragments.isComplete {
            finish(number, fragments.joined())
        } else {
            partial[number] = fragments
        }
        return true
    }

    private func isNew(_ number: UInt64) throws(TransportError) -> Bool {
        let first = finished.ranges.first
        let oldestMissing = first?.lowerBound == 0 ? (first?.upperBound ?? 0) + 1 : 0
        guard number < oldestMissing + ReliableTerms.numberWindow else {
            throw .lie("a message is too far ahead of those that are missing")
        }
        return !finished.contains(number)
    }

    private mutating func hold(_ size: Int) throws(TransportError) {
        guard size <= terms.maximumMessageSize else {
            throw .lie("a message of \(size) bytes is more than the limit of \(terms.maximumMessageSize)")
        }
        let cost = ReliableTerms.cost(size)
        guard held + cost <= terms.window else { throw .lie("the peer sent more than its credit") }
        held += cost
    }

    private mutating func finish(_ number: UInt64, _ bytes: [UInt8]) {
        _ = finished.insert(number)
        guard terms.isOrdered else { return ready.append(bytes) }
        guard number == next else {
            early[number] = bytes
            return
        }
        ready.append(bytes)
        next += 1
        while let bytes = early.removeValue(forKey: next) {
            ready.append(bytes)
            next += 1
        }
    }

    // MARK: Giving

    /// Whether no whole message waits to be given.
    var isEmpty: Bool { ready.isEmpty }

    /// Whether a message can be given now.
    var canGive: Bool {
        !ready.isEmpty && unconfirmed.count < inbox.messages && unconfirmedBytes < inbox.bytes
    }

    /// The next message; `nil` if none can be given out now.
    mutating func give() -> [UInt8]? {
        guard canGive, let bytes = ready.popFirst() else { return nil }
        if isConfirming {
            unconfirmed.append(bytes.count)
            unconfirmedBytes += bytes.count
        } else {
            release(bytes.count)
        }
        return bytes
    }

    /// Records that the receiver has processed the oldest message that was given out.
    mutating func confirm() {
        guard let size = unconfirmed.popFirst() else { return }
        unconfirmedBytes -= size
        release(size)
    }

    private mutating func release(_ size: Int) {
        let cost = ReliableTerms.cost(size)
        held -= cost
        done += UInt64(cost)
    }
}
