/// The search for the longest time that a connection may be idle before a NAT on its path forgets it, apart for each network.
///
/// A value that does no I/O. Its owner leaves a connection idle for ``nextTrial(on:)`` and says whether the connection
/// survived. The idea, to grow from a safe interval while the path bears it and to remember the result by network, is
/// that of the smart heartbeat in Tencent's Mars. Here the growth doubles, and once a length has failed the search goes
/// on by bisection.
///
/// - A failure counts when it repeats: a length is bad after two failures at it or at shorter ones, since a single loss may
///   be chance. A success at a length takes back all failures up to it.
/// - A trial is never longer than twice what is known to be good.
/// - Nothing is learned about ``AdaptiveKeepaliveConfiguration/minimum``: it is taken to be safe.
public struct AdaptiveInterval: Sendable, Hashable {
    /// How many networks are remembered; then the one that was used least recently is forgotten.
    package static let networkLimit = 16

    /// What is known of one network.
    private struct Record: Sendable, Hashable {
        let network: String
        /// The longest length that was borne, or the minimum.
        var good: Duration
        /// The two shortest lengths that failed and were not borne since, the shorter one first.
        var failures: [Duration] = []

        /// The shortest length at or below which two trials failed.
        var bad: Duration? { failures.count < 2 ? nil : failures[1] }
        /// A length above the good ones that failed once only.
        var suspect: Duration? {
            guard let shortest = failures.first, shortest > good else { return nil }
            return shortest == bad ? nil : shortest
        }
    }

    /// The bounds of the search, as far as they make sense: 1 ms <= minimum <= maximum <= 24 h, resolution >= 1 ms.
    package let configuration: AdaptiveKeepaliveConfiguration
    /// In the order of their use, the latest last.
    private var records: [Record] = []

    /// A search that knows nothing yet.
    package init(_ configuration: AdaptiveKeepaliveConfiguration = AdaptiveKeepaliveConfiguration()) {
        var bounds = configuration
        bounds.minimum = min(max(bounds.minimum, .milliseconds(1)), .seconds(86_400))
        bounds.maximum = min(max(bounds.maximum, bounds.minimum), .seconds(86_400))
        bounds.resolution = max(bounds.resolution, .milliseconds(1))
        self.configuration = bounds
    }

    /// What `former` has learned, within the bounds of another configuration.
    package init(_ configuration: AdaptiveKeepaliveConfiguration, knowing former: AdaptiveInterval) {
        self.init(configuration)
        records = former.records.map { record in
            var record = record
            record.good = min(max(record.good, self.configuration.minimum), self.configuration.maximum)
            return record
        }
    }

    /// The networks about which something is known, the latest used last.
    public var networks: [String] { records.map(\.network) }

    /// The longest interval that is known to be good, or the minimum. Marks the network as used.
    package mutating func current(on network: String) -> Duration {
        guard let index = records.firstIndex(where: { $0.network == network }) else { return configuration.minimum }
        let record = records.remove(at: index)
        records.append(record)
        return record.good
    }

    /// The interval to try next; `nil` when the search has ended: the longest good and the shortest bad interval are within
    /// the resolution, or the maximum has proved good.
    package func nextTrial(on network: String) -> Duration? {
        let record = records.first { $0.network == network } ?? fresh(network)
        let good = record.good
        if good >= configuration.maximum { return nil }
        let reach = min(good * 2, configuration.maximum)
        guard let bad = record.bad else { return min(reach, record.suspect ?? reach) }
        guard bad - good > configuration.resolution else { return nil }
        return min(reach, record.suspect ?? (good + bad) / 2)
    }

    /// The connection answered after `interval` without traffic.
    package mutating func succeeded(_ interval: Duration, on network: String) {
        update(network) { record, bounds in
            record.good = min(max(record.good, interval), bounds.maximum)
            record.failures.removeAll { $0 <= interval }
        }
    }

    /// The connection was dead after `interval` without traffic, which was longer than ``current(on:)``.
    package mutating func failed(_ interval: Duration, on network: String) {
        update(network) { record, bounds in
            Self.note(interval, &record, bounds)
            // What was good once is bad now: another NAT behind the same name.
            if let bad = record.bad, bad <= record.good { record.good = bounds.minimum }
        }
    }

    /// The connection was dead after the ``current(on:)`` interval. Falls back to the minimum at once; everything above has
    /// to prove good anew.
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
