// What happens on a link that is there.

extension SupervisorMachine {
    /// Whether there is anything to ask the far side with.
    var canProbe: Bool {
        switch configuration.keepalive.probe {
        case .payload: true
        case .automatic: capabilities.hasNativePing || Delivery.style(configuration.delivery, capabilities) == .session
        }
    }

    var isProbeAnswered: Bool {
        if case .payload(_, let answer) = configuration.keepalive.probe { answer != nil } else { canProbe }
    }

    mutating func probe(at now: Instant, _ actions: inout [SupervisorAction]) {
        lastProbed = now
        switch configuration.keepalive.probe {
        case .payload(let payload, _): actions.append(.transmit(link, nil, payload))
        case .automatic where delivery.style == .session:
            pingToken &+= 1
            pingSentAt = now
            actions.append(.transmit(link, nil, SessionFrame.ping(pingToken).payload))
        case .automatic: actions.append(.ping(link: link))
        }
    }

    mutating func received(
        _ link: Int,
        _ payload: Payload,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) {
        guard link == self.link else { return }
        alive(at: now, &actions)
        switch phase {
        case .open, .greeting: break
        case .idle, .connecting, .waiting, .offline, .suspended, .closed: return
        }
        if case .payload(_, let answer?) = configuration.keepalive.probe, payload.bytes == answer.bytes {
            return delivery.leaveOut(at: now, &actions)
        }
        let style = Delivery.style(configuration.delivery, capabilities)
        do throws(TransportError) {
            switch style {
            case .plain: delivery.give(payload, at: now, &actions)
            case .origin: try receivedOrigin(payload, at: now, using: &random, &actions)
            case .session: try receivedFrame(try SessionFrame(payload), at: now, &actions)
            }
        } catch {
            actions.append(.close(link: link, CloseReason(error)))
            ended(link, CloseReason(error), at: now, using: &random, &actions)
        }
    }

    private mutating func receivedOrigin(
        _ payload: Payload,
        at now: Instant,
        using random: inout RandomSource,
        _ actions: inout [SupervisorAction]
    ) throws(TransportError) {
        // Others may publish to the same topics without an envelope.
        guard SessionFrame.isOrigin(payload),
            case .origin(let sender, let sequence, let content) = try SessionFrame(payload)
        else { return delivery.give(payload, at: now, &actions) }
        delivery.giveUnlessRepeated(sender, sequence, content, at: now, using: &random, &actions)
    }

    private mutating func receivedFrame(
        _ frame: SessionFrame,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) throws(TransportError) {
        switch frame {
        case .welcome(let incarnation, let received): try welcomed(incarnation, received, at: now, &actions)
        case .refused(let refusal): throw refusal.error
        case .ping(let token): actions.append(.transmit(link, nil, SessionFrame.pong(token).payload))
        case .pong(let token):
            if token == pingToken, let asked = pingSentAt { actions.append(.note(.roundTrip(asked.duration(to: now)))) }
        case .bye: throw TransportError(.closedByPeer, .open, "the far side has ended the session")
        case .message, .acknowledge, .skip:
            if phase == .open { return try delivery.take(frame, at: now, &actions) }
            // It has overtaken the welcome. A link that loses messages brings it again.
            if capabilities.isReliable { try delivery.keepOvertaking(frame) }
        case .hello, .origin: throw .envelope("a server does not send this frame")
        }
    }

    private mutating func welcomed(
        _ incarnation: UInt64,
        _ received: UInt64,
        at now: Instant,
        _ actions: inout [SupervisorAction]
    ) throws(TransportError) {
        guard case .greeting = phase else { return }
        let isResumed = incarnation == self.incarnation
        if isResumed {
            try delivery.acknowledge(through: received, at: now, &actions)
        } else {
            if self.incarnation != 0 { actions.append(.note(.sessionLost)) }
            delivery.renumber()
            self.incarnation = incarnation
        }
        opened(isResumed: isResumed, at: now, &actions)
        try delivery.takeOvertaking(at: now, &actions)
    }
}
