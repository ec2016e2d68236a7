import TransportAPI

/// The part of an MQTT connection that is the same on both sides: the packets in both directions, the messages in flight, their
/// acknowledgements, and the session that continues over several connections.
package struct MQTTFlow: Sendable {
    /// The id of messages whose acknowledgement no caller awaits. Drivers count their ids from 1.
    static let noCaller = UInt64.max

    let role: CoreRole
    let maximumMessageSize: Int
    /// The QoS of payloads that choose none.
    let publishQoS: MQTTQoS
    var reader: MQTTPacketReader
    var inFlight: InFlight
    var receiver: ExactlyOnceReceiver
    var times = PathTimes()
    /// The session that outlives the connection, if there is one, and this connection's right to use it.
    var session: MQTTSession?
    private var turn: UInt64 = 0
    /// Whether the packets come over WebSocket.
    var isInsideWebSocket = false
    /// The bytes of output that wait to be written, in addition to the context's output.
    var waiting = 0
    /// How many bytes of the input the last ``ProtocolCore/next(_:_:)`` left unread: the beginning of a packet.
    var unread = 0

    init(
        _ role: CoreRole,
        reader: MQTTPacketReader,
        maximumMessageSize: Int,
        qos: MQTTQoS,
        inFlight: InFlight,
        maximumUnreleased: Int
    ) {
        self.role = role
        self.reader = reader
        self.maximumMessageSize = maximumMessageSize
        publishQoS = qos
        self.inFlight = inFlight
        receiver = ExactlyOnceReceiver(maximumUnreleased: maximumUnreleased)
    }

    /// The session, unless a later connection has taken it over.
    var live: MQTTSession? {
        guard let session, session.belongs(to: turn) else { return nil }
        return session
    }

    /// The properties of the connection for the app.
    func capabilities(keepalive interval: Int64, completesSends: Bool) -> Capabilities {
        Capabilities(
            hasNativePing: role == .client,
            acknowledgesMessages: publishQoS != .atMostOnce,
            completesSends: completesSends,
            routesByTopic: true,
            maximumMessageSize: maximumMessageSize,
            keepaliveInterval: interval > 0 ? .nanoseconds(interval) : .seconds(60),
            keepsItselfAlive: interval > 0
        )
    }

    /// Messages may flow.
    mutating func open(accepting types: MQTTPacketTypes) {
        reader.accepted = types
        reader.phase = .open
    }

    func violation(_ sentence: String) -> TransportError {
        TransportError(.protocolViolation, reader.phase, sentence)
    }
}

// Packets without content, and the counters of each packet that is written.
extension MQTTFlow {
    mutating func write(_ type: MQTTPacketType, _ context: inout CoreContext) {
        MQTTPacketWriter.bare(type, into: &context.output)
        countWritten(&context)
    }

    mutating func write(_ type: MQTTPacketType, _ packetID: UInt16, _ context: inout CoreContext) {
        MQTTPacketWriter.identified(type, packetID, into: &context.output)
        countWritten(&context)
    }

    mutating func countWritten(_ context: inout CoreContext) {
        context.counters.controlFrames += 1
        times.lastSent = context.now
    }
}

// The sender.
extension MQTTFlow {
    /// Writes a PUBLISH with this topic. The topic and the size are checked.
    @inline(__always)
    mutating func publish(
        checked topic: String,
        _ payload: [UInt8],
        qos: MQTTQoS,
        retain: Bool,
        id: UInt64,
        _ context: inout CoreContext
    ) -> SendStatus {
        var packetID: UInt16 = 0
        if qos != .atMostOnce {
            let kind: InFlight.Kind = qos == .exactlyOnce ? .exactlyOnce : .publish
            guard session?.hasRoom ?? true, let free = inFlight.begin(kind, id: id, now: context.now) else {
                return .blocked
            }
            packetID = free
            if let live { live.note(MQTTPublish(topic, payload, qos, retain: retain, packetID), id: id) }
        }
        topic.withContiguousUTF8 {
            MQTTPacketWriter.publish(
                topic: $0,
                payload: payload,
                qos: qos,
                retain: retain,
                packetID: packetID,
                into: &context.output
            )
        }
        times.lastSent = context.now
        return qos == .atMostOnce ? .written : .awaitingAcknowledgement
    }

    @inline(__always)
    static func check(topic: String) throws(TransportError) {
        guard MQTTTopic.isName(topic) else {
            throw .configuration("topic", "'\(topic)' must be 1 to 65535 bytes without + and #")
        }
    }

    @inline(__always)
    func check(size: Int) throws(TransportError) {
        guard size <= maximumMessageSize else { throw tooLarge(size) }
    }

    @inline(never)
    private func tooLarge(_ count: Int) -> TransportError {
        TransportError(.messageTooLarge, .open, "the message has \(count) bytes, \(maximumMessageSize) are allowed")
    }

    @inline(never)
    func noTopic() -> TransportError {
        .configuration("publish", "names no topic, and the payload has none")
    }

