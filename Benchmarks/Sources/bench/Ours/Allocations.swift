import CBench
import CommandSupport

extension Recipe {
    static let tcpSendAllocations = Recipe(name: "TCP connection", workload: .sendAllocations) {
        try Allocations($0, "tcp", \.sendAllocations)
    }
    static let tcpReceiveAllocations = Recipe(name: "TCP connection", workload: .receiveAllocations) {
        try Allocations($0, "tcp", \.receiveAllocations)
    }
    static let webSocketSendAllocations = Recipe(name: "WebSocket connection", workload: .sendAllocations) {
        try Allocations($0, "ws", \.sendAllocations)
    }
    static let webSocketReceiveAllocations = Recipe(name: "WebSocket connection", workload: .receiveAllocations) {
        try Allocations($0, "ws", \.receiveAllocations)
    }
}

/// The number of allocations of one side's thread per message of 64 B, after a warm-up.
final class Allocations: Contender {
    private static let count = 50_000

    private let pair: ConnectionPair
    private let side: KeyPath<ConnectionPair.Passage, UInt64> & Sendable

    init(_ stage: Stage, _ scheme: String, _ side: KeyPath<ConnectionPair.Passage, UInt64> & Sendable) throws {
        let before = cbench_allocations()
        let probe = [UInt8](repeating: 0, count: 4096 + Int(before & 1))
        guard withExtendedLifetime(probe, { cbench_allocations() > before }) else {
            throw WrongResult(description: "allocations are not counted: malloc is not this executable's")
        }
        pair = try ConnectionPair(stage, scheme)
        self.side = side
    }

    func measure(for _: Int64) throws -> Double {
        _ = try pair.pass(Self.count / 5, size: Workload.oneWaySize)
        return Double(try pair.pass(Self.count, size: Workload.oneWaySize)[keyPath: side]) / Double(Self.count)
    }

    func close() { pair.close() }
}
