import TransportAPI

// Exactly once (MQTT 3.1.1, section 4.3.3), and what a session hands from connection to connection (sections 4.1 and 4.4).
extension MQTTCore {
    /// The id of messages whose acknowledgement nobody waits for. Drivers count theirs from 1.
    static let nobody = UInt64.max
    /// How many bytes may wait for the kernel before messages of the outbox do.
    private static let maximumOutput = 1 << 20

    /// A message that was received, to be confirmed when its receiver is done with it.
    struct Unconfirmed: Sendable {
        var packetID: UInt16
        var qos: MQTTQoS
        /// It was passed over, so that no receiver will be done with it: its turn comes when those before it are confirmed.
        var isDiscarded = false
    }

    /// The session, as long as no later connection has it.
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
                        "PUBREC has packet identifier \(packetID), under which nothing is in flight (section 2.3.1)"
                    )
                }
                // A peer that was sent the message over two connections, or was restarted, may answer what is settled.
                // It still has the message and is told to go on with it; otherwise it would be held, and lost.
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
            // One that is not known is answered too: its message is none that is still to be delivered.
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
        live?.settle(packetID, isAwaited: id != Self.nobody)
        return id == Self.nobody ? nil : .acknowledged(id)
    }

    /// An acknowledgement of what is not in flight changes nothing. It may be an answer that was given twice, over two
    /// connections or by a peer that was restarted.
    private mutating func ignore(_ context: inout CoreContext) {
        context.counters.unexpectedAcknowledgements &+= 1
        countRepetition(&context)
    }

    private func withoutExactlyOnce() -> TransportError {
        let peer = isClient ? "broker" : "client"
        let sentence = "the \(peer) answers a PUBLISH of QoS 2 with PUBACK instead of PUBREC (section 4.3.3)"
        guard isClient else { return TransportError(.protocolViolation, .open, sentence) }
        return TransportError(.unsupported, .open, "\(sentence), so it has no QoS 2; send at QoS 1")
    }

    // MARK: The receiver

    /// Whether a PUBLISH at QoS 2 is one that was taken before (MQTT-4.3.3-2); such a one is answered, if at all.
    ///
    /// Over one connection the identifier decides. One that is left of a former connection, and comes without DUP, is
    /// of a new message: who sends again has to say so (MQTT-3.3.1-1), and a peer that has lost its memory begins
    /// anew with the same numbers.
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

    /// Whether an identifier was left of a former connection until now: it has come over this one.
    private mutating func takeInherited(_ packetID: UInt16) -> Bool {
        guard !inherited.isEmpty, inherited.remove(packetID) != nil else { return false }
        if inherited.isEmpty { inherited = [] }
        return true
    }

    /// A packet came that brings nothing new. In a session that outlives its connections, a peer that has lost one
    /// sends what it has in flight again (MQTT-4.4.0-1); anything more, or without such a session, only wants answers.
    private mutating func countRepetition(_ context: inout CoreContext) {
        if repetitionsLeft > 0 { repetitionsLeft -= 1 } else { context.counters.controlWork &+= 1 }
    }

    /// Takes responsibility for a message of QoS 2: the same one is not delivered again.
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

    /// Acknowledges a message that was passed over, behind those that came before it (MQTT-4.6.0-2).
    mutating func confirmDiscarded(_ message: MQTTOversized, _ context: inout CoreContext) {
        unconfirmed.append(Unconfirmed(packetID: message.packetID, qos: message.qos, isDiscarded: true))
        confirmDiscarded(&context)
    }

    private mutating func confirmDiscarded(_ context: inout CoreContext) {
        while unconfirmed.first?.isDiscarded == true { confirm(unconfirmed.removeFirst(), &context) }
    }

    private mutating func confirm(_ message: Unconfirmed, _ context: inout CoreContext) {
        guard state == .open || state == .subscribing else {
            // Too late for PUBREC, but the next connection is to know the message when it comes again.
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

    /// Takes the session over from the connection before. What that has left in flight keeps its packet identifiers.
    mutating func takeUpSession(isPresent: Bool, _ context: inout CoreContext) {
        guard let session else { return }
        turn = session.begin()
        if !isPresent { session.farSideForgot() }
        received = session.received
        inherited = received
        repetitionsLeft = session.isClean ? 0 : maximumUnreleased
        for entry in session.unacknowledged {
            let kind: InFlight.Kind =
                entry.isReleased ? .release : entry.publish.qos == .exactlyOnce ? .exactlyOnce : .publish
            inFlight.resume(kind, entry.publish.packetID, id: Self.nobody, now: context.now)
        }
        if inFlight.count > 0 { expectAcknowledgement(context.now) }
    }

    package mutating func completion(of id: UInt64) -> SendCompletion? {
        guard let live else { return nil }
        if live.takeCompleted(id) { return .acknowledged }
        guard let packetID = live.packetID(of: id), inFlight.adopt(packetID, as: id) else { return nil }
        return .pending
    }

    /// Sends what is unacknowledged again, with its packet identifiers (MQTT-4.4.0-1).
    mutating func resendUnacknowledged(_ context: inout CoreContext) {
        for entry in live?.unacknowledged ?? [] {
            if entry.isReleased {
                write(.pubrel, entry.publish.packetID, &context)
            } else {
                var publish = entry.publish
                publish.isDuplicate = true
                MQTTPacketWriter.write(.publish(publish), into: &context.output)
                keepAlive.lastSent = context.now
            }
        }
    }

    /// Server: sends what waits for this client, as far as the window and the output have room. The acknowledgement of what
    /// is in flight brings the rest on its way, so that something has to be.
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
                    id: Self.nobody,
                    &context
                )
            } catch {
                // Larger than this connection takes: it can't ever be sent.
            }
            guard status != .blocked else { return }
            session.outbox.removeFirst()
        }
    }
}
