import CBench
import CommandSupport
import Foundation

// The same bytes on the wire as ours, sent and received in C without anything else.
extension Recipe {
    /// A length of 4 bytes before the message.
    static let tcpFloor = Recipe(name: "C, epoll", workload: .tcpRoundTrip) {
        try cEcho($0, there: Workload.roundTripSize + 4, back: Workload.roundTripSize + 4)
    }
    /// A header of 16 bytes before the message (Docs/reference/wire-formats.md).
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
    /// As in a library, each message has its own buffer and is passed to a callback.
    static let tcpOneWayCallback = Recipe(name: "C, epoll, a buffer and a callback for each", workload: .tcpOneWay) {
        stage in
        try CFlood.open(stage, size: Workload.oneWaySize, ownsBuffers: true)
    }
}

/// Ping-pong of bare epoll loops.
private func cEcho(_ stage: Stage, there: Int, back: Int, isDatagram: Bool = false) throws -> any Contender {
    guard let echo = cbench_echo_open(isDatagram ? 1 : 0, there, back, stage.farCore) else {
        throw SystemFailure("floor", errno: errno)
    }
    return CRoundTrip(stage, "floor", end: { cbench_echo_close(echo) }) {
        cbench_echo_run(echo, $0, $1.baseAddress, $1.count)
    }
}

/// Messages in one direction, in batches of 64 KiB, the size of the block in which ours are written.
enum CFlood {
    private static let batch = 64 << 10

    static func open(_ stage: Stage, size: Int, ownsBuffers: Bool = false) throws -> any Contender {
        guard let flood = cbench_flood_open(size, batch, ownsBuffers ? 1 : 0, stage.farCore) else {
            throw SystemFailure("floor", errno: errno)
        }
        return Flood(size: size, end: { cbench_flood_close(flood) }) { count in
            let elapsed = stage.pinned { cbench_flood_run(flood, Int64(count)) }
            guard elapsed >= 0 else { throw WrongResult(description: SystemFailure("floor", errno: errno).message) }
            return elapsed
        }
    }
}
