import Foundation

/// Ping-pong of two threads in C; the near one is the thread that measures.
final class CRoundTrip: Contender {
    private let stage: Stage
    private let name: String
    private let end: () -> Void
    private let run: (_ end: Int64, _ times: UnsafeMutableBufferPointer<Int64>) -> Int
    private var times = [Int64](repeating: 0, count: 1 << 18)

    /// - Parameters:
    ///   - name: of what fails, if it does.
    ///   - end: called when no more will be measured.
    ///   - run: goes on until `end`, or until there is no room in `times`, writes what each round trip took, in nanoseconds,
    ///     and returns how many there were; -1 with errno.
    init(
        _ stage: Stage,
        _ name: String,
        end: @escaping () -> Void,
        run: @escaping (_ end: Int64, _ times: UnsafeMutableBufferPointer<Int64>) -> Int
    ) {
        (self.stage, self.name, self.end, self.run) = (stage, name, end, run)
    }

    func measure(for nanoseconds: Int64) throws -> Double {
        _ = try measured(30_000_000)
        var histogram = Histogram()
        let count = try measured(nanoseconds)
        for time in times[..<count] { histogram.record(time) }
        guard let median = histogram.median else { throw WrongResult(description: "too few round trips") }
        return Double(median) / 1000
    }

    func close() { end() }

    private func measured(_ nanoseconds: Int64) throws -> Int {
        let count = stage.pinned { times.withUnsafeMutableBufferPointer { run(Clocks.monotonic() + nanoseconds, $0) } }
        guard count >= 0 else { throw WrongResult(description: SystemFailure(name, errno: errno).message) }
        return count
    }
}
