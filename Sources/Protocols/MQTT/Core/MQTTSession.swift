import TransportAPI

/// What one side keeps of a session (MQTT 3.1.1, section 4.1): what it has sent and the peer has not acknowledged,
/// and which messages of QoS 2 it has received and the peer has not released. It outlives the connections of a
/// session that is not clean; each connection's core gets it in turn.
///
/// It lives in memory: a process that ends forgets it.
package final class MQTTSession: @unchecked Sendable {
    // Unchecked, because a session is only ever touched on the loop on which all of its connections live.

    /// A PUBLISH without its acknowledgement.
    struct Sent: Sendable {
        var publish: MQTTPublish
        /// The id under which it was sent, if later connections may ask for it (``SendID/named``); 0 if not.
        var id: UInt64 = 0
        /// PUBREC has come: the peer has the message, and PUBCOMP is missing.
        var isReleased = false
        /// Greater than that of all that was sent before, a PUBREL counting anew (MQTT-4.6.0-1, MQTT-4.6.0-4).
        var order: UInt64
    }

    /// How many bytes of messages may be unacknowledged before further ones wait; one message may pass it.
    static let maximumSentBytes = 4 << 20
    /// How many completed messages are remembered for callers who may ask about them.
    private static let maximumCompleted = 4096
    /// How many messages are remembered that were too large.
    private static let maximumTooLarge = 16

    /// Who this is to its owner; of no meaning to the core.
    package let id: UInt64
    /// Whether it ends with its connection. What was sent is not kept then.
    package let isClean: Bool
    /// The client identifier, in UTF-8, at a broker.
    package let name: [UInt8]
    /// Messages that a broker has for this client and has not sent.
    package var outbox: MQTTOutbox
    private(set) var sent: [UInt16: Sent] = [:]
    /// Packet identifiers that PUBREC has answered and PUBREL has not released.
    var received: Set<UInt16> = []
    /// Named messages that a connection has completed for the one before it, and nobody has asked about since.
    private var completed: Set<UInt64> = []
    /// The messages that have ended a connection by their size, oldest first.
    private var tooLarge: [DiscardedMessage] = []
    private var sentBytes = 0
    private var lastOrder: UInt64 = 0
    private var turn: UInt64 = 0

    package init(id: UInt64 = 0, isClean: Bool = false, name: [UInt8] = [], outbox: MQTTOutbox = MQTTOutbox()) {
        self.id = id
        self.isClean = isClean
        self.name = name
        self.outbox = outbox
    }

    /// Hands the session to a connection. The number given is that connection's right to use it, until the next one has it.
    func begin() -> UInt64 {
        turn += 1
        return turn
    }

    func belongs(to turn: UInt64) -> Bool { self.turn == turn }

    /// How many bytes of messages it keeps.
    package var keptBytes: Int { outbox.bytes + sentBytes }

    /// Ends the session: it keeps nothing any more, and no connection has a right to it.
    package func end() {
        turn += 1
        outbox.removeAll()
        for entry in sent.values where !entry.isReleased { outbox.quota?.remove(entry.publish) }
        sent = [:]
        sentBytes = 0
    }

    /// Whether another message may be sent and kept.
    var hasRoom: Bool { sentBytes < Self.maximumSentBytes }

    /// A PUBLISH was sent for the first time.
    func note(_ publish: MQTTPublish, id: UInt64) {
        guard !isClean else { return }
        lastOrder += 1
        sent[publish.packetID] = Sent(publish: publish, id: SendID.isNamed(id) ? id : 0, order: lastOrder)
        sentBytes += publish.keptBytes
        outbox.quota?.add(publish)
    }

    /// PUBREC has come. The message is the peer's, and is not kept here any longer.
    func release(_ packetID: UInt16) {
        guard var entry = sent[packetID], !entry.isReleased else { return }
        sentBytes -= entry.publish.keptBytes
        outbox.quota?.remove(entry.publish)
        lastOrder += 1
        entry.publish.payload = []
        entry.isReleased = true
        entry.order = lastOrder
        sent[packetID] = entry
    }

    /// PUBACK or PUBCOMP has come.
    ///
    /// - Parameter isAwaited: whether the connection's caller waits for it; what was named is remembered otherwise.
    func settle(_ packetID: UInt16, isAwaited: Bool) {
        guard let entry = sent.removeValue(forKey: packetID) else { return }
        if entry.id != 0, !isAwaited { noteCompleted(entry.id) }
        guard !entry.isReleased else { return }
        sentBytes -= entry.publish.keptBytes
        outbox.quota?.remove(entry.publish)
    }

    private func noteCompleted(_ id: UInt64) {
        // Those left over are of callers that have given up.
        if completed.count >= Self.maximumCompleted { completed = [] }
        completed.insert(id)
    }

    /// Whether a named message has been completed; it is forgotten then.
    func takeCompleted(_ id: UInt64) -> Bool { completed.remove(id) != nil }

    /// The packet identifier under which a named message is in flight.
    func packetID(of id: UInt64) -> UInt16? { sent.first { $0.value.id == id }?.key }

    /// A message has ended the connection by its size.
    func noteTooLarge(_ message: DiscardedMessage) {
        if tooLarge.count >= Self.maximumTooLarge { tooLarge.removeFirst() }
        tooLarge.append(message)
    }

    /// Whether a message of this topic and size has ended a connection.
    func hasRefused(_ message: DiscardedMessage) -> Bool { tooLarge.contains(message) }

    /// The peer does not know the session: it releases nothing and completes nothing. What it has not confirmed, it
    /// may not have.
    func farSideForgot() {
        received = []
        sent = sent.filter { !$0.value.isReleased }
    }

    /// What is unacknowledged, in the order in which it has to be sent again.
    var unacknowledged: [Sent] { sent.values.sorted { $0.order < $1.order } }
}
