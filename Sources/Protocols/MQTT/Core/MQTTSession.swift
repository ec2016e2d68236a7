import TransportAPI

/// The state of a session on one side (MQTT 3.1.1, section 4.1). It contains the sent messages that the peer has not
/// acknowledged, and the received messages at QoS 2 that the peer has not released. A session that is not clean
/// outlives its connections. The core of each connection gets it in turn.
///
/// It is in memory only, so it ends with the process.
package final class MQTTSession: @unchecked Sendable {
    // Unchecked, because a session is only used on the loop of all its connections.

    /// A PUBLISH that is not acknowledged completely.
    struct Sent: Sendable {
        var publish: MQTTPublish
        /// The id of its sending, if later connections may ask for its completion (``SendID/named``); otherwise 0.
        var id: UInt64 = 0
        /// Whether PUBREC has arrived. The peer then has the message, and only PUBCOMP is missing.
        var isReleased = false
        /// The position in the order of sending. A PUBREL gets a new position (MQTT-4.6.0-1, MQTT-4.6.0-4).
        var order: UInt64
        /// Whether a later connection sends it again only when its caller asks for it.
        var waitsForCaller: Bool { id != 0 && !isReleased }
    }

    /// The most bytes of unacknowledged messages before further ones wait. One message may exceed it.
    static let maximumSentBytes = 4 << 20
    /// How many completed messages are remembered for callers that may ask about them.
    private static let maximumCompleted = 4096
    /// How many messages that were too large are remembered.
    private static let maximumTooLarge = 16

    /// The number that the owner gave the session. The core does not use it.
    package let id: UInt64
    /// Whether the session ends with its connection. Sent messages are then not stored.
    package let isClean: Bool
    /// At a broker: the client identifier in UTF-8.
    package let name: [UInt8]
    /// At a broker: the messages for the client that were not sent yet.
    package var outbox: MQTTOutbox
    /// Whether the client makes its subscriptions on each new connection before unacknowledged messages are sent again.
    var subscribesFirst = false
    private(set) var sent: [UInt16: Sent] = [:]
    /// The packet identifiers that were answered by PUBREC and not released by PUBREL.
    var received: Set<UInt16> = []
    /// Named messages that a connection has completed for an earlier one, and no caller has asked about since.
    private var completed: Set<UInt64> = []
    /// The messages that have ended a connection because of their size, oldest first.
    private var tooLarge: [DiscardedMessage] = []
    private var sentBytes = 0
    private var lastOrder: UInt64 = 0
    private var turn: UInt64 = 0
    /// Whether a CONNECT is not answered yet.
    private var isAsked = false
    /// A number for the last session that the broker has begun in an answer.
    private var beginning: UInt64 = 0
    /// At a client: the session at the broker. `nil` before the first CONNACK.
    private(set) var brokerSession: BrokerSession?

    /// Creates an empty session.
    package init(id: UInt64 = 0, isClean: Bool = false, name: [UInt8] = [], outbox: MQTTOutbox = MQTTOutbox()) {
        self.id = id
        self.isClean = isClean
        self.name = name
        self.outbox = outbox
    }

    /// At a client: records that CONNECT is sent. If an earlier one was never answered, the broker may have begun an empty session for
    /// it, and may continue that one now.
    func asks() {
        if isAsked { brokerSession = nil }
        isAsked = true
    }

    /// At a client: records that CONNACK has come.
    func answered(isPresent: Bool, using random: inout RandomSource) {
        if !isPresent { beginning = random.next() }
        if !isPresent || brokerSession == nil {
            brokerSession = BrokerSession(number: random.next(), beginning: beginning)
        }
    }

    /// Hands the session to a connection. The number returned is that connection's right to use it, until the next
    /// connection begins.
    func begin() -> UInt64 {
        turn += 1
        isAsked = false
        return turn
    }

    func belongs(to turn: UInt64) -> Bool { self.turn == turn }

    /// The size of all messages that the session buffers, in bytes.
    package var bufferedBytes: Int { outbox.bytes + sentBytes }

    /// Ends the session. It stores nothing any more, and no connection may use it.
    package func end() {
        turn += 1
        outbox.removeAll()
        for entry in sent.values where !entry.isReleased { outbox.quota?.remove(entry.publish) }
        sent = [:]
        sentBytes = 0
    }

    /// Whether another message may be sent and stored.
    var hasRoom: Bool { sentBytes < Self.maximumSentBytes }

    /// Stores a PUBLISH that was sent for the first time.
    func note(_ publish: MQTTPublish, id: UInt64) {
        guard !isClean else { return }
        lastOrder += 1
        sent[publish.packetID] = Sent(publish: publish, id: SendID.isNamed(id) ? id : 0, order: lastOrder)
        sentBytes += publish.bufferedBytes
        outbox.quota?.add(publish)
    }

    /// PUBREC has arrived. The peer has the message, so its payload is dropped.
    func release(_ packetID: UInt16) {
        guard var entry = sent[packetID], !entry.isReleased else { return }
        sentBytes -= entry.publish.bufferedBytes
        outbox.quota?.remove(entry.publish)
        lastOrder += 1
        entry.publish.payload = []
        entry.isReleased = true
        entry.order = lastOrder
        sent[packetID] = entry
    }

    /// PUBACK or PUBCOMP has arrived.
    ///
    /// - Parameters:
    ///   - packetID: The packet identifier of the message.
    ///   - isAwaited: Whether a caller of this connection waits for it. If not, a named message is remembered as
    ///     completed.
    func settle(_ packetID: UInt16, isAwaited: Bool) {
        guard let entry = sent.removeValue(forKey: packetID) else { return }
        if entry.id != 0, !isAwaited { noteCompleted(entry.id) }
        guard !entry.isReleased else { return }
        sentBytes -= entry.publish.bufferedBytes
        outbox.quota?.remove(entry.publish)
    }

    private func noteCompleted(_ id: UInt64) {
        // Ids that are still in the set belong to callers that have given up.
        if completed.count >= Self.maximumCompleted { completed = [] }
        completed.insert(id)
    }

    /// Whether a named message has been completed. The session then forgets it.
    func takeCompleted(_ id: UInt64) -> Bool { completed.remove(id) != nil }

    /// A named message that is not acknowledged completely.
    func entry(of id: UInt64) -> Sent? { sent.first { $0.value.id == id }?.value }

    /// Drops a named message, which no caller waits for any more. The peer may have received it.
    ///
    /// At QoS 2 the peer may store its packet identifier, and would take the next message under it for a repetition. So
    /// PUBREL follows over the next connection, whether the peer knows the identifier or not.
    package func forget(_ id: UInt64) {
        completed.remove(id)
        guard let entry = entry(of: id) else { return }
        let packetID = entry.publish.packetID
        guard entry.publish.qos == .exactlyOnce else { return settle(packetID, isAwaited: true) }
        release(packetID)
        sent[packetID]?.id = 0
    }

    /// Records a message that has ended the connection because of its size.
    func noteTooLarge(_ message: DiscardedMessage) {
        if tooLarge.count >= Self.maximumTooLarge { tooLarge.removeFirst() }
        tooLarge.append(message)
    }

    /// Whether a message of this topic and size has ended a connection.
    func hasRefused(_ message: DiscardedMessage) -> Bool { tooLarge.contains(message) }

    /// The peer does not know the session, so it will neither release nor complete a message. It may have lost every
    /// message that it has not confirmed.
    func peerForgot() {
        received = []
        sent = sent.filter { !$0.value.isReleased }
    }

    /// The unacknowledged packets in the order in which they have to be sent again.
    var unacknowledged: [Sent] { sent.values.sorted { $0.order < $1.order } }
}
