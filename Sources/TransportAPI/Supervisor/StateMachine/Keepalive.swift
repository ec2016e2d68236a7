/// Finds out whether the peer of one connection is still there: asks after a silence, and gives up if nothing at
/// all comes back. Both sides of a connection run one.
package struct Keepalive: Sendable {
    /// What is to be done now.
    package enum Verdict: Sendable, Hashable {
        case wait
        /// Ask for a sign of life.
        case probe
        /// Nothing has come since the probe: the connection is dead.
        case dead
    }

    private let configuration: KeepaliveConfiguration
    /// The interval now; `nil`: none.
    package var interval: Duration?
    /// Whether probes are answered, so that silence after one means something.
    private let isAnswered: Bool
    /// A probe is sent again at each look at the connection, because it may have been lost.
    private let isRepeated: Bool
    private var lastReceived: Instant
    private var lastProbe: Instant
    /// When the probe that has not been answered was sent.
    package private(set) var askedAt: Instant?
    /// Ask at once, whatever was received.
    private var isUrgent = false
    /// This side reads nothing now: silence means nothing. Probes go on, for the peer hears nothing else of us.
    private var isReading = true
    /// There is no network.
    private var isOffline = false
    /// What the connection had received when it was last looked at, and when that was: once the peer has been
    /// asked, after each quarter of the timeout.
    private var receivedBytes: UInt64 = 0
    private var lastLook: Instant

    /// A connection that has just opened.
    ///
    /// - Parameters:
    ///   - capabilities: those of the connection: its interval, unless one is configured, and whether what is sent arrives as long as
    ///     the connection lives. Otherwise a probe is sent four times, because one packet that is lost is no sign of death.
    ///   - isAnswered: whether there is a probe at all, and whether it is answered.
    package init(
        _ configuration: KeepaliveConfiguration,
        over capabilities: Capabilities,
        isAnswered: Bool,
        at now: Instant
    ) {
        self.configuration = configuration
        self.isAnswered = isAnswered
        isRepeated = !capabilities.isReliable
        interval = configuration.interval(over: capabilities)
        lastReceived = now
        lastProbe = now
        lastLook = now
    }

    /// Something has arrived, whatever it is.
    package mutating func received(at now: Instant) {
        lastReceived = now
        askedAt = nil
    }

    /// Whether this side takes what arrives. While it does not, silence means nothing.
    package mutating func reading(_ isReading: Bool, at now: Instant) {
        // To be told again what is so already is no sign of life.
        guard isReading != self.isReading else { return }
        self.isReading = isReading
        received(at: now)
    }

    /// Whether there is a network. While there is none, nothing is asked; when it is back, the peer is asked at once.
    package mutating func online(_ isOnline: Bool, at now: Instant) {
        isOffline = !isOnline
        received(at: now)
        isUrgent = isOnline
    }

    /// When ``deadlineReached(bytesReceived:at:)`` is due; `nil`: never. `mutating`, because reading it through an optional would
    /// copy this value otherwise, for each message.
    package var deadline: Instant? {
        mutating get {
            guard !isOffline else { return nil }
            if let askedAt {
                return min(
                    askedAt.advanced(by: configuration.timeout),
                    lastLook.advanced(by: configuration.timeout / 4)
                )
            }
            if isUrgent { return .zero }
            guard let interval else { return nil }
            let isIdleOnly = configuration.isIdleOnly && isReading
            return (isIdleOnly ? max(lastReceived, lastProbe) : lastProbe).advanced(by: interval)
        }
    }

    /// What the time asks for.
    ///
    /// - Parameter bytesReceived: what the connection has received in all. Bytes of a message that is not complete yet
    ///   are a sign of life too.
    package mutating func deadlineReached(bytesReceived: UInt64, at now: Instant) -> Verdict {
        // When they came is not known, so that they count from the last look on.
        if askedAt != nil, bytesReceived > receivedBytes { received(at: lastLook) }
        guard let deadline, deadline <= now else { return .wait }
        lastLook = now
        if let askedAt {
            if askedAt.advanced(by: configuration.timeout) <= now { return .dead }
            guard isRepeated else { return .wait }
        }
        isUrgent = false
        lastProbe = now
        if isAnswered, isReading, askedAt == nil {
            askedAt = now
            receivedBytes = bytesReceived
        }
        return .probe
    }
}

/// Applies an ``AdaptiveInterval`` to one supervisor: the interval of its connection, and what the connection shows about it.
package struct AdaptiveKeepalive: Sendable {
    package internal(set) var intervals: AdaptiveInterval
    /// The connection has just died: the next one has the interval that is known to be good, until it has borne that once.
    private var isCautious = false

    init(_ configuration: AdaptiveKeepaliveConfiguration, knowing intervals: AdaptiveInterval?) {
        self.intervals =
            intervals.map { AdaptiveInterval(configuration, knowing: $0) } ?? AdaptiveInterval(configuration)
    }

    /// The interval for the connection.
    mutating func interval(on network: String) -> Duration {
        let good = intervals.current(on: network)
        return isCautious ? good : intervals.nextTrial(on: network) ?? good
    }

    /// The connection answered after it had been idle for `interval`.
    mutating func survived(_ interval: Duration, on network: String) {
        isCautious = false
        intervals.succeeded(interval, on: network)
    }

    /// The connection was dead after it had been idle for `interval`.
    mutating func died(_ interval: Duration, on network: String) {
        isCautious = true
        if interval <= intervals.current(on: network) {
            intervals.lost(on: network)
        } else {
            intervals.failed(interval, on: network)
        }
    }
}
