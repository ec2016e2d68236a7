import TransportAPI

// Exactly once (MQTT 3.1.1, section 4.3.3), and the transfer of a session between connections (sections 4.1 and 4.4).
extension MQTTCore {
    /// The id of messages whose acknowledgement no caller awaits. Drivers count their ids from 1.
    static let noCaller = UInt64.max
    /// Messages stay in the outbox while this many bytes of output wait to be written.
    private static let maximumOutput = 1 << 20

    /// A received message that is confirmed when its receiver has processed it.
    struct Unconfirmed: Sendable {
        var packetID: UInt16
        var qos: MQTTQoS
        /// Whether the message was passed over. No receiver processes it, so it is confirmed right after those before
        /// it.
        var isDiscarded = false
    }

    /// The session, unless a later connection has taken it over.
    package var live: MQTTSession? {
        guard let session, session.belongs(to: turn) else { return nil }
        return session
    }

    // MARK: The sender

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
                guard let live, !live.isClean, kind != .publish else {
                    throw violation(
                        "PUBREC has packet identifier \(packetID), but no such packet is in flight (section 2.3.1)"
                    )
                }
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
            if received.remove(packetID) == nil { countRepetition(&context) }
            live?.received.remove(packetID)
            _ = takeInherited(packetID)
            write(.pubcomp, packetID, &context)
        default: break
        }
        return nil
    }

    private mutating func complete(_ kind: InFlight.Kind, _ packetID: UInt16) -> CoreEvent? {
        guard let id = inFlight.end(kind, packetID) else { return nil }
        if inFlight.count == 0 { acknowledgementDeadline = nil }
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
        let peer = isClient ? "broker" : "client"
        let sentence = "the \(peer) answers a PUBLISH of QoS 2 with PUBACK instead of PUBREC (section 4.3.3)"
        guard isClient else { return TransportError(.protocolViolation, .open, sentence) }
        return TransportError(.unsupported, .open, "\(sentence), so it does not support QoS 2; send at QoS 1")
    }

    // MARK: The receiver

    /// Whether a PUBLISH at QoS 2 repeats a message that was received before (MQTT-4.3.3-2). If that message was
    /// accepted, PUBREC is written again.
    ///
    /// Within one connection the identifier decides. An identifier from an earlier connection without DUP belongs to a
    /// new message. A sender has to set DUP on a repetition (MQTT-3.3.1-1), and a peer that has lost its state begins
    /// with the same numbers again.
    mutating func isRepeated(_ packetID: UInt16, isDuplicate: Bool, _ context: inout CoreContext) -> Bool {
        if takeInherited(packetID), !isDuplicate {
            received.remove(packetID)
            live?.received.remove(packetID)
            return false
        }
        let isTaken = received.contains(packetID)
        guard isTaken || unconfirmed.contains(where: { $0.packetID == packetID && $0.qos == .exactlyOnce })
        else { return false }
        context.counters.duplicates += 1
        countRepetition(&context)
        if isTaken { write(.pubrec, packetID, &context) }
        return true
    }

    /// Whether an identifier is from an earlier connection and has not arrived over this one before.
    private mutating func takeInherited(_ packetID: UInt16) -> Bool {
        guard !inherited.isEmpty, inherited.remove(packetID) != nil else { return false }
        if inherited.isEmpty { inherited = [] }
        return true
    }

    /// Counts a packet that contains nothing new. In a session that outlives its connections, a peer repeats its
    /// packets in flight after a lost connection (MQTT-4.4.0-1). Further repetitions, and all of them in another
    /// session, are control work.
    private mutating func countRepetition(_ context: inout CoreContext) {
        if repetitionsLeft > 0 { repetitionsLeft -= 1 } else { context.counters.controlWork &+= 1 }
    }

    /// Accepts a message at QoS 2. It is not delivered again.
    mutating func acceptOwnership(_ packetID: UInt16, _ context: inout CoreContext) {
        received.insert(packetID)
        live?.received.insert(packetID)
        write(.pubrec, packetID, &context)
    }

    package mutating func confirmReceipt(_ context: inout CoreContext) {
        guard !unconfirmed.isEmpty else { return }
        confirm(unconfirmed.removeFirst(), &context)
        confirmDiscarded(&context)
    }

    /// Acknowledges a message that was passed over, after those that came before it (MQTT-4.6.0-2).
    mutating func confirmDiscarded(_ message: MQTTOversized, _ context: inout CoreContext) {
        unconfirmed.append(Unconfirmed(packetID: message.packetID, qos: message.qos, isDiscarded: true))
        confirmDiscarded(&context)
    }

    private mutating func confirmDiscarded(_ context: inout CoreContext) {
        while unconfirmed.first?.isDiscarded == true { confirm(unconfirmed.removeFirst(), &context) }
    }

    private mutating func confirm(_ message: Unconfirmed, _ context: inout CoreContext) {
        guard state == .open || state == .subscribing else {
            // It is too late for PUBREC, but the next connection has to recognize a repetition of the message.
            if message.qos == .exactlyOnce { live?.received.insert(message.packetID) }
            return
        }
        switch message.qos {
        case .atMostOnce: break
        case .atLeastOnce: write(.puback, message.packetID, &context)
        case .exactlyOnce: acceptOwnership(message.packetID, &context)
        }
    }

    // MARK: From connection to connection

    /// Takes the session over from the earlier connection. Packets that were in flight there keep their packet
    /// identifiers.
    mutating func takeUpSession(isPresent: Bool, _ context: inout CoreContext) {
        guard let session else { return }
        turn = session.begin()
        if !isPresent { session.peerForgot() }
        received = session.received
        inherited = received
        repetitionsLeft = session.isClean ? 0 : maximumUnreleased
        for entry in session.unacknowledged {
            let kind: InFlight.Kind =
                entry.isReleased ? .release : entry.publish.qos == .exactlyOnce ? .exactlyOnce : .publish
            // A message that waits for its caller is not sent yet, so no time runs for its acknowledgement.
            let since = entry.waitsForCaller ? Instant(nanoseconds: .max) : context.now
            inFlight.resume(kind, entry.publish.packetID, id: Self.noCaller, now: since)
        }
        if inFlight.count > 0 { expectAcknowledgement(context.now) }
    }

    package mutating func completion(of id: UInt64, _ context: inout CoreContext) -> SendCompletion? {
        guard let live else { return nil }
        if live.takeCompleted(id) { return .acknowledged }
        guard let entry = live.entry(of: id), inFlight.adopt(entry.publish.packetID, as: id) else { return nil }
        // While messages are held, ``resendUnacknowledged(_:)`` follows.
        if entry.waitsForCaller, !mustResend { resend(entry.publish, &context) }
        return .pending
    }

    package func forget(_ id: UInt64) { session?.forget(id) }

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

    private mutating func resend(_ publish: MQTTPublish, _ context: inout CoreContext) {
        var publish = publish
        publish.isDuplicate = true
        MQTTPacketWriter.write(.publish(publish), into: &context.output)
        keepAlive.lastSent = context.now
        inFlight.restart(publish.packetID, now: context.now)
        // The time may not have run yet.
        if let due = acknowledgementDeadline, due == Instant(nanoseconds: .max) { acknowledgementDeadline = nil }
        expectAcknowledgement(context.now)
    }

    /// Server: sends the client's queued messages, as far as the window and the output have room. Acknowledgements of
    /// messages in flight cause the next call. So if none is in flight, a message is sent even if the output is full.
    mutating func sendOutbox(_ context: inout CoreContext) {
        guard state == .open, let session = live else { return }
        while let message = session.outbox.first,
            inFlight.count == 0 || waiting + context.output.count < Self.maximumOutput
        {
            var status = SendStatus.written
            do throws(TransportError) {
                status = try publish(
                    checked: message.topic,
                    message.payload,
                    qos: message.qos,
                    retain: message.retain,
                    id: Self.noCaller,
                    &context
                )
            } catch {
                // The message is larger than this connection allows, so it can never be sent.
            }
            guard status != .blocked else { return }
            session.outbox.removeFirst()
        }
    }
}
