/// The search for the longest time that a connection may be idle before a NAT on its path forgets it. Each network has
/// its own search.
///
/// It is a value that does no I/O. Its owner leaves a connection idle for `nextTrial(on:)` and reports whether the
/// connection survived. The search starts at a safe interval, increases it while the path allows it, and remembers the
/// result by network. This idea comes from the smart heartbeat in Tencent's Mars. Here the interval doubles, and after
/// a failure the search continues by bisection.
///
/// - An interval is bad after two failures at it or at shorter ones, because a single loss can be chance. A success at
///   an interval removes all failures up to it.
/// - A trial is never longer than twice the longest good interval.
/// - ``AdaptiveKeepaliveConfiguration/minimum`` is taken to be safe and is never tested.
public struct AdaptiveInterval: Sendable, Hashable {
    /// The number of networks that are remembered. Beyond it, the one that was used least recently is forgotten.
    package static let networkLimit = 16

    /// The results for one network.
    private struct Record: Sendable, Hashable {
        let network: String
        /// The longest interval that succeeded, or the minimum.
        var good: Duration
        /// The two shortest intervals that failed and have not succeeded since, the shorter one first.
        var failures: [Duration] = []

        /// The shortest interval at or below which two trials failed.
        var bad: Duration? { failures.count < 2 ? nil : failures[1] }
        /// An interval above the good ones that failed only once.
        var suspect: Duration? {
            guard let shortest = failures.first, shortest > good else { return nil }
            return shortest == bad ? nil : shortest
        }
    }

    /// The bounds of the search, adjusted to 1 ms <= minimum <= maximum <= 24 h, resolution >= 1 ms.
    package let configuration: AdaptiveKeepaliveConfiguration
    /// The networks in the order of their use, the latest last.
    private var records: [Record] = []

    /// Creates a search without results.
    package init(_ configuration: AdaptiveKeepaliveConfiguration = AdaptiveKeepaliveConfiguration()) {
        var bounds = configuration
        bounds.minimum = min(max(bounds.minimum, .milliseconds(1)), .seconds(86_400))
        bounds.maximum = min(max(bounds.maximum, bounds.minimum), .seconds(86_400))
        bounds.resolution = max(bounds.resolution, .milliseconds(1))
        self.configuration = bounds
    }

    /// Creates a search that has the results of `former`, within the bounds of another configuration.
    package init(_ configuration: AdaptiveKeepaliveConfiguration, knowing former: AdaptiveInterval) {
        self.init(configuration)
        records = former.records.map { record in
            var record = record
            record.good = min(max(record.good, self.configuration.minimum), self.configuration.maximum)
            return record
        }
    }

    /// The networks with results, the latest used last.
    public var networks: [String] { records.map(\.network) }

    /// Returns the longest interval that is known to be good, or the minimum. Marks the network as used.
    package mutating func current(on network: String) -> Duration {
        guard let index = records.firstIndex(where: { $0.network == network }) else { return configuration.minimum }
        let record = records.remove(at: index)
        records.append(record)
        return record.good
    }

    /// Returns the interval to try next, or `nil` if the search has ended. The search ends when the longest good and
    /// the shortest bad interval differ by no more than the resolution, or when the maximum has succeeded.
    package func nextTrial(on network: String) -> Duration? {
        let record = records.first { $0.network == network } ?? fresh(network)
        let good = record.good
        if good >= configuration.maximum { return nil }
        let reach = min(good * 2, configuration.maximum)
        guard let bad = record.bad else { return min(reach, record.suspect ?? reach) }
        guard bad - good > configuration.resolution else { return nil }
        return min(reach, record.suspect ?? (good + bad) / 2)
    }

    /// Records that the connection answered after `interval` without traffic.
    package mutating func succeeded(_ interval: Duration, on network: String) {
        update(network) { record, bounds in
            record.good = min(max(record.good, interval), bounds.maximum)
            record.failures.removeAll { $0 <= interval }
        }
    }

    /// Records that the connection was dead after `interval` without traffic, which was longer than ``current(on:)``.
    package mutating func failed(_ interval: Duration, on network: String) {
        update(network) { record, bounds in
            Self.note(interval, &record, bounds)
            // An interval that was good before is bad now, so another NAT is behind the same name.
            if let bad = record.bad, bad <= record.good { record.good = bounds.minimum }
        }
    }

    /// Records that the connection was dead after the ``current(on:)`` interval. Falls back to the minimum at once. All
    /// longer intervals must succeed again.
    package mutating func lost(on network: String) {
        update(network) { record, bounds in
            Self.note(record.good, &record, bounds)
            record.good = bounds.minimum
        }
    }

    private static func note(_ interval: Duration, _ record: inout Record, _ bounds: AdaptiveKeepaliveConfiguration) {
        guard interval > bounds.minimum else { return }
        record.failures.append(min(interval, bounds.maximum))
        record.failures = Array(record.failures.sorted().prefix(2))
    }

    private func fresh(_ network: String) -> Record {
        Record(network: network, good: configuration.minimum)
    }

    private mutating func update(_ network: String, _ body: (inout Record, AdaptiveKeepaliveConfiguration) -> Void) {
        let index = records.firstIndex { $0.network == network }
        var record = index.map { records.remove(at: $0) } ?? fresh(network)
        body(&record, configuration)
        if records.count >= Self.networkLimit { records.removeFirst() }
        records.append(record)
    }
}
