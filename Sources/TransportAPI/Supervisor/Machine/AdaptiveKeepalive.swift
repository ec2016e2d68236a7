/// Applies an ``AdaptiveInterval`` to one supervisor: the interval of its link, and what the link shows about it.
package struct AdaptiveKeepalive: Sendable {
    package internal(set) var intervals: AdaptiveInterval
    /// The link has just died: the next one has the interval that is known to be good, until it has borne that once.
    private var isCautious = false

    init(_ configuration: AdaptiveKeepaliveConfiguration, knowing intervals: AdaptiveInterval?) {
        self.intervals =
            intervals.map { AdaptiveInterval(configuration, knowing: $0) } ?? AdaptiveInterval(configuration)
    }

    /// The interval for the link.
    mutating func interval(on network: String) -> Duration {
        let good = intervals.current(on: network)
        return isCautious ? good : intervals.nextTrial(on: network) ?? good
    }

    /// The link answered after it had been idle for `interval`.
    mutating func survived(_ interval: Duration, on network: String) {
        isCautious = false
        intervals.succeeded(interval, on: network)
    }

    /// The link was dead after it had been idle for `interval`.
    mutating func died(_ interval: Duration, on network: String) {
        isCautious = true
        if interval <= intervals.current(on: network) {
            intervals.lost(on: network)
        } else {
            intervals.failed(interval, on: network)
        }
    }
}
