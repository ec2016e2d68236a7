import Codecs
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
        /// Closed loop: how many messages are under way.
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

    /// How long nothing may come back before what is under way is given up, in nanoseconds.
    static let patience: Int64 = 1_000_000_000

    private let state: LoopConfined<EchoState>
    let link: any Link

    init(
        _ link: any Link,
        codec: ConfiguredCodec,
        message: ChatMessage,
        patience: Int64 = EchoClient.patience,
        on loop: EventLoop
    ) {
        self.link = link
        state = LoopConfined(EchoState(link, codec: codec, message: message, patience: patience, on: loop), to: loop)
    }

    /// Runs one slice to its end, through whatever the network loses. To be called on the loop, as all here.
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
        } while Clocks.monotonic() < slice.end && left.messages > 0 && held.failure == nil && !Interruption.isRequested
        var outcome = held.outcome
        outcome.elapsed = Clocks.monotonic() - start
        outcome.cpu = Clocks.threadCPU() - cpu
        return outcome
    }

    /// Runs until the slice's end, or until nothing has come back for so long that what is under way must be lost.
    private nonisolated(nonsending) func attempt(_ slice: Slice) async {
        let state = state
        let work = Task(executorPreference: state.loop) {
            slice.interval == nil ? await state.value.closedLoop(slice) : await Self.openLoop(state, slice)
        }
        let watchdog = Task(executorPreference: state.loop) { await state.value.watch(work) }
        await work.value
        watchdog.cancel()
        state.value.giveUp()
    }

    private nonisolated(nonsending) static func openLoop(_ state: LoopConfined<EchoState>, _ slice: Slice) async {
        let receiver = Task(executorPreference: state.loop) { while await state.value.receive() != nil {} }
        await state.value.openLoop(slice)
        receiver.cancel()
        await receiver.value
    }

    /// The accounts of all slices, how often something went wrong, and what did first.
    var summary: (accounts: Accounts, errors: Int, failure: String?) {
        let held = state.value
        return (held.tracker.accounts, held.errors, held.failure)
    }
}

/// What an ``EchoClient`` keeps on the loop.
private final class EchoState {
    private static let window = 1 << 14

    private let loop: EventLoop
    private let link: any Link
    private let codec: ConfiguredCodec
    private let patience: Int64
    private var message: ChatMessage
    private var buffer: [UInt8] = []
    private(set) var tracker = SequenceTracker(window: EchoState.window)
    private var intended = [Int64](repeating: 0, count: EchoState.window)
    private var sent = [Int64](repeating: 0, count: EchoState.window)
    private(set) var nextNumber: UInt64 = 0
    private(set) var outcome = EchoClient.Outcome()
    private var isOpenLoop = false
    private var lastProgress: Int64 = 0
    private(set) var errors = 0
    private(set) var failure: String?

    init(_ link: any Link, codec: ConfiguredCodec, message: ChatMessage, patience: Int64, on loop: EventLoop) {
        self.link = link
        self.codec = codec
        self.message = message
        self.patience = patience
        self.loop = loop
    }

    func begin(_ slice: EchoClient.Slice) {
        outcome = EchoClient.Outcome()
        isOpenLoop = slice.interval != nil
        lastProgress = Clocks.monotonic()
    }

    func giveUp() {
        for number in nextNumber - min(nextNumber, UInt64(Self.window))..<nextNumber { tracker.lose(number) }
        lastProgress = Clocks.monotonic()
    }

    /// Looks four times before it gives up, so that a machine that stood still for as long loses nothing.
    nonisolated(nonsending) func watch(_ work: Task<Void, Never>) async {
        var (seen, looks) = (lastProgress, 0)
        while !Task.isCancelled {
            await sleep(until: Clocks.monotonic() + patience / 4)
            (seen, looks) = (lastProgress, lastProgress == seen ? looks + 1 : 0)
            if looks >= 4 { return work.cancel() }
        }
    }

    // MARK: Loops

    nonisolated(nonsending) func closedLoop(_ slice: EchoClient.Slice) async {
        var underWay = 0
        var sent = 0
        while underWay < slice.inFlight, sent < slice.messages, await send(at: Clocks.monotonic()) {
            underWay += 1
            sent += 1
        }
        while underWay > 0, let now = await receive() {
            underWay -= 1
            if now < slice.end, sent < slice.messages, await send(at: now) {
                underWay += 1
                sent += 1
            }
        }
    }

    nonisolated(nonsending) func openLoop(_ slice: EchoClient.Slice) async {
        let first = Clocks.monotonic()
        let interval = slice.interval ?? 1
        var count = 0
        while count < slice.messages, !Task.isCancelled {
            let due = first + Int64(count) * interval
            guard due < slice.end else { break }
            if due > Clocks.monotonic() { await sleep(until: due) }
            guard await send(at: due) else { break }
            count += 1
        }
        while tracker.accounts.inFlight > 0, !Task.isCancelled, failure == nil {
            await sleep(until: Clocks.monotonic() + 1_000_000)
        }
    }

    private nonisolated(nonsending) func sleep(until time: Int64) async {
        await withUnsafeContinuation { continuation in
            _ = loop.schedule(at: time) { continuation.resume() }
        }
    }

    // MARK: Messages

    /// Sends the next message, which was to be sent at `time`.
    private nonisolated(nonsending) func send(at time: Int64) async -> Bool {
        let number = tracker.send()
        nextNumber = number + 1
        intended[Int(number) & (Self.window - 1)] = time
        sent[Int(number) & (Self.window - 1)] = isOpenLoop ? Clocks.monotonic() : time
        message.id = MessageID.text(number)
        buffer.removeAll(keepingCapacity: true)
        do throws(CodecError) {
            try codec.encode(message, into: &buffer)
        } catch {
            return fail("\(error)", number)
        }
        let outcome = await link.send(Payload(buffer, kind: codec.format.isText ? .text : .binary))
        switch outcome {
        case .written, .acknowledged: return true
        case .rejected(let error), .unknown(let error):
            guard error.code == .cancelled else { return fail("\(error)", number) }
            tracker.lose(number)
            return false
        case .expired: return fail("a message expired", number)
        }
    }

    /// Waits for the next answer and gives the time at which it was decoded; `nil` when there will be none.
    nonisolated(nonsending) func receive() async -> Int64? {
        while true {
            let payload: Payload
            do throws(TransportError) {
                guard let received = try await link.receive() else {
                    _ = fail("the server has closed the link", nil)
                    return nil
                }
                payload = received
            } catch {
                if error.code != .cancelled { _ = fail("\(error)", nil) }
                return nil
            }
            if let now = take(payload) { return now }
        }
    }

    /// Counts an answer; `nil` if it answers nothing that is waited for.
    private func take(_ payload: Payload) -> Int64? {
        let echo: ChatMessage
        do throws(CodecError) {
            echo = try codec.decode(ChatMessage.self, from: payload.bytes)
        } catch {
            _ = fail("\(error)", nil)
            return nil
        }
        let now = Clocks.monotonic()
        lastProgress = now
        guard let number = MessageID.number(echo.id), echo.text.utf8.count == message.text.utf8.count else {
            errors += 1
            return nil
        }
        guard case .first = tracker.answer(number) else { return nil }
        outcome.answered += 1
        outcome.rtt.record(now - intended[Int(number) & (Self.window - 1)])
        outcome.service.record(now - sent[Int(number) & (Self.window - 1)])
        return now
    }

    private func fail(_ sentence: String, _ number: UInt64?) -> Bool {
        errors += 1
        if failure == nil { failure = sentence }
        if let number { tracker.lose(number) }
        return false
    }
}
