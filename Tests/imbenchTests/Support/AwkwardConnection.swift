import SocketIO
import TransportAPI

@testable import CommandSupport
@testable import imbench

/// A connection that delays its first message, or loses some, and passes all other calls on.
final class AwkwardConnection: Connection {
    private let below: any Connection
    private let loop: EventLoop
    private let stall: Int64
    private let loses: @Sendable (Int) -> Bool
    private let count = Locked(0)

    /// - Parameters:
    ///   - stall: how long the first message takes to be sent, in nanoseconds.
    ///   - isReliable: whether its capabilities claim reliability.
    ///   - loses: whether the message of this number, counted from 0, is accepted and never sent.
    init(
        over below: any Connection,
        on loop: EventLoop,
        stall: Int64 = 0,
        isReliable: Bool = true,
        loses: @escaping @Sendable (Int) -> Bool = { _ in false }
    ) {
        (self.below, self.loop, self.stall, self.loses) = (below, loop, stall, loses)
        var capabilities = below.capabilities
        capabilities.isReliable = isReliable
        self.capabilities = capabilities
    }

    let capabilities: Capabilities

    nonisolated(nonsending) func send(_ payload: Payload) async -> SendOutcome {
        let number = count.withLock { count in
            defer { count += 1 }
            return count
        }
        if number == 0, stall > 0 {
            let end = Clocks.monotonic() + stall
            await withCheckedContinuation { continuation in
                loop.execute { [loop] in _ = loop.schedule(at: end) { continuation.resume() } }
            }
        }
        return loses(number) ? .written : await below.send(payload)
    }

    nonisolated(nonsending) func receive() async throws(TransportError) -> Payload? { try await below.receive() }
    nonisolated(nonsending) func ping() async throws(TransportError) -> Duration { try await below.ping() }
    nonisolated(nonsending) func close(_ reason: CloseReason) async -> Int { await below.close(reason) }
    nonisolated(nonsending) func closed() async -> CloseReason { await below.closed() }
    nonisolated(nonsending) func statistics() async -> ConnectionStatistics { await below.statistics() }
}
