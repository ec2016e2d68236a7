import Codecs
import Primitives
import SocketIO
import TransportAPI

/// One connection of a measurement: sends chat messages through the public API, as an app would, and follows each until its
/// echo has come back and is decoded. Its tasks prefer the client's loop.
final class EchoClient: Sendable {
    /// What one slice of a row is.
    struct Slice: Sendable {
        /// When the last message may be sent, in nanoseconds of the monotonic clock.
        var end: Int64
        /// The most messages that are sent.
        var messages = Int.max
        /// Closed loop: how many messages are in flight.
        var inFlight = 1
        /// Open loop: nanoseconds between messages; `nil` for the closed loop.
        var interval: Int64?
    }

    /// What one slice came to.
    struct Outcome: Sendable {
        /// Round-trip times; in the open loop from the intended time of sending.
        var rtt = Histogram()
        /// Round-trip times from when the message was sent.
        var service = Histogram()
        var answered = 0
        var elapsed: Int64 = 0
        var cpu: Int64 = 0
    }

    /// How long no answer may come, in nanoseconds, before the messages in flight are given up. A datagram that is lost never
    /// comes, so that waiting longer only shortens the measurement; on a reliable connection a message can only be late.
    static func patience(_ capabilities: Capabilities) -> Int64 {
        capabilities.isReliable ? 5_000_000_000 : 1_000_000_000
    }

    private let state: LoopBound<EchoState>
    let connection: any Connection

    /// - Parameter patience: in nanoseconds; ``patience(_:)`` unless a test knows better.
    init(
        _ connection: any Connection,
        codec: ConfiguredCodec,
        message: ChatMessage,
        patience: Int64? = nil,
        on loop: EventLoop
    ) {
        self.connection = connection
        let patience = patience ?? Self.patience(connection.capabilities)
        state = LoopBound(EchoState(connection, codec: codec, message: message, patience: patience, on: loop), to: loop)
    }

    /// Runs one slice to its end, through whatever the network loses, or until the connection fails or the task is
    /// cancelled. Messages that are in flight when the task is cancelled stay so in the accounts. To be called on the
    /// loop, as all here.
    nonisolated(nonsending) func run(_ slice: Slice) async -> Outcome {
        let held = state.value
        held.begin(slice)
        let cpu = Clocks.threadCPU()
        let start = Clocks.monotonic()
        var left = slice
        repeat {
            let before = held.nextNumber
            await attempt(left)
            left.messages -= Int(held.nextNumber - before)
        } while Clocks.monotonic() < slice.end && left.messages > 0 && held.failure == nil && !Task.isCancelled
        var outcome = held.outcome
        outcome.elapsed = Clocks.monotonic() - start
        outcome.cpu = Clocks.threadCPU() - cpu
        return outcome
    }

    /// Runs until the slice's end, or until no answer has come for so long that the messages in flight are given up.
    private nonisolated(nonsending) func attempt(_ slice: Slice) async {
        let state = state
        let work = Task(executorPreference: state.loop) {
            slice.interval == nil ? await state.value.closedLoop(slice) : await Self.openLoop(state, slice)
        }
        let watchdog = Task(executorPreference: state.loop) { await state.value.watch(work) }
        await withTaskCancellationHandler {
            await work.value
        } onCancel: {
            work.cancel()
        }
        watchdog.cancel()
        if !Task.isCancelled { await state.value.settle() }
    }

    private nonisolated(nonsending) static func openLoop(_ state: LoopBound<EchoState>, _ slice: Slice) async {
        let receiver = Task(executorPreference: state.loop) { while await state.value.receive() != nil {} }
        await state.value.openLoop(slice)
        receiver.cancel()
        await receiver.value
    }

    /// The accounts of all slices, how often something went wrong, and what did first. To be called on the loop.
    var summary: (accounts: DeliveryCounts, errors: Int, failure: String?) {
        let held = state.value
        return (held.tracker.accounts, held.errors, held.failure)
    }
}
