import CommandSupport
import Foundation
import Measuring

/// Ping-pong of two threads in C. The near one is the measuring thread.
final class CRoundTrip: Contender {
    private let stage: Stage
    private let name: String
    private let end: () -> Void
    private let run: (_ end: Int64, _ times: UnsafeMutableBufferPointer<Int64>) -> Int
    private var times = [Int64](repeating: 0, count: 1 << 18)

    /// - Parameters:
    ///   - name: the name for error messages.
    ///   - end: called after the last measurement.
    ///   - run: runs until `end`, or until `times` is full. Writes the duration of each round trip to `times`, in
    ///     nanoseconds. Returns their number, or -1 with errno.
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
