/// Sends messages one way, as many as fit into a repetition, and gives the rate at which the peer had them.
final class Flood: Contender {
    private let size: Int
    private let unit: Workload.Unit
    private let first: Int
    private let run: (_ count: Int) throws -> Int64
    private let end: () -> Void
    /// Messages in a nanosecond, as of the last run.
    private var rate = 0.0

    /// - Parameters:
    ///   - size: bytes of a message.
    ///   - first: how many messages to begin with.
    ///   - end: called when no more will be sent.
    ///   - run: sends so many messages and returns the nanoseconds until all had arrived and were compared.
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
        // The first run of all is cold, and so no more than a guess.
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
