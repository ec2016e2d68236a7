import TransportAPI

// The reliable mode: its handshake, and what of the session it changes.

extension Capabilities {
    static func reliable(_ isOrdered: Bool, _ maximumMessageSize: Int) -> Capabilities {
        Capabilities(isReliable: true, isOrdered: isOrdered, maximumMessageSize: maximumMessageSize)
    }
}

// MARK: Handshake

extension UDPCore {
    func writeConfirm(_ context: inout CoreContext) {
        guard configuration.reliability != .off else { return write(.confirm, nonce, cookie, &context) }
        let start = context.output.count
        context.output.append(integer: Datagram.Kind.confirm.rawValue)
        context.output.append(integer: nonce)
        context.output.append(integer: cookie)
        configuration.terms(isOrdered: configuration.reliability == .ordered).append(to: &context.output)
        while context.output.count - start < Datagram.requestSize { context.output.append(0) }
        context.endDatagram()
        context.counters.controlFrames &+= 1
    }

    /// Accepts a client, reliably if it has asked for that.
    func writeAccept(_ context: inout CoreContext) {
        guard let reliable else { return write(.accept, nonce, connectionID, &context) }
        context.output.append(integer: Datagram.Kind.welcome.rawValue)
        context.output.append(integer: nonce)
        context.output.append(integer: connectionID)
        reliable.terms.append(to: &context.output)
        context.endDatagram()
        context.counters.controlFrames &+= 1
    }

    mutating func welcomed(
        _ input: borrowing ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        guard let identifier = Datagram.number(of: input) else { return nil }
        connectionID = identifier
        context.counters.controlFrames &+= 1
        let isOrdered = configuration.reliability == .ordered
        guard configuration.reliability != .off, let terms = ReliableTerms(input, at: Datagram.pairSize),
            terms.isOrdered == isOrdered
        else { throw notReliable(&context) }
        reliable = ReliableSession(configuration.terms(isOrdered: isOrdered), terms, configuration)
        phase = .open
        return .opened
    }

    /// The server does not carry messages as this client wants: leaves, should there be a session.
    mutating func notReliable(_ context: inout CoreContext) -> TransportError {
        phase = .done
        if connectionID != 0 { writeBye(.user, &context) }
        return TransportError(
            .unsupported,
            .handshake,
            "the server does not carry messages with reliable=\(configuration.reliability.rawValue)"
        )
    }
}

// MARK: An open session

extension UDPCore {
    /// Whether receivers tell when they are done with a message, so that a slow one stops the far side.
    public var confirmsReceipt: Bool {
        configuration.confirmsReceipt && (reliable != nil || role == .client && configuration.reliability != .off)
    }

    /// Makes room for another message.
    public mutating func confirmReceipt(_ context: inout CoreContext) {
        guard phase == .open else { return }
        reliable?.confirm(context.now)
        reliable?.transmit(connectionID, &context)
    }

    mutating func readPacket(_ input: borrowing ByteBuffer, _ context: inout CoreContext) throws(TransportError) {
        guard reliable != nil, reliable?.farewell == nil else { return }
        timers.lastHeard = context.now
        do throws(TransportError) {
            try reliable?.read(input, &context)
        } catch {
            throw ended(by: error, code: Goodbye.protocolError, &context)
        }
        reliable?.transmit(connectionID, &context)
    }

    /// What the reliable mode reports next, and its end.
    mutating func reliableEvent(_ context: inout CoreContext) -> CoreEvent? {
        guard reliable != nil else { return nil }
        if let event = reliable?.nextEvent() {
            reliable?.transmit(connectionID, &context)
            return event
        }
        if let farewell = reliable?.farewell, reliable?.receiver.isEmpty == true || reliable?.isClosing == true {
            phase = .done
            reason = farewell
            return .closed(farewell)
        }
        guard reliable?.isReadyToEnd(context.now) == true else { return nil }
        writeBye(reason, &context)
        phase = .done
        return .closed(reason)
    }

    mutating func sendReliably(
        _ bytes: [UInt8],
        _ id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        guard let limit = reliable?.maximumMessageSize, reliable?.isClosing == false, reliable?.farewell == nil else {
            throw reliable?.farewell == nil
                ? TransportError(.closedByUser, .closing, "the session is closed")
                : TransportError(.closedByPeer, .closing, "the far side has closed the session")
        }
        guard bytes.count <= limit else {
            throw TransportError(.messageTooLarge, .open, "\(bytes.count) bytes are more than the limit of \(limit)")
        }
        let status = reliable?.send(bytes, id: id) ?? .blocked
        reliable?.transmit(connectionID, &context)
        return status
    }

    /// Says goodbye when all that was sent has been acknowledged, or after 5 s; at once if an error is the reason.
    mutating func closeReliably(_ reason: CloseReason, _ context: inout CoreContext) {
        guard reliable?.isClosing == false else { return }
        self.reason = reason
        guard reliable?.sender.isIdle == false, reason.error == nil else {
            writeBye(reason, &context)
            phase = .ended
            return
        }
        reliable?.beginClose(context.now)
    }

    mutating func reliableDeadline(_ context: inout CoreContext) throws(TransportError) {
        do throws(TransportError) {
            try reliable?.deadlineReached(context.now)
        } catch {
            throw ended(by: error, code: Goodbye.timedOut, &context)
        }
        if let pingAt = reliable?.pingAt, pingAt <= context.now {
            write(.ping, connectionID, pingsSent, &context)
            reliable?.pinged(again: true, context.now)
            // The token is an old one, which moves no session; the number of a packet is new.
            reliable?.sender.probe()
        }
        reliable?.transmit(connectionID, &context)
    }

    private mutating func ended(
        by error: TransportError,
        code: UInt16,
        _ context: inout CoreContext
    ) -> TransportError {
        reason = CloseReason(error)
        writeBye(CloseReason(reason.initiator, code: code, text: error.reason), &context)
        phase = .done
        return error
    }
}
