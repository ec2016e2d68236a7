import Protocols
import TransportAPI

/// The messages that no filter of the app has matched so far, oldest first. They wait for one, because an app makes its
/// subscriptions one after the other, and a broker that continues a session sends its messages before that.
struct UnclaimedMessages {
    /// How a message is acknowledged to the broker.
    enum Acknowledgement {
        /// It was, or need not be.
        case made
        /// By its receipt, over a supervisor. If the connection ends before, the broker sends the message again to the
        /// continued session.
        case receipt(ReceivedMessage, from: Source)
        /// Under this key, over a single connection.
        case key(UInt64)
    }

    /// Where a message came from.
    struct Source {
        /// The endpoint of the broker.
        var broker: Endpoint?
        /// The session there; `nil` for one that ends with its connection.
        var session: BrokerSession?
    }

    struct Message {
        var payload: Payload
        var acknowledgement: Acknowledgement

        /// Whether the connection has ended over which the message could have been acknowledged, so that the next one of
        /// its session may bring the message again. Without a session only a queue brings it again, and marks it as a
        /// repetition; a topic does not, so this copy is kept.
        var mayComeAgain: Bool {
            guard case .receipt(let message, let source) = acknowledgement, source.session != nil else { return false }
            return !message.awaitsAcknowledgement
        }
    }

    private var messages: [Message] = []
    /// How many messages count towards the limits of the client. Messages with a receipt count towards those of the
    /// supervisor.
    private(set) var count = 0
    /// How much memory these messages take, in bytes.
    private(set) var bytes = 0

    var isEmpty: Bool { messages.isEmpty }

    mutating func append(_ payload: Payload, _ acknowledgement: Acknowledgement) {
        let message = Message(payload: payload, acknowledgement: acknowledgement)
        messages.append(message)
        count(message, 1)
    }

    /// Removes and returns the messages that satisfy a condition, in order.
    mutating func take(where isWanted: (Message) -> Bool) -> [Message] {
        let taken = messages.filter(isWanted)
        guard !taken.isEmpty else { return [] }
        messages.removeAll(where: isWanted)
        for message in taken { count(message, -1) }
        return taken
    }

    /// A broker has accepted a connection, after the one before has ended. If it has continued the session of a message that was
    /// not acknowledged, it sends the message again, so it is dropped here. If it has lost that session, this is the only
    /// copy, and needs no acknowledgement. An attempt that failed after its CONNACK may have begun the session that is
    /// continued now. If only an unanswered attempt can have done so, the message is dropped here, because it must not arrive
    /// twice at QoS 2.
    mutating func linked(to source: Source, isPresent: Bool) {
        let late = take { message in
            guard case .receipt(_, let former) = message.acknowledgement else { return false }
            return message.mayComeAgain && former.broker == source.broker
        }
        let only = late.filter { message in
            guard isPresent, case .receipt(_, let former) = message.acknowledgement else { return true }
            guard let session = source.session, let earlier = former.session else { return false }
            return session.isSurelyNew(after: earlier)
        }
        messages.insert(contentsOf: only.map { Message(payload: $0.payload, acknowledgement: .made) }, at: 0)
        for message in messages.prefix(only.count) { count(message, 1) }
    }

    private mutating func count(_ message: Message, _ change: Int) {
        if case .receipt = message.acknowledgement { return }
        count += change
        bytes += change * message.payload.bufferedBytes
    }
}
