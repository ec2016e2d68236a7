/// Floors that are set up once and then measured in slices, between whatever else is measured. Slices of one repeat are
/// kept together, so that each repeat of a transport can be held against the floor of the same repeat.
final class FloorBench {
    /// One floor at one size.
    struct Key: Sendable, Hashable {
        var kind: FloorKind
        var size: Int
    }

    private struct Entry {
        var floor: (any Floor)?
        var reason: String?
        var total = Histogram()
        /// Median of each repeat in microseconds; `nil` where too few round trips were made.
        var medians: [Double?] = []
    }

    /// In the order of the report.
    let keys: [Key]
    private var entries: [Key: Entry] = [:]
    private var scratch = Histogram()

    /// The longest time that passes before an interruption is noticed, in nanoseconds.
    private static let patience: Int64 = 200_000_000
    /// Round trips that each slice makes before it records, so that caches and branch predictors know the code again.
    private static let unrecorded = 20

    private let placement: ThreadPlacement?

    /// Sets up the floors of `kinds` for each of `sizes`; the wake-up floor has one size only. One that cannot be set up says
    /// why in its result. With a placement, the two threads of each floor stay on the cores that it names.
    init(kinds: [FloorKind], sizes: [Int], placement: ThreadPlacement? = nil) {
        self.placement = placement
        let sized = sizes.flatMap { size in kinds.filter { $0 != .wakeUp }.map { Key(kind: $0, size: size) } }
        keys = kinds.contains(.wakeUp) ? [Key(kind: .wakeUp, size: FloorKind.wakeUp.maximumSize)] + sized : sized
        for key in keys {
            do throws(SystemFailure) {
                entries[key] = Entry(floor: try key.kind.open(bytes: key.size, farCore: placement?.far))
            } catch {
                entries[key] = Entry(reason: error.message)
            }
        }
    }

    /// Measures one repeat of one floor: for `duration`, or `rounds` round trips, whichever ends first. Ends early when
    /// interrupted.
    func measure(_ key: Key, duration: Duration, rounds: Int = .max) {
        guard var entry = entries[key], let floor = entry.floor else { return }
        scratch.reset()
        let cores = placement.flatMap { _ in CoreMask.ofThisThread() }
        if let placement { CoreMask(only: placement.near).applyToThisThread() }
        defer { cores?.applyToThisThread() }
        do throws(SystemFailure) {
            var warmup = Histogram()
            try floor.run(FloorSlice(rounds: Self.unrecorded), into: &warmup)
            let end = Clocks.now().advanced(by: duration).nanoseconds
            var now = Clocks.monotonic()
            while now < end, scratch.count < rounds, !Interruption.isRequested {
                let deadline = min(end, now + Self.patience)
                try floor.run(FloorSlice(rounds: rounds - scratch.count, deadline: deadline), into: &scratch)
                now = Clocks.monotonic()
            }
        } catch {
            entry.floor = nil
            entry.reason = error.message
        }
        entry.total.merge(scratch)
        entry.medians.append(scratch.median.map { Double($0) / 1000 })
        entries[key] = entry
    }

    /// Everything measured so far.
    var results: [FloorResult] { keys.compactMap(result) }

    /// What was measured so far of one floor; `nil` if there is no such floor.
    func result(_ key: Key) -> FloorResult? {
        entries[key].map { entry in
            FloorResult(
                kind: key.kind,
                size: key.size,
                rtt: Latency(entry.total),
                p50Spread: RepeatStatistics(entry.medians.compactMap { $0 }),
                reason: entry.reason,
                repeats: [.p50: entry.medians]
            )
        }
    }
}
