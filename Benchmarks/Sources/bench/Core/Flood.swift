/// Sends as many messages as fit into a repetition in one direction, and measures the rate at which they arrive.
final class Flood: Contender {
    private let size: Int
    private let unit: Workload.Unit
    private let first: Int
    private let run: (_ count: Int) throws -> Int64
    private let end: () -> Void
    /// The rate of the last run, in messages per nanosecond.
    private var rate = 0.0

    /// - Parameters:
    ///   - size: the size of a message, in bytes.
    ///   - first: the number of messages of the first run.
    ///   - end: called after the last run.
    ///   - run: sends this number of messages. Returns the nanoseconds until all had arrived and were compared.
    init(
        size: Int,
        unit: Workload.Unit = .messagesPerSecond,
        first: Int = 2000,
        end: @escaping () -> Void = {},
        run: @escaping (_ count: Int) throws -> Int64
    ) {
        (self.size, self.unit, self.first, self.run, self.end) = (size, unit, first, run, end)
    }

    func measure(for nanoseconds: Int64) throws -> Double {
        try repetition(first)
        // The very first run is cold, so its rate is only a guess.
        try repetition(max(first, Int(rate * Double(nanoseconds) / 5)))
        try repetition(max(first, Int(rate * Double(nanoseconds))))
        let perSecond = rate * 1e9
        return unit == .megabytesPerSecond ? perSecond * Double(size) / 1e6 : perSecond
    }

    func close() { end() }

    private func repetition(_ count: Int) throws {
        let elapsed = try run(count)
        rate = Double(count) / Double(max(1, elapsed))
    }
}
