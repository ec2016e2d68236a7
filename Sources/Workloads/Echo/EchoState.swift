import Codecs
import CommandSupport
import Measuring
import Primitives
import Protocols
import SocketIO
import TransportAPI
import Transports

/// The state of an ``EchoClient`` on the loop.
package final class EchoState {
    private static let window = 1 << 14
    /// How many pings are sent to a silent server over an unreliable connection, because the network may lose one.
    private static let pings = 5
    /// The longest wait without a check for cancellation, in nanoseconds.
    private static let step: Int64 = 100_000_000

    private let loop: EventLoop
    private let connection: any Connection
    private let codec: ConfiguredCodec
    private let answerTimeout: Int64
    private var message: ChatMessage
    private var buffer: [UInt8] = []
    package private(set) var tracker = SequenceTracker(window: EchoState.window)
    /// When each message in the window was due; empty in the closed loop, which has no schedule.
    private var intended: [Int64] = []
    private var sent = [Int64](repeating: 0, count: EchoState.window)
    private(set) var nextNumber: UInt64 = 0
    package private(set) var topicBytes = 0
    /// The measurements of the present slice; `nil` between slices. Its histograms take half a megabyte, and all rows of a
    /// run are open at once.
    private var outcome: EchoClient.Outcome?
    private var isOpenLoop = false
    /// The share by which each round trip is made longer.
    private var delay = 0.0
    /// When the last answer came, or the last wait for one began.
    private var lastProgress: Int64 = 0
    /// When the last answer came, also in an earlier slice.
    private(set) var lastAnswer: Int64 = 0
    /// When the last message was handed to the connection.
    private var lastSent: Int64 = 0
    /// Whether the messages in flight have waited too long for an answer.
    private var isSilent = false
    package private(set) var errors = 0
    private var ownFailure: String?
    /// The error whose sentence is ``ownFailure``, if it has one.
    private(set) var ownError: TransportError?
    package let picture: PictureSender?

    /// The first error of the messages, or that of the picture.
    package var failure: String? { ownFailure ?? picture?.failure }

    package init(
        _ connection: any Connection,
        codec: ConfiguredCodec,
        message: ChatMessage,
        answerTimeout: Int64,
        picture: PictureSender.Plan?,
        on loop: EventLoop
    ) {
        self.picture = picture.map(PictureSender.init)
        self.connection = connection
        self.codec = codec
        self.message = message
        self.answerTimeout = answerTimeout
        self.loop = loop
    }

    package func begin(_ slice: EchoClient.Slice) {
        outcome = EchoClient.Outcome()
        isOpenLoop = slice.interval != nil
        if isOpenLoop, intended.isEmpty { intended = [Int64](repeating: 0, count: Self.window) }
        delay = slice.delay / 100
        lastProgress = Clocks.monotonic()
        isSilent = false
    }

    /// The measurements of the slice, which is over.
    func takeOutcome() -> EchoClient.Outcome {
        defer { outcome = nil }
        return outcome ?? EchoClient.Outcome()
    }

    /// Cancels `work` if messages have been in flight for ``answerTimeout`` without any answer. It checks four times, so
    /// that a machine that was suspended for this time loses nothing.
    package nonisolated(nonsending) func watch(_ work: Task<Void, Never>) async {
        var (seen, looks) = (lastProgress, 0)
        while !Task.isCancelled {
            await sleep(until: Clocks.monotonic() + answerTimeout / 4)
            let isWaiting = lastProgress == seen && tracker.accounts.inFlight > 0
            (seen, looks) = (lastProgress, isWaiting ? looks + 1 : 0)
            guard looks >= 4, !Task.isCancelled else { continue }
            isSilent = true
            return work.cancel()
        }
    }

    /// Counts messages still in flight after an attempt as lost. An attempt that ended without answers fails the row,
    /// unless a ping shows that the network may have lost the messages.
    nonisolated(nonsending) func settle() async {
        picture?.settle()
        let lost = tracker.accounts.inFlight
        for number in nextNumber - min(nextNumber, UInt64(Self.window))..<nextNumber { tracker.lose(number) }
        defer { lastProgress = Clocks.monotonic() }
        guard isSilent else { return }
        isSilent = false
        guard failure == nil else { return }
        let time = Duration.nanoseconds(answerTimeout).settingText
        guard !connection.capabilities.isReliable else {
            _ = fail("the server has answered nothing for \(time); messages in flight: \(lost)", nil)
            return
        }
        guard connection.capabilities.hasNativePing else { return }
        for _ in 0..<Self.pings where !Task.isCancelled {
            let connection = connection
            let answer = try? await within(.nanoseconds(answerTimeout), on: loop, else: "") {
                () async throws(TransportError) in
                try await connection.ping()
            }
            if answer != nil { return }
        }
        guard !Task.isCancelled else { return }
        _ = fail("the server has answered neither a message nor one of \(Self.pings) pings, each for \(time)", nil)
    }

    // MARK: Loops

    package nonisolated(nonsending) func closedLoop(_ slice: EchoClient.Slice) async {
        var inFlight = 0
        var sent = 0
        while inFlight < slice.inFlight, sent < slice.messages, await send(at: Clocks.monotonic()) {
            inFlight += 1
            sent += 1
        }
        while inFlight > 0, let now = await receive() {
            inFlight -= 1
            if now < slice.end || hasPicture, sent < slice.messages, await send(at: now) {
                inFlight += 1
                sent += 1
            }
        }
    }

    package nonisolated(nonsending) func openLoop(_ slice: EchoClient.Slice) async {
        let first = Clocks.monotonic()
        let interval = slice.interval ?? 1
        var count = 0
        while count < slice.messages, !Task.isCancelled {
            let due = first + Int64(count) * interval
            guard due < slice.end || hasPicture else { break }
            if due > Clocks.monotonic() { await sleep(until: due) }
            guard !Task.isCancelled, await send(at: due) else { break }
            count += 1
        }
        outcome?.sent += count
        outcome?.elapsed += Self.scheduleTime(of: count, interval, sentWithin: lastSent - first)
        picture?.finish()
        while tracker.accounts.inFlight > 0 || hasPicture, !Task.isCancelled, failure == nil {
            await sleep(until: Clocks.monotonic() + 1_000_000)
        }
        // The last message has its interval too. Otherwise another schedule would begin at once.
        if first + Int64(count) * interval >= slice.end { await sleep(until: slice.end) }
    }

    /// The time that messages of a schedule take: one interval each, or longer if the last of them was sent later.
    package static func scheduleTime(of count: Int, _ interval: Int64, sentWithin time: Int64) -> Int64 {
        count > 0 ? max(Int64(count) * interval, time) : 0
    }

    // MARK: Pictures

    private var hasPicture: Bool { picture?.isPending ?? false }

    /// Receives pieces over a connection that only pictures have.
    nonisolated(nonsending) func receivePictures() async {
        if let picture, !picture.isShared { await picture.receive() }
    }

    /// After the last message: receives the rest of the picture.
    nonisolated(nonsending) func endPictures() async {
        guard let picture else { return }
        picture.finish()
        while picture.isShared, picture.isPending, failure == nil, await receive(orPiece: true) != nil {}
    }

    nonisolated(nonsending) func watchPictures() async { await picture?.watch(answerTimeout, on: loop) }

    /// Waits until `time`, or until the task is cancelled.
    private nonisolated(nonsending) func sleep(until time: Int64) async {
        while case let now = Clocks.monotonic(), now < time, !Task.isCancelled {
            let next = min(time, now + Self.step)
            await withUnsafeContinuation { continuation in
                _ = loop.schedule(at: next) { continuation.resume() }
            }
        }
    }

    // MARK: Messages

    /// Sends the next message, which was scheduled for `time`.
    private nonisolated(nonsending) func send(at time: Int64) async -> Bool {
        let number = tracker.send()
        nextNumber = number + 1
        let slot = Int(number) & (Self.window - 1)
        if isOpenLoop { intended[slot] = time }
        lastSent = isOpenLoop ? Clocks.monotonic() : time
        sent[slot] = lastSent
        message.id = MessageNumber.text(number)
        buffer.removeAll(keepingCapacity: true)
        do throws(CodecError) {
            try codec.encode(message, into: &buffer)
        } catch {
            return fail("\(error)", number)
        }
        let outcome = await connection.send(Payload(buffer, kind: codec.format.isText ? .text : .binary))
        switch outcome {
        case .written, .acknowledged: return true
        case .rejected(let error), .unknown(let error):
            // A cancelled message counts as in flight, and `settle` counts it as lost.
            return error.code == .cancelled ? false : fail(error, number)
        case .expired: return fail("a message expired", number)
        }
    }

    /// Waits for the next answer and returns the time at which it was decoded; `nil` at the end.
    ///
    /// - Parameter isPieceEnough: whether to return after a piece of a picture too.
    package nonisolated(nonsending) func receive(orPiece isPieceEnough: Bool = false) async -> Int64? {
        while true {
            let payload: Payload
            do throws(TransportError) {
                guard let received = try await connection.receive() else {
                    _ = fail("the server has closed the connection", nil)
                    return nil
                }
                payload = received
            } catch {
                if error.code != .cancelled { _ = fail(error, nil) }
                return nil
            }
            if let picture, picture.isShared, PictureSender.isPiece(payload.bytes) {
                lastProgress = Clocks.monotonic()
                picture.take(payload.bytes, at: lastProgress)
                if isPieceEnough { return lastProgress }
            } else if let now = take(payload) {
                return now
            }
        }
    }

    /// Counts an answer; `nil` if no message in flight matches it.
    private func take(_ payload: Payload) -> Int64? {
        let echo: ChatMessage
        do throws(CodecError) {
            echo = try codec.decode(ChatMessage.self, from: payload.bytes)
        } catch {
            _ = fail("\(error)", nil)
            return nil
        }
        var now = Clocks.monotonic()
        (lastProgress, lastAnswer) = (now, now)
        if let picture, picture.isShared { picture.noteProgress(now) }
        topicBytes = payload.topic?.utf8.count ?? 0
        guard let number = MessageNumber.number(echo.id), echo.text.utf8.count == message.text.utf8.count else {
            errors += 1
            return nil
        }
        guard case .first = tracker.answer(number) else { return nil }
        let slot = Int(number) & (Self.window - 1)
        if delay > 0 {
            let end = now + Int64(Double(now - sent[slot]) * delay)
            while now < end { now = Clocks.monotonic() }
        }
        outcome?.answered += 1
        outcome?.rtt.record(now - (isOpenLoop ? intended[slot] : sent[slot]))
        outcome?.service.record(now - sent[slot])
        return now
    }

    private func fail(_ error: TransportError, _ number: UInt64?) -> Bool {
        if ownFailure == nil { ownError = error }
        return fail(error.sentence, number)
    }

    private func fail(_ sentence: String, _ number: UInt64?) -> Bool {
        errors += 1
        if ownFailure == nil { ownFailure = sentence }
        if let number { tracker.lose(number) }
        return false
    }
}
