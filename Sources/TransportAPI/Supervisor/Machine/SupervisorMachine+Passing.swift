// The way of nearly all messages: plain delivery over an open link, with nothing that waits. What ``handle(_:at:using:_:)`` would do
// to the state in several steps, by way of the outbox and of lists of actions, is done at once. It remains the rule: each of these
// leaves the machine as it would, and says no where there is more to do.
//
// All are `mutating`, so that they are asked where the machine lies: asking a machine in a class otherwise copies it.

extension SupervisorMachine {
    /// Whether a message of this size would go straight to the link, and leave nothing behind once the link has taken it.
    package mutating func letsPass(_ size: Int) -> Bool {
        guard case .open = phase, adaptive == nil else { return false }
        return delivery.letsPass(size)
    }

    /// The link has taken such a message, and its outcome is known.
    package mutating func passed() {
        delivery.passed()
    }

    /// Takes a message that is to be delivered as it is; `false`: it was not taken. The ``deadline`` comes no earlier by it, since
    /// the far side has not been asked for a sign of life.
    package mutating func passReceived(_ link: Int, at now: Instant) -> Bool {
        guard link == self.link, case .open = phase, adaptive == nil, delivery.style == .plain,
            delivery.unprocessed == nil, keepalive?.askedAt == nil, case .automatic = configuration.keepalive.probe
        else { return false }
        keepalive?.received(at: now)
        idleSince = now
        return true
    }
}

extension Delivery {
    /// Whether a message of this size would be handed to the link at once, with none before it.
    fileprivate func letsPass(_ size: Int) -> Bool {
        style == .plain && link != 0 && !isHolding && unsettled == 0 && configuration.window > 0
            && waiting.isEmpty && outbox.isEmpty && outbox.hasRoom(for: size)
    }

    fileprivate mutating func passed() {
        handedTo = link
        isCompletedByNext = completesSends
    }
}
