import Codecs
import CommandSupport
import Measuring
import Primitives
import Protocols
import SocketIO
import TransportAPI
import Transports

/// One connection of a measurement. It sends chat messages through the public API, as an app does, and measures each until
/// its echo is decoded. Its tasks prefer the client's loop.
package final class EchoClient: Sendable {
    /// The extent of one slice of a row.
    package struct Slice: Sendable {
        /// When the last message may be sent, in nanoseconds of the monotonic clock.
        package var end: Int64
        /// The most messages that are sent.
        package var messages = Int.max
        /// Closed loop: how many messages are in flight.
        package var inFlight = 1
        /// Open loop: nanoseconds between messages; `nil` for the closed loop.
        package var interval: Int64?
        /// By how many percent each round trip is made longer, to test `imbench compare`.
        package var delay = 0.0
        /// Whether pictures go beside the messages. The last one begins before `end`, and the slice lasts until it is whole.
        package var hasPicture = false

        package init(end: Int64, messages: Int = .max, inFlight: Int = 1, interval: Int64? = nil, delay: Double = 0) {
            (self.end, self.messages, self.inFlight) = (end, messages, inFlight)
            (self.interval, self.delay) = (interval, delay)
        }
    }

    /// The measurements of one slice.
    package struct Outcome: Sendable {
        /// Round-trip times; in the open loop from the intended time of sending.
        package var rtt = Histogram()
        /// Round-trip times from when the message was sent.
        package var service = Histogram()
        /// Open loop: messages handed to the connection.
        package var sent = 0
        package var answered = 0
        /// Closed loop: the time until the last answer. Open loop: the time of the schedule.
        package var elapsed: Int64 = 0
        package var cpu: Int64 = 0
        /// The times of pictures; `nil` without pictures.
        package var picture: Histogram?
    }

    /// The time without any answer, in nanoseconds, after which the messages in flight count as lost. A lost datagram never
    /// arrives, so a longer wait only shortens the measurement. On a reliable connection a message can only be delayed.
    package static func answerTimeout(_ capabilities: Capabilities) -> Int64 {
        capabilities.isReliable ? 5_000_000_000 : 1_000_000_000
    }

    private let state: LoopBound<EchoState>
    package let connection: any Connection

    /// - Parameters:
    ///   - answerTimeout: in nanoseconds; by default ``answerTimeout(_:)``.
    ///   - picture: the picture beside the messages, if there is one.
    package init(
        _ connection: any Connection,
        codec: ConfiguredCodec,
        message: ChatMessage,
        answerTimeout: Int64? = nil,
        picture: PictureSender.Plan? = nil,
        on loop: EventLoop
    ) {
        self.connection = connection
        let answerTimeout = answerTimeout ?? Self.answerTimeout(connection.capabilities)
        state = LoopBound(
            EchoState(
                connection,
                codec: codec,
                message: message,
                answerTimeout: answerTimeout,
                picture: picture,
                on: loop
            ),
            to: loop
        )
    }

    /// Runs one slice to its end, or until the connection fails or the task is cancelled. Lost messages do not end it.
    /// Messages that are in flight when the task is cancelled remain in flight in the accounts. Like all methods, it must run
    /// on the loop.
    package nonisolated(nonsending) func run(_ slice: Slice) async -> Outcome {
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
        var outcome = held.takeOutcome()
        // The wait for lost messages is no part of the rate. In the open loop no answer is, because its time includes the
        // delay of the network.
        if slice.interval == nil {
            outcome.elapsed = held.lastAnswer > start ? held.lastAnswer - start : Clocks.monotonic() - start
        }
        outcome.cpu = Clocks.threadCPU() - cpu
        if let picture = held.picture { outcome.picture = picture.takeTimes() }
        return outcome
    }

    /// Runs until the slice's end, or until the messages in flight count as lost.
    private nonisolated(nonsending) func attempt(_ slice: Slice) async {
        let state = state
        let work = Task(executorPreference: state.loop) {
            slice.hasPicture ? await Self.chatBesidePictures(state, slice) : await Self.chat(state, slice)
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

    private nonisolated(nonsending) static func chat(_ state: LoopBound<EchoState>, _ slice: Slice) async {
        slice.interval == nil ? await state.value.closedLoop(slice) : await openLoop(state, slice)
    }

    /// Sends messages and pictures until both are over. A failure of either ends the other.
    private nonisolated(nonsending) static func chatBesidePictures(
        _ state: LoopBound<EchoState>,
        _ slice: Slice
    ) async {
        guard let signals = state.value.picture?.begin(until: slice.end) else { return await chat(state, slice) }
        let loop = state.loop
        // Each task returns whether the slice must wait for it. The watch can end before the last answer.
        await withTaskGroup(of: Bool.self) { group in
            group.addTask(executorPreference: loop) {
                await state.value.picture?.send(signals)
                return true
            }
            group.addTask(executorPreference: loop) {
                await state.value.receivePictures()
                return true
            }
            group.addTask(executorPreference: loop) {
                await chat(state, slice)
                await state.value.endPictures()
                return true
            }
            group.addTask(executorPreference: loop) {
                await state.value.watchPictures()
                return false
            }
            var left = 3
            while left > 0, let isNeeded = await group.next() {
                if isNeeded { left -= 1 }
                if state.value.failure != nil { group.cancelAll() }
            }
            group.cancelAll()
        }
    }

    private nonisolated(nonsending) static func openLoop(_ state: LoopBound<EchoState>, _ slice: Slice) async {
        let receiver = Task(executorPreference: state.loop) { while await state.value.receive() != nil {} }
        await state.value.openLoop(slice)
        receiver.cancel()
        await receiver.value
    }

    /// The bytes of the topic in the last answer, which is that of the message. Call it on the loop.
    package var topicBytes: Int { state.value.topicBytes }

    /// The accounts of the pieces of pictures. Call it on the loop.
    package var pieces: DeliveryCounts { state.value.picture?.accounts ?? DeliveryCounts() }

    /// The accounts of all slices, the number of errors, and the first error. Call it on the loop.
    package var summary: (accounts: DeliveryCounts, errors: Int, failure: String?) {
        let held = state.value
        return (held.tracker.accounts, held.errors + (held.picture?.errors ?? 0), held.failure)
    }

    /// The error of the connection, if it was the first error. Call it on the loop.
    package var error: TransportError? { state.value.ownError }
}
