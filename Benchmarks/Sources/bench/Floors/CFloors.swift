import CBench
import Foundation

// The same bytes on the wire as ours, sent and awaited by C and nothing else.
extension Recipe {
    /// A length of 4 bytes before the message.
    static let tcpFloor = Recipe(name: "C, epoll", workload: .tcpRoundTrip) {
        try CEcho($0, there: Workload.roundTripSize + 4, back: Workload.roundTripSize + 4)
    }
    /// A header of 16 bytes before the message (Docs/wire-formats.md).
    static let udpFloor = Recipe(name: "C, epoll", workload: .udpRoundTrip) {
        try CEcho($0, there: Workload.roundTripSize + 16, back: Workload.roundTripSize + 16, isDatagram: true)
    }
    /// A header of 4 bytes, and a client's mask of 4 bytes (RFC 6455, section 5.2).
    static let webSocketFloor = Recipe(name: "C, epoll", workload: .webSocketRoundTrip) {
        try CEcho($0, there: Workload.roundTripSize + 8, back: Workload.roundTripSize + 4)
    }
    static let tcpOneWayFloor = Recipe(name: "C, epoll", workload: .tcpOneWay) { stage in
        try CFlood.open(stage, size: Workload.oneWaySize)
    }
}

/// Ping-pong of bare epoll loops; the near one runs on the thread that measures.
final class CEcho: Contender {
    private let stage: Stage
    private let echo: OpaquePointer
    private var times = [Int64](repeating: 0, count: 1 << 18)

    init(_ stage: Stage, there: Int, back: Int, isDatagram: Bool = false) throws {
        self.stage = stage
        let core = Int32(stage.placement?.far ?? -1)
        guard let echo = cbench_echo_open(isDatagram ? 1 : 0, there, back, core) else {
            throw SystemFailure("floor", errno: errno)
        }
        self.echo = echo
    }

    func measure(for nanoseconds: Int64) throws -> Double {
        _ = try run(30_000_000)
        var histogram = Histogram()
        let count = try run(nanoseconds)
        for time in times[..<count] { histogram.record(time) }
        guard let median = histogram.median else { throw WrongResult(description: "too few round trips") }
        return Double(median) / 1000
    }

    func close() { cbench_echo_close(echo) }

    private func run(_ nanoseconds: Int64) throws -> Int {
        let room = times.count
        let count = stage.pinned { cbench_echo_run(echo, Clocks.monotonic() + nanoseconds, &times, room) }
        guard count >= 0 else { throw WrongResult(description: SystemFailure("floor", errno: errno).message) }
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