    /// Reads PUBACK, PUBREC, PUBREL or PUBCOMP.
    mutating func receiveAcknowledgement(
        _ packet: MQTTPacket,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        switch packet {
        case .puback(let packetID):
            switch inFlight.kind(of: packetID) {
            case .publish: return complete(.publish, packetID)
            case .exactlyOnce: throw withoutExactlyOnce()
            case .free, .release, .subscribe, .unsubscribe: ignore(&context)
            }
        case .pubrec(let packetID):
            let kind = inFlight.kind(of: packetID)
            if kind == .exactlyOnce || kind == .release {
                if kind == .release { countRepetition(&context) }
                _ = inFlight.release(packetID, now: context.now)
                live?.release(packetID)
            } else {
                guard let live, !live.isClean, kind != .publish else { throw notInFlight("PUBREC", packetID) }
                // The message may be complete on this side. The peer may have received it over two connections, or may
                // have been restarted. It still stores the message, and would never deliver it without PUBREL.
                countRepetition(&context)
            }
            write(.pubrel, packetID, &context)
        case .pubcomp(let packetID):
            guard inFlight.kind(of: packetID) == .release else {
                ignore(&context)
                return nil
            }
            return complete(.release, packetID)
        case .pubrel(let packetID):
            // An unknown identifier is answered too, because no message is to be delivered under it.
            if !receiver.release(packetID, in: live) { countRepetition(&context) }
            write(.pubcomp, packetID, &context)
        default: break
        }
        return nil
    }

    private mutating func complete(_ kind: InFlight.Kind, _ packetID: UInt16) -> CoreEvent? {
        guard let id = inFlight.end(kind, packetID) else { return nil }
        live?.settle(packetID, isAwaited: id != Self.noCaller)
        return id == Self.noCaller ? nil : .acknowledged(id)
    }

    /// Ignores an acknowledgement of a packet that is not in flight. The peer may have answered twice, over two
    /// connections or because it was restarted.
    private mutating func ignore(_ context: inout CoreContext) {
        context.counters.unexpectedAcknowledgements &+= 1
        countRepetition(&context)
    }

    private func withoutExactlyOnce() -> TransportError {
        let peer = role == .client ? "broker" : "client"
        let sentence = "the \(peer) answers a PUBLISH of QoS 2 with PUBACK instead of PUBREC (section 4.3.3)"
        guard role == .client else { return TransportError(.protocolViolation, .open, sentence) }
        return TransportError(.unsupported, .open, "\(sentence), so it does not support QoS 2; send at QoS 1")
    }

    /// The error for the acknowledgement `name` of a packet that is not in flight.
    func notInFlight(_ name: String, _ packetID: UInt16) -> TransportError {
        violation("\(name) has packet identifier \(packetID), but no such packet is in flight (section 2.3.1)")
    }
}

// The receiver.
extension MQTTFlow {
    /// Whether a PUBLISH at QoS 2 repeats a message that was accepted before. PUBREC is written again then.
    mutating func isRepeated(_ packetID: UInt16, isDuplicate: Bool, _ context: inout CoreContext) -> Bool {
        guard receiver.isRepeated(packetID, isDuplicate: isDuplicate, in: live) else { return false }
        countDuplicate(&context)
        write(.pubrec, packetID, &context)
        return true
    }

    /// Accepts a message at QoS 2. It is not delivered again.
    mutating func acceptOwnership(_ packetID: UInt16, _ context: inout CoreContext) {
        receiver.accept(packetID, in: live)
        write(.pubrec, packetID, &context)
    }

    /// Counts a message that arrived again.
    mutating func countDuplicate(_ context: inout CoreContext) {
        context.counters.duplicates += 1
        countRepetition(&context)
    }

    private mutating func countRepetition(_ context: inout CoreContext) {
        if receiver.isRepetitionWork() { context.counters.controlWork &+= 1 }
    }

    /// Throws if no more messages at QoS 2 may wait for PUBREL.
    @inline(__always)
    func checkUnreleased() throws(TransportError) {
        guard receiver.hasRoom else { throw tooManyUnreleased() }
    }

    @inline(never)
    private func tooManyUnreleased() -> TransportError {
        .tooMany("more than \(receiver.maximumUnreleased) messages at QoS 2 wait for PUBREL", .open)
    }
}

// From connection to connection (sections 4.1 and 4.4).
extension MQTTFlow {
    /// Takes the session over from the earlier connection. Packets that were in flight there keep their packet
    /// identifiers.
    mutating func resumeSession(isPresent: Bool, _ context: inout CoreContext) {
        guard let session else { return }
        turn = session.begin()
        if !isPresent { session.peerForgot() }
        receiver.resume(session)
        for entry in session.unacknowledged {
            let kind: InFlight.Kind =
                entry.isReleased ? .release : entry.publish.qos == .exactlyOnce ? .exactlyOnce : .publish
            // A message that waits for its caller is not sent yet, so no time runs for its acknowledgement.
            let since = entry.waitsForCaller ? Instant(nanoseconds: .max) : context.now
            inFlight.resume(kind, entry.publish.packetID, id: Self.noCaller, now: since)
        }
        if inFlight.count > 0 { inFlight.expect(since: context.now) }
    }

    /// Sends the unacknowledged packets again, with their packet identifiers (MQTT-4.4.0-1). A message with a name waits
    /// until its caller asks for its completion. So a supervisor that looks for a message which its broker refuses can send
    /// one at a time.
    mutating func resendUnacknowledged(_ context: inout CoreContext) {
        for entry in live?.unacknowledged ?? [] {
            if entry.isReleased {
                write(.pubrel, entry.publish.packetID, &context)
            } else if !entry.waitsForCaller || inFlight.isAdopted(entry.publish.packetID) {
                resend(entry.publish, &context)
            }
        }
    }

    mutating func resend(_ publish: MQTTPublish, _ context: inout CoreContext) {
        var publish = publish
        publish.isDuplicate = true
        MQTTPacketWriter.write(.publish(publish), into: &context.output)
        times.lastSent = context.now
        inFlight.restart(publish.packetID, now: context.now)
    }
}
