import CBench
import SocketIO
import TransportAPI
import Transports

extension Recipe {
    static let tcpLinkOneWay = Recipe(name: "link", workload: .tcpOneWay) {
        try LinkPair($0, "tcp").flood(size: Workload.oneWaySize)
    }
    static let webSocketLinkOneWay = Recipe(name: "link", workload: .webSocketOneWay) {
        try LinkPair($0, "ws").flood(size: Workload.oneWaySize)
    }
    static let webSocketLinkLarge = Recipe(name: "link", workload: .webSocketLarge) {
        try LinkPair($0, "ws").flood(size: Workload.largeSize, unit: .megabytesPerSecond, first: 8)
    }
}

/// The two ends of one connection: a client's link and a server's, each on its own loop.
final class LinkPair: Sendable {
    /// What sending so many messages one way came to.
    struct Passage: Sendable {
        /// Until the far side had all of them, in nanoseconds.
        var elapsed: Int64
        /// How often each side's thread asked for memory meanwhile.
        var sendAllocations: UInt64
        var receiveAllocations: UInt64
    }

    private let stage: Stage
    private let listener: any Listener
    private let near: any Link
    private let far: any Link

    init(_ stage: Stage, _ scheme: String) throws {
        self.stage = stage
        let (clientLoop, serverLoop) = (stage.clientLoop, stage.serverLoop)
        let listener = try blocking(on: serverLoop) {
            try await TransportRegistry.standard.listen("\(scheme)://127.0.0.1:0", on: serverLoop)
        }
        near = try blocking(on: clientLoop) {
            try await TransportRegistry.standard.connect("\(listener.endpoint)", on: clientLoop)
        }
        far = try blocking(on: serverLoop) {
            guard let link = try await listener.accept() else { throw WrongResult(description: "nobody has come") }
            return link
        }
        self.listener = listener
    }

    func flood(
        size: Int,
        unit: Workload.Unit = .messagesPerSecond,
        first: Int = 2000
    ) -> Flood {
        Flood(size: size, unit: unit, first: first, end: { self.close() }) {
            try self.pass($0, size: size).elapsed
        }
    }

    func close() {
        _ = try? blocking(on: stage.clientLoop) { [near] in await near.close() }
    }

    /// Sends messages one after the other, and compares each at the receiver.
    func pass(_ count: Int, size: Int) throws -> Passage {
        let serverLoop = stage.serverLoop
        return try blocking(on: stage.clientLoop) { [near, far] in
            let receiver = Task(executorPreference: serverLoop) {
                try await Self.receive(count, size, from: far)
            }
            let start = Clocks.monotonic()
            let sent = try await Self.send(count, size, over: near)
            let received = try await receiver.value
            return Passage(
                elapsed: received.time - start,
                sendAllocations: sent,
                receiveAllocations: received.allocations
            )
        }
    }

    private nonisolated(nonsending) static func send(_ count: Int, _ size: Int, over link: any Link) async throws
        -> UInt64
    {
        var message = NumberedMessage(size: size)
        let before = cbench_allocations()
        for number in 0..<count {
            message.setNumber(number)
            let outcome = await link.send(Payload(message.bytes))
            guard outcome.isSuccess else { throw WrongResult(description: "not sent: \(outcome)") }
        }
        return cbench_allocations() - before
    }

    private nonisolated(nonsending) static func receive(
        _ count: Int,
        _ size: Int,
        from link: any Link
    ) async throws -> (time: Int64, allocations: UInt64) {
        var expected = NumberedMessage(size: size)
        let before = cbench_allocations()
        for number in 0..<count {
            expected.setNumber(number)
            guard let message = try await link.receive() else { throw WrongResult(description: "the link has ended") }
            guard message.bytes.withUnsafeBytes({ expected.equals($0) }) else {
                throw WrongResult(description: "message \(number) is not what was sent")
            }
        }
        return (Clocks.monotonic(), cbench_allocations() - before)
    }
}
