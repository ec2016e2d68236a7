import Primitives
import TransportAPI

/// The acknowledgements of stanzas in both directions (XEP-0198, section 4), from the moment on that both sides have agreed
/// on them.
///
/// Each side counts the stanzas that it has received. `<r/>` asks for that number, and `<a h='…'/>` answers. There is one
/// request on its way while callers wait for the outcome of messages, so a burst of messages costs one exchange and not one
/// for each message.
///
/// A peer may answer before it has handled a message, and then it is asked again. It has no more time for that than a peer
/// that does not answer.
struct XMPPAcknowledgements: Sendable {
    /// A message whose caller waits for its outcome.
    private struct Awaited: Sendable {
        /// Its place among the stanzas that this side has sent, modulo 2^32.
        var place: UInt32
        /// Its number on this connection.
        var number: UInt64
        /// The id under which its caller knows it.
        var id: UInt64
    }

    /// The awaited messages that are not acknowledged, oldest first.
    private var awaited = Deque<Awaited>()
    /// The numbers of messages among them that the peer has refused.
    private var refused: Set<UInt64> = []
    /// How many stanzas this side has sent, modulo 2^32.
    private var sent: UInt32 = 0
    /// How many of them the peer has acknowledged, modulo 2^32.
    private var acknowledged: UInt32 = 0
    /// How many stanzas this side has received, modulo 2^32.
    private(set) var received: UInt32 = 0
    /// Whether a stanza has come since the peer's last request.
    private var hasReceived = false
    /// How many requests were sent, and how many of them are answered.
    private var requests: UInt64 = 0
    private var answers: UInt64 = 0
    /// How many stanzas this side had sent at the last request, modulo 2^32.
    private var asked: UInt32 = 0
    /// Since when the oldest request has no answer, or no answer has acknowledged anything; `nil` if nothing is missing.
    private(set) var since: Instant?
    /// Whether the peer has answered every request, but not acknowledged a message before the last one.
    private(set) var isWithheld = false
    /// When to ask the peer again that has withheld an acknowledgement; `nil` if a request is on its way.
    private(set) var askAgain: Instant?
    /// The most messages that may wait.
    let window: Int

    init(window: Int) {
        self.window = window
    }

    /// Whether another message may wait.
    var hasRoom: Bool { awaited.count < window }

    /// The memory of the messages that wait, in bytes.
    var bufferedBytes: Int { awaited.count * MemoryLayout<Awaited>.stride }

    /// Notes that this side has sent a stanza.
    mutating func send() { sent &+= 1 }

    /// Notes that the caller of the message that was just sent waits for its outcome.
    mutating func await(number: UInt64, id: UInt64) {
        awaited.append(Awaited(place: sent, number: number, id: id))
    }

    /// Notes that the peer has refused a message. Returns the id of its caller; `nil` if none waits.
    mutating func refuse(number: UInt64) -> UInt64? {
        for message in awaited where message.number == number {
            return refused.insert(number).inserted ? message.id : nil
        }
        return nil
    }

    /// Whether messages wait.
    var isAwaited: Bool { !awaited.isEmpty }

    /// Whether to ask now, because messages wait, no request is on its way, and the peer has not just answered.
    var mustAsk: Bool { since == nil && isAwaited }

    /// How long a peer that has withheld an acknowledgement is left alone.
    private static let pause = Duration.seconds(1)

    /// Notes that this side asks. Returns the number of the request.
    mutating func ask(now: Instant) -> UInt64 {
        requests += 1
        (asked, askAgain) = (sent, nil)
        if since == nil { since = now }
        return requests
    }

    /// Notes that a stanza was received.
    mutating func receive() {
        received &+= 1
        hasReceived = true
    }

    /// Notes that the peer asks. Returns whether it has sent a stanza since it last asked.
    mutating func isAsked() -> Bool {
        defer { hasReceived = false }
        return hasReceived
    }

    /// Handles an answer. Returns the number of the request that it answers, `nil` for an answer without one, and whether
    /// it acknowledges a stanza.
    ///
    /// - Parameter report: called with the id of each awaited message that is acknowledged.
    mutating func answer(
        _ element: XMPPElement,
        now: Instant,
        _ report: (UInt64) -> Void
    ) throws(XMPPFault) -> (request: UInt64?, isNews: Bool) {
        guard let text = element["h"], let number = UInt32(text), text.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 })
        else { throw XMPPFault("bad-format", "the peer sent an acknowledgement without a number of stanzas") }
        let (count, open) = (number &- acknowledged, sent &- acknowledged)
        guard count <= open else {
            let sentence = "the peer acknowledged \(count) stanzas, but only \(open) were not acknowledged"
            throw XMPPFault("undefined-condition", sentence)
        }
        acknowledged = number
        // The place of what is not acknowledged is after that number, by less than half of all numbers.
        while let message = awaited.first, Int32(truncatingIfNeeded: number &- message.place) >= 0 {
            _ = awaited.popFirst()
            if refused.remove(message.number) == nil { report(message.id) }
        }
        let (isNews, isAnswer) = (count > 0, answers < requests)
        if isAnswer { answers += 1 }
        if answers < requests {
            if isNews || !isAwaited { since = now }
        } else if !isNews, let message = awaited.first, Int32(truncatingIfNeeded: asked &- message.place) >= 0 {
            if isAnswer { (isWithheld, askAgain) = (true, now.advanced(by: Self.pause)) }
        } else {
            (since, isWithheld, askAgain) = (nil, false, nil)
        }
        return (isAnswer ? answers : nil, isNews)
    }
}
