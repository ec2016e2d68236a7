import CommandSupport

/// The time of the machine itself, without any of this package's code.
package struct FloorResult: Sendable {
    package var kind: FloorKind
    /// Bytes in each direction.
    package var size: Int
    package var rtt: Latency
    package var p50Spread: RepeatStatistics?
    /// Why it was not measured.
    package var reason: String?
    /// The values of each repeat: the median alone.
    package var repeats: RepeatedValues = [:]

    /// How many times the median p90 may be. Beyond, several kinds of round trip are mixed, for instance because cores sleep
    /// now and then. A ratio to such a floor depends on the share of each kind, and not on the code.
    package static let tailLimit = 2.0
    package static let tailLimitText = "2"

    /// The quotient of p90 and p50 if it is above ``tailLimit``.
    package var heavyTail: Double? {
        guard let p50 = rtt.p50, let p90 = rtt.p90, p90 > Self.tailLimit * p50 else { return nil }
        return p90 / p50
    }
}
