import CommandSupport

/// Times in microseconds; `nil` where there are too few samples.
package struct Latency: Sendable, Hashable {
    package var minimum: Double?
    package var p50: Double?
    package var p90: Double?
    package var p99: Double?
    package var p999: Double?
    package var maximum: Double?
    package var mean: Double?
    package var count: Int

    package init(_ histogram: Histogram) {
        func microseconds(_ nanoseconds: Int64?) -> Double? { nanoseconds.map { Double($0) / 1000 } }
        minimum = microseconds(histogram.minimum)
        p50 = microseconds(histogram.percentile(500))
        p90 = microseconds(histogram.percentile(900))
        p99 = microseconds(histogram.percentile(990))
        p999 = microseconds(histogram.percentile(999))
        maximum = microseconds(histogram.maximum)
        mean = histogram.mean.map { ($0).rounded() / 1000 }
        count = histogram.count
    }
}
