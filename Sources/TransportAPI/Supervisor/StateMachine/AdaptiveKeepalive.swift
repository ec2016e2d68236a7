/// Applies an ``AdaptiveInterval`` to one supervisor. It sets the interval of each connection and records whether the
/// connection survives it. Only a connection that has been idle for its interval says something about it.
package struct AdaptiveKeepalive: Sendable {
    package private(set) var intervals: AdaptiveInterval
    /// Whether the last connection died. Then the next one uses the interval that is known to be good, until it has
    /// survived that interval once.
    private var isCautious = false
    /// The time at which a frame other than a probe was last handed to the connection. Sent frames keep a NAT from
    /// forgetting the connection.
    private var lastSent = Instant.zero
    /// The time at which a probe was last handed to the connection.
    private var lastProbed = Instant.zero
    /// The time since which the connection has carried only probes, in both directions.
    private var idleSince = Instant.zero

    init(_ configuration: AdaptiveKeepaliveConfiguration, knowing intervals: AdaptiveInterval?) {
        self.intervals =
            intervals.map { AdaptiveInterval(configuration, knowing: $0) } ?? AdaptiveInterval(configuration)
    }

    /// A connection has opened.
    mutating func opened(at now: Instant) {
        (lastSent, idleSince) = (now, now)
    }

    /// Returns the interval for the connection.
    mutating func interval(on network: String) -> Duration {
        let good = intervals.current(on: network)
        return isCautious ? good : intervals.nextTrial(on: network) ?? good
    }

    // MARK: Idle times

    /// If the connection dies from now on, the reason is not that it was idle.
    mutating func disturbed(at now: Instant) {
        idleSince = now
    }

    /// A probe is sent.
    mutating func probed(at now: Instant) {
        lastProbed = now
    }

    /// Records the time at which a frame other than a probe was sent.
    mutating func noteSending(_ actions: ArraySlice<SupervisorAction>, at now: Instant) {
        let count = actions.count {
            switch $0 {
            case .transmit, .ping: true
            default: false
            }
        }
        guard count > (lastProbed == now ? 1 : 0) else { return }
        (lastSent, idleSince) = (now, now)
    }

    /// Whether the connection carried only probes during the interval before the last probe, and since.
    private func wasIdle(_ keepalive: Keepalive?) -> Bool {
        guard let asked = keepalive?.askedAt, let interval = keepalive?.interval else { return false }
        return lastSent <= asked && asked >= idleSince.advanced(by: interval)
    }

    // MARK: Results

    /// Records a sign of life of the connection. Returns whether the connection has survived its interval.
    mutating func alive(_ keepalive: Keepalive?, on network: String, at now: Instant) -> Bool {
        defer { idleSince = now }
        guard wasIdle(keepalive), let interval = keepalive?.interval else { return false }
        isCautious = false
        intervals.succeeded(interval, on: network)
        return true
    }

    /// Records the end of the connection, if it was idle for nearly its interval. A NAT that has forgotten the connection
    /// sends no packet or a reset. A proxy closes the connection itself.
    mutating func ended(_ keepalive: Keepalive?, on network: String, at now: Instant) {
        guard let interval = keepalive?.interval else { return }
        let isOver = idleSince.duration(to: now) >= interval / 10 * 9
        guard wasIdle(keepalive) || keepalive?.askedAt == nil && isOver else { return }
        isCautious = true
        if interval <= intervals.current(on: network) {
            intervals.lost(on: network)
        } else {
            intervals.failed(interval, on: network)
        }
    }
}
