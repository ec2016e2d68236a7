/// Measures round-trip times and computes the timeout for an answer (RFC 6298, sections 2 and 5).
///
/// It is a value without a clock. The caller applies Karn's rule (section 3): it does not measure the answer to a
/// message that was sent more than once, unless the answer names the copy.
package struct RoundTripTime: Sendable, Hashable {
    /// The bounds of the timeout.
    package struct Bounds: Sendable, Hashable {
        /// The timeout before anything was measured. Default 1 s (section 2.1).
        package var initial: Duration = .seconds(1)
        /// The shortest timeout. Default 100 ms. The 1 s of section 2.4 is meant for TCP, which delays
        /// acknowledgements.
        package var minimum: Duration = .milliseconds(100)
        /// The longest timeout. Longer round trips count as this one. Default 60 s (section 2.5).
        package var maximum: Duration = .seconds(60)
        /// The precision of the caller's clock and timers. Default 1 ms.
        package var granularity: Duration = .milliseconds(1)

        /// The defaults.
        package init() {}
    }

    /// The bounds of the timeout.
    package let bounds: Bounds
    /// The smoothed round trip (SRTT); `nil` before the first measurement.
    package private(set) var smoothed: Duration?
    /// The variation of the round-trip times (RTTVAR).
    package private(set) var variation: Duration = .zero
    /// The time after which a missing answer counts as lost (RTO).
    package private(set) var timeout: Duration

    /// Creates an estimator that has measured nothing.
    package init(_ bounds: Bounds = Bounds()) {
        self.bounds = bounds
        timeout = Self.clamped(bounds.initial, bounds)
    }

    /// Records an answer that came after `sample`, and ends the backoff. Do not call this for a message that was sent
    /// more than once (Karn's rule).
    package mutating func measured(_ sample: Duration) {
        let sample = min(max(sample, .zero), bounds.maximum)
        if let smoothed {
            let difference = smoothed > sample ? smoothed - sample : sample - smoothed
            // The variation is computed first, because it uses the smoothed round trip from before this sample (section
            // 2.3).
            variation = (variation * 3 + difference) / 4
            self.smoothed = (smoothed * 7 + sample) / 8
        } else {
            smoothed = sample
            variation = sample / 2
        }
        answered()
    }

    /// Records an answer without a sample. The lost message was sent again and has arrived, so the backoff ends. RFC
    /// 6298 waits for a sample, but none comes if all messages in flight were lost.
    package mutating func answered() {
        guard let smoothed else { return timeout = Self.clamped(bounds.initial, bounds) }
        timeout = Self.clamped(smoothed + max(bounds.granularity, variation * 4), bounds)
    }

    /// Records that no answer came within ``timeout``. Doubles the timeout (section 5.5), up to the maximum.
    package mutating func timedOut() {
        timeout = Self.clamped(timeout * 2, bounds)
    }

    private static func clamped(_ timeout: Duration, _ bounds: Bounds) -> Duration {
        min(max(timeout, bounds.minimum), bounds.maximum)
    }
}
