/// How long answers take, and how long to wait for one: the estimator of RFC 6298, sections 2 and 5.
///
/// A value without a clock. Karn's rule (section 3) is the caller's: an answer to something that was sent more than once may
/// belong to any of the copies and must not be measured, unless it tells which copy it answers.
package struct RoundTripTime: Sendable, Hashable {
    /// The bounds of the timeout.
    package struct Bounds: Sendable, Hashable {
        /// The timeout before anything was measured. Default 1 s (section 2.1).
        package var initial: Duration = .seconds(1)
        /// The shortest timeout. Default 100 ms; the 1 s of section 2.4 is meant for TCP, whose acknowledgements are delayed.
        package var minimum: Duration = .milliseconds(100)
        /// The longest timeout, and the longest round trip that is believed. Default 60 s (section 2.5).
        package var maximum: Duration = .seconds(60)
        /// How exact the caller's clock and timers are. Default 1 ms.
        package var granularity: Duration = .milliseconds(1)

        /// The defaults.
        package init() {}
    }

    /// The bounds of the timeout.
    package let bounds: Bounds
    /// The smoothed round trip (SRTT); `nil` before the first measurement.
    package private(set) var smoothed: Duration?
    /// How much round trips vary (RTTVAR).
    package private(set) var variation: Duration = .zero
    /// How long to wait for an answer before it counts as lost (RTO).
    package private(set) var timeout: Duration

    /// An estimator that has measured nothing.
    package init(_ bounds: Bounds = Bounds()) {
        self.bounds = bounds
        timeout = Self.clamped(bounds.initial, bounds)
    }

    /// An answer came after `sample`. Also ends the backoff. Not to be called for what was sent more than once (Karn).
    package mutating func measured(_ sample: Duration) {
        let sample = min(max(sample, .zero), bounds.maximum)
        if let smoothed {
            let difference = smoothed > sample ? smoothed - sample : sample - smoothed
            // The variation first: it is taken from the round trip as it was smoothed before (section 2.3).
            variation = (variation * 3 + difference) / 4
            self.smoothed = (smoothed * 7 + sample) / 8
        } else {
            smoothed = sample
            variation = sample / 2
        }
        answered()
    }

    /// An answer came that tells no round trip. What was lost was sent again, and has arrived: the backoff is over. (RFC 6298
    /// would wait for a measurement, which never comes where all that is under way was lost.)
    package mutating func answered() {
        guard let smoothed else { return timeout = Self.clamped(bounds.initial, bounds) }
        timeout = Self.clamped(smoothed + max(bounds.granularity, variation * 4), bounds)
    }

    /// No answer came within ``timeout``: doubles it (section 5.5), up to the maximum.
    package mutating func timedOut() {
        timeout = Self.clamped(timeout * 2, bounds)
    }

    private static func clamped(_ timeout: Duration, _ bounds: Bounds) -> Duration {
        min(max(timeout, bounds.minimum), bounds.maximum)
    }
}
