// The search for a longer keepalive interval.

extension SupervisorMachine {
    /// The interval that the search gives the link; `nil` where it can't search.
    mutating func adaptiveInterval() -> Duration? {
        guard keepalive != nil, isProbeAnswered else { return nil }
        return adaptive?.interval(on: path.network)
    }

    /// Gives the link the interval that the search has for it.
    mutating func adaptInterval(_ actions: inout [SupervisorAction]) {
        guard let interval = adaptiveInterval(), interval != keepalive?.interval else { return }
        keepalive?.interval = interval
        actions.append(.note(.keepaliveInterval(interval)))
    }

    /// Whether nothing but probes went over the link for its interval before the far side was asked, and since.
    private var wasIdle: Bool {
        guard let asked = keepalive?.askedAt, let interval = keepalive?.interval else { return false }
        return lastSent <= asked && asked >= idleSince.advanced(by: interval)
    }

    /// The link has shown that it lives.
    mutating func alive(at now: Instant, _ actions: inout [SupervisorAction]) {
        if adaptive != nil, wasIdle, let interval = keepalive?.interval {
            adaptive?.survived(interval, on: path.network)
            adaptInterval(&actions)
        }
        keepalive?.received(at: now)
        idleSince = now
    }

    /// The link has ended. It says something about the path if it was idle for its interval, or nearly: a NAT that has forgotten it
    /// is silent or answers with a reset, a proxy hangs up by itself.
    mutating func noteDeath(at now: Instant) {
        guard adaptive != nil, adaptiveInterval() != nil, let interval = keepalive?.interval else { return }
        let isOver = idleSince.duration(to: now) >= interval / 10 * 9
        if wasIdle || keepalive?.askedAt == nil && isOver { adaptive?.died(interval, on: path.network) }
    }

    /// Remembers when something left, other than a probe.
    mutating func noteSending(_ actions: ArraySlice<SupervisorAction>, at now: Instant) {
        let count = actions.count {
            switch $0 {
            case .transmit, .ping: true
            default: false
            }
        }
        guard count > (lastProbed == now ? 1 : 0) else { return }
        lastSent = now
        idleSince = now
    }
}
