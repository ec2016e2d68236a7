// What the app and the network ask for: a pause, another path, the end.

extension SupervisorMachine {
    mutating func suspend(at now: Instant, _ actions: inout [SupervisorAction]) {
        if phase == .open { judgeStability(at: now) }
        dropLink(CloseReason(.user, text: "suspended"), &actions)
        enter(.suspended, .suspended, &actions)
    }

    mutating func resume(at now: Instant, _ actions: inout [SupervisorAction]) {
        guard phase == .suspended else { return }
        lostAt = now
        attempt(at: now, &actions)
    }

    mutating func changed(_ path: NetworkPath, at now: Instant, _ actions: inout [SupervisorAction]) {
        let isOther = path.network != self.path.network
        self.path = path
        switch phase {
        case .connecting, .greeting, .waiting:
            if !path.isUsable {
                dropLink(.user, &actions)
                enter(.offline, .offline, &actions)
            } else if isOther, case .waiting = phase {
                attempt(at: now, &actions)
            }
        case .offline:
            if path.isUsable { attempt(at: now, &actions) }
        case .open:
            // The link may outlive a short absence, and even another address.
            keepalive?.online(path.isUsable, at: now)
            // What the link dies of now is not that it was idle.
            idleSince = now
            if isOther { adaptInterval(&actions) }
        case .idle, .suspended, .closed: break
        }
    }

    /// Lets go of an attempt or a link, whatever state it is in.
    private mutating func dropLink(_ reason: CloseReason, _ actions: inout [SupervisorAction]) {
        switch phase {
        case .connecting, .greeting: actions.append(.abandon(link: link))
        case .open: actions.append(.close(link: link, reason))
        case .idle, .waiting, .offline, .suspended, .closed: return
        }
        leaveLink(&actions)
    }

    // MARK: The end

    mutating func close(_ reason: CloseReason, _ actions: inout [SupervisorAction]) {
        if phase == .open, delivery.style == .session {
            actions.append(.transmit(link, nil, SessionFrame.bye.payload))
        }
        dropLink(reason, &actions)
        end(reason, &actions)
    }

    mutating func giveUp(_ reason: CloseReason, _ actions: inout [SupervisorAction]) {
        end(reason, &actions)
    }

    private mutating func end(_ reason: CloseReason, _ actions: inout [SupervisorAction]) {
        delivery.finishAll(reason.asError, &actions)
        enter(.closed, .closed(reason), &actions)
    }
}
