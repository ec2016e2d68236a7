import Primitives
import TransportAPI

/// The messages that arrive: puts fragments together, gives each message once and, if ordered, in the order of sending, and
/// counts what the peer may send.
///
/// All that is held, from a message's first fragment until its receiver is done with it, fits the window that the peer
/// was told; who sends more breaks the protocol, and nothing is allocated for it.
struct ReliableReceiver: Sendable {
    let terms: ReliableTerms
    /// How many messages, and bytes of them, may wait for their receiver before no more are given.
    private let inbox: (messages: Int, bytes: Int)
    /// Whether ``confirm()`` tells when a receiver is done with a message.
    private let isConfirming: Bool

    /// Messages of which fragments are missing.
    private var partial: [UInt64: Fragments] = [:]
    /// Whole messages, of which one before is missing.
    private var early: [UInt64: [UInt8]] = [:]
    private var ready = Deque<[UInt8]>()
    /// The sizes of the messages that were given and whose receiver is not done with them.
    private var unconfirmed = Deque<Int>()
    private var unconfirmedBytes = 0
    /// The messages that have arrived whole.
    var finished = NumberRanges()
    /// The number of the next message, if ordered.
    private var next: UInt64 = 0
    /// The costs of all that is held, at most the window.
    private(set) var held = 0
    /// The costs of all that receivers are done with.
    private var done: UInt64 = 0
    private var creditTold: UInt64

    init(_ terms: ReliableTerms, inbox: (messages: Int, bytes: Int), isConfirming: Bool) {
        self.terms = terms
        self.inbox = inbox
        self.isConfirming = isConfirming
        creditTold = UInt64(terms.window)
    }

    /// How much the peer may have sent by now, from the beginning.
    var credit: UInt64 { done + UInt64(terms.window) }

    /// Whether so much more may be sent that the peer should hear of it.
    var isCreditWorthTelling: Bool { credit - creditTold >= UInt64(terms.window / 4) }

    mutating func toldCredit() {
        creditTold = credit
    }

    /// How many messages are whole or in pieces and were not given yet.
    var waiting: Int { partial.count + early.count + ready.count }

    // MARK: Arriving

    /// A whole message has arrived. `false` if it was here before.
    mutating func take(whole bytes: [UInt8], _ number: UInt64) throws(TransportError) -> Bool {
        guard try isNew(number) else { return false }
        if let fragments = partial.removeValue(forKey: number) {
            // It was cut when it was sent again, and one of the first packets comes late.
            guard fragments.total == bytes.count else { throw .lie("the fragments of a message announce another size") }
        } else {
            try hold(bytes.count)
        }
        finish(number, bytes)
        return true
    }

    /// A fragment has arrived. `false` if its message was here before.
    mutating func take(
        fragment bytes: [UInt8],
        _ number: UInt64,
        offset: Int,
        total: Int
    ) throws(TransportError) -> Bool {
        guard try isNew(number) else { return false }
        // Taken out, so that the fragments have one owner while they change.
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
        guard held + cost <= terms.window else { throw .lie("more was sent than there was credit for") }
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

    /// The next message.
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

    /// The receiver is done with the oldest message that was given.
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
