import CBench
import Foundation

// The same bytes on the wire as ours, sent and awaited by C and nothing else.
extension Recipe {
    /// A length of 4 bytes before the message.
    static let tcpFloor = Recipe(name: "C, epoll", workload: .tcpRoundTrip) {
        try cEcho($0, there: Workload.roundTripSize + 4, back: Workload.roundTripSize + 4)
    }
    /// A header of 16 bytes before the message (Docs/wire-formats.md).
    static let udpFloor = Recipe(name: "C, epoll", workload: .udpRoundTrip) {
        try cEcho($0, there: Workload.roundTripSize + 16, back: Workload.roundTripSize + 16, isDatagram: true)
    }
    /// A header of 4 bytes, and a client's mask of 4 bytes (RFC 6455, section 5.2).
    static let webSocketFloor = Recipe(name: "C, epoll", workload: .webSocketRoundTrip) {
        try cEcho($0, there: Workload.roundTripSize + 8, back: Workload.roundTripSize + 4)
    }
    static let tcpOneWayFloor = Recipe(name: "C, epoll", workload: .tcpOneWay) { stage in
        try CFlood.open(stage, size: Workload.oneWaySize)
    }
}

/// Ping-pong of bare epoll loops.
private func cEcho(_ stage: Stage, there: Int, back: Int, isDatagram: Bool = false) throws -> any Contender {
    let core = Int32(stage.placement?.far ?? -1)
    guard let echo = cbench_echo_open(isDatagram ? 1 : 0, there, back, core) else {
        throw SystemFailure("floor", errno: errno)
    }
    return CRoundTrip(stage, "floor", end: { cbench_echo_close(echo) }) {
        cbench_echo_run(echo, $0, $1.baseAddress, $1.count)
    }
}

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

/// Messages one way, in batches as large as the block in which ours are written: 64 KiB.
enum CFlood {
    private static let batch = 64 << 10

    static func open(_ stage: Stage, size: Int) throws -> any Contender {
        guard let flood = cbench_flood_open(size, batch, Int32(stage.placement?.far ?? -1)) else {
            throw SystemFailure("floor", errno: errno)
        }
        return Flood(size: size, end: { cbench_flood_close(flood) }) { count in
            let elapsed = stage.pinned { cbench_flood_run(flood, Int64(count)) }
            guard elapsed >= 0 else { throw WrongResult(description: SystemFailure("floor", errno: errno).message) }
            return elapsed
        }
    }
}
