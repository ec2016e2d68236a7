import CSocketIO
import Primitives

/// TLS over a byte stream. It gives an engine whole records and sends what the engine returns. It lives on its loop.
///
/// Received bytes stay here until a record is complete. So the engine holds nothing between records, and a peer that
/// speaks no TLS is recognized by its first bytes.
package final class TLSStream: ByteChannel {
    /// How far the connection is.
    private enum Phase {
        case handshake(Handshake)
        case open
        /// The peer has ended its side by close_notify.
        case ended
        /// The stream below is broken. Each read and each write returns the error.
        case broken(SystemError)
        /// TLS has failed, here or in the stream below. The next read returns the reason, after the data before it. If a
        /// write has found the failure, the next write returns it too, unless a read was first.
        case failed(TLSFailure, inWrite: Bool)
        /// The reason was returned, or the stream below broke within the handshake. Received bytes are dropped, and a read
        /// finds the end of the stream below.
        case over
    }

    /// The state of a handshake that is in progress.
    private struct Handshake {
        /// The beginning of the next step.
        enum Step {
            /// The handshake of the stream below.
            case below
            /// A call of the engine without a record.
            case start
            /// A record of the peer.
            case record
            /// Room for the rest of the engine's output.
            case room
        }

        var step = Step.below
        /// Whether the peer has sent a record.
        var hasRecord = false
        /// Whether records were made that the peer has not answered.
        var isUnanswered = false
    }

    private struct ReadState: ~Copyable {
        /// Received bytes that the engine has not taken.
        var input: RecordBuffer
        /// Whether the last read has emptied the stream below, and no bytes were reported since.
        var isDrained = false
        /// Whether the engine has decrypted bytes that were not read, because the last read had no room for them.
        var hasPending = false
        var emptyRecords = EmptyRecordLimit()
    }

    private struct WriteState: ~Copyable {
        /// How far this side has ended its output.
        enum Ending {
            case open
            /// close_notify follows the output.
            case requested
            /// close_notify is in the output, and the end of the stream below follows it.
            case written
            /// The stream below was shut down.
            case done
            /// The stream below takes nothing more. All writes return the error. Reads continue, because the peer may have
            /// sent the reason before it closed the stream.
            case broken(SystemError)
        }

        /// Records that the stream below has not taken.
        var output: RecordBuffer
        var ending = Ending.open
        /// Whether the engine has to read before it can write.
        var needsInput = false
        /// The bytes of records that a broken stream did not take.
        var lostBytes = 0
        /// The length of close_notify, once it was written.
        var closingBytes = 0

        /// The error of a stream below that takes nothing more.
        var error: SystemError? {
            if case .broken(let error) = ending { error } else { nil }
        }

        /// Drops the output, because the stream below does not take it.
        mutating func lose() {
            lostBytes += output.count
            output.removeAll()
        }
    }

    /// The buffers that the engine keeps between records, and the timer after which an idle engine frees them. To allocate
    /// them for each record costs more than the copies.
    private enum KeptBuffers {
        case none
        /// The timer runs, and the engine was not used since it was set.
        case idle
        /// The timer runs, and the engine was used.
        case used
    }

    /// After this time without use, in nanoseconds, an engine frees its buffers. It takes twice as long at most.
    private static let restAfter: Int64 = 400_000_000
    /// How many records one read processes at most. Each takes about a microsecond, also with one byte of data.
    private static let recordsAtOnce = 32
    /// The room that is left for answers to the peer's control messages, in bytes.
    private static let reserve = 8192

    private let inner: any ByteChannel
    private let engine: any TLSEngine
    private let side: TLSSettings.Side
    private let loop: EventLoop
    /// The user of the stream, until it closes the stream.
    private var handler: (any PollHandler)?
    // Unchecked exclusivity, because no other code runs while these change.
    @exclusivity(unchecked) private var phase = Phase.handshake(Handshake())
    @exclusivity(unchecked) private var reading: ReadState
    @exclusivity(unchecked) private var writing: WriteState
    @exclusivity(unchecked) private var buffers = KeptBuffers.none
    /// The memory of the engine after the last step of the handshake.
    @exclusivity(unchecked) private var engineMemory = 0
    /// The round trips of the TLS handshake.
    @exclusivity(unchecked) private var roundTrips = 0
    /// The bytes of the records that the engine has made, without the data in them.
    @exclusivity(unchecked) private var overheadBytes: UInt64 = 0

    /// Creates a stream whose handshake has not begun.
    ///
    /// - Parameters:
    ///   - inner: the stream that carries the records.
    ///   - engine: the engine of this connection.
    ///   - side: the side of the engine, for the sentences of errors.
    ///   - loop: the loop of `inner`.
    package init(over inner: any ByteChannel, _ engine: any TLSEngine, _ side: TLSSettings.Side, on loop: EventLoop) {
        self.inner = inner
        self.engine = engine
        self.side = side
        self.loop = loop
        reading = ReadState(input: RecordBuffer(on: loop))
        writing = WriteState(output: RecordBuffer(on: loop))
    }

    // MARK: The stream below

    package var peer: SocketAddress? { inner.peer }
    package var bytesSent: UInt64 { inner.bytesSent }
    package var bytesReceived: UInt64 { inner.bytesReceived }
    package var segmentCounts: SegmentCounts? { inner.segmentCounts }
    /// The bytes of close_notify are the last ones. They carry no data, so they do not count.
    package var unacknowledgedBytes: Int {
        max(0, writing.output.count + writing.lostBytes + inner.unacknowledgedBytes - writing.closingBytes)
    }
    package var bytesAcknowledged: UInt64 { inner.bytesAcknowledged }
    package var bufferedBytes: Int {
        reading.input.ownMemory + writing.output.ownMemory + engineMemory + inner.bufferedBytes
    }
    /// The records that wait, and close_notify after them. A broken stream passes nothing on.
    package var holdsOutput: Bool {
        switch phase {
        case .broken, .failed: return false
        case .handshake, .open, .ended, .over: break
        }
        switch writing.ending {
        case .open: return !writing.output.isEmpty || inner.holdsOutput
        case .requested, .written: return true
        case .done: return inner.holdsOutput
        case .broken: return false
        }
    }
    /// The round trips of the TLS handshake count too.
    package var roundTripsToConnect: Int { inner.roundTripsToConnect + roundTrips }
    package var tlsBytesSent: UInt64 { inner.tlsBytesSent + overheadBytes }
    package var encryption: TLSDescription? { engine.description }

    package func attach(_ handler: any PollHandler) throws(SystemError) {
        self.handler = handler
        try inner.attach(handler)
    }

    package func note(_ readiness: Readiness) {
        inner.note(readiness)
        if readiness.contains(.read) { reading.isDrained = false }
        if readiness.contains(.write), !isBelowInHandshake { flush() }
    }

    // MARK: The handshake

    /// Whether the stream below cannot be written yet.
    private var isBelowInHandshake: Bool {
        if case .handshake(let handshake) = phase { handshake.step == .below } else { false }
    }

    package func advance() -> HandshakeProgress {
        switch phase {
        case .open, .ended: return .ready
        case .broken, .failed, .over: return failed()
        case .handshake(var handshake):
            let progress = advance(&handshake)
            // The step may have ended the handshake.
            if case .handshake = phase { phase = .handshake(handshake) }
            return progress
        }
    }

    private func advance(_ handshake: inout Handshake) -> HandshakeProgress {
        if handshake.step == .below {
            switch inner.advance() {
            case .ready: handshake.step = .start
            case .failed(let result): return broke(result)
            case let progress: return progress
            }
        }
        guard flush() || writing.error != nil else { return isFailed ? failed() : .waiting }
        var record = 0
        while handshake.step == .record {
            guard let length = nextRecord(isFirst: !handshake.hasRecord) else { return failed() }
            record = length
            if record > 0 { break }
            switch fill(for: 0) {
            case .bytes:
                if handshake.isUnanswered { roundTrips += 1 }
                handshake.isUnanswered = false
            case .wouldBlock where writing.error == nil: return .waiting
            case .end where writing.error == nil:
                fail(.truncated, "the \(peerName) ended the connection during the TLS handshake")
                return failed()
            case let other: return broke(writing.error.map { .failed($0) } ?? other)
            }
        }
        if side == .client, !handshake.hasRecord, TLSRecord.isUnexpectedMessage(reading.input.bytes(record)) {
            fail(
                .plainText,
                "the server refused the TLS handshake by the alert that plain servers send: use the URL's plain scheme, such as ws:// instead of wss://, or the port where the server speaks TLS"
            )
            return failed()
        }
        let step = use { engine, output in engine.handshake(reading.input.bytes(record), &output) }
        engineMemory = engine.ownMemory
        if step.consumed > 0 { handshake.hasRecord = true }
        if !writing.output.isEmpty { handshake.isUnanswered = true }
        flush()
        if isFailed { return failed() }
        switch step.end {
        case .done:
            phase = .open
            shrinkInput()
            return .ready
        case .ended:
            fail(.truncated, "the \(peerName) ended TLS during the handshake")
            return failed()
        case .needsOutput:
            handshake.step = .room
            return writing.output.isEmpty ? .again : .waiting
        case .needsInput, .failed:
            handshake.step = .record
            let isProcessed = nextRecord(isFirst: !handshake.hasRecord) == 0
            return isProcessed && reading.isDrained && writing.error == nil ? .waiting : .again
        }
    }

    /// Calls the engine with room for its output, and takes what it has consumed from the input.
    private func use(_ call: (any TLSEngine, inout TLSOutput) -> TLSStep) -> TLSStep {
        writing.output.prepare()
        var room = TLSOutput(writing.output.free)
        let step = call(engine, &room)
        writing.output.added(room.count)
        reading.input.consume(step.consumed)
        overheadBytes &+= UInt64(room.count)
        if case .failed(let reason) = step.end { fail(reason) }
        switch buffers {
        case .none: if engine.keepsBuffers { keepBuffers() }
        case .idle: buffers = .used
        case .used: break
        }
        return step
    }

    /// Lets the engine free its buffers once it is idle.
    private func keepBuffers() {
        buffers = .idle
        let bound = LoopBound(self, to: loop)
        loop.execute { bound.value.setRestTimer() }
    }

    private func setRestTimer() {
        _ = loop.schedule(at: loop.now + Self.restAfter) { [weak self] in
            guard let self else { return }
            // Decrypted bytes that were not read are in these buffers.
            if buffers == .used || reading.hasPending {
                keepBuffers()
            } else {
                buffers = .none
                engine.rest()
            }
        }
    }

    /// Ends the handshake, because the stream below is broken. From now on, a read finds its end there.
    private func broke(_ result: IOResult) -> HandshakeProgress {
        phase = .over
        reading.input.removeAll()
        return .failed(result)
    }

    private func failed() -> HandshakeProgress {
        .failed(takeFailure() ?? .wouldBlock)
    }

    private var peerName: String { side == .client ? "server" : "client" }

    // MARK: Reading

    package func read(into target: UnsafeMutableRawBufferPointer) -> IOResult {
        switch phase {
        case .open: break
        case .handshake: return .wouldBlock
        case .ended: return .end
        case .broken, .failed: return takeFailure() ?? .wouldBlock
        case .over: return inner.read(into: target)
        }
        reading.emptyRecords.beginRead()
        var filled = 0
        var records = 0
        while filled < target.count, records < Self.recordsAtOnce || filled == 0 {
            // The rest of an earlier record is read before the next record, which may be broken.
            guard let record = reading.hasPending ? 0 : nextRecord() else { break }
            guard record > 0 || reading.hasPending else {
                // An emptied stream is not asked again before it reports more bytes.
                if reading.isDrained { break }
                switch fill(for: target.count - filled) {
                case .bytes: continue
                case .wouldBlock: break
                case .end where engine.hasRefusedRenegotiation:
                    fail(
                        .renegotiation,
                        "the stream ended after the \(peerName) requested a renegotiation, which this side refuses"
                    )
                case .end:
                    fail(
                        .truncated,
                        "the stream ended without close_notify: the \(peerName) has crashed, or bytes are missing"
                    )
                case .failed(let error): phase = .broken(error)
                case .insecure(let reason): phase = .failed(reason, inWrite: false)
                }
                break
            }
            let before = filled
            records += 1
            guard decrypt(record, into: target, &filled) else { break }
            if filled > before {
                reading.emptyRecords.foundData()
            } else if !mayReadAfterEmpty(hasData: filled > 0) {
                break
            }
        }
        flush()
        shrinkInput()
        if writing.needsInput { retryWriting() }
        if filled > 0 { return .bytes(filled) }
        if case .ended = phase { return .end }
        return takeFailure() ?? .wouldBlock
    }

    /// Decrypts `record` bytes of the input, or the rest of an earlier record if `record` is 0, into the rest of `target`.
    /// Returns `false` if nothing more is to be read.
    private func decrypt(_ record: Int, into target: UnsafeMutableRawBufferPointer, _ filled: inout Int) -> Bool {
        let wanted = target.count - filled
        let step = use { engine, output in
            engine.read(reading.input.bytes(record), into: .init(rebasing: target[filled...]), &output)
        }
        filled += step.count
        reading.hasPending = step.count == wanted && engine.pending > 0
        switch step.end {
        case .done, .needsInput: return true
        case .needsOutput:
            flush()
            if writing.output.count < ScratchPool.blockSize / 2 { return !isFailed }
            fail(.tooManyEmptyRecords, "the \(peerName) requests answers and does not read them")
        case .ended:
            phase = .ended
            reading.input.removeAll()
        case .failed: break
        }
        return false
    }

    /// Reports that the stream can be written, because the engine has read. The stream below reports only its own room.
    private func retryWriting() {
        writing.needsInput = false
        let bound = LoopBound(self, to: loop)
        loop.execute { bound.value.handler?.ready(.write) }
    }

    /// Counts a record without data. Returns `false` if this read is to end.
    private func mayReadAfterEmpty(hasData: Bool) -> Bool {
        switch reading.emptyRecords.foundNone(hasData: hasData) {
        case .next: return true
        case .pause: return false
        case .refuse:
            fail(
                .tooManyEmptyRecords,
                "the \(peerName) has sent more than \(EmptyRecordLimit.mostInARow) records without data in a row"
            )
            return false
        }
    }

    package func isDrained(afterReading count: Int, of capacity: Int) -> Bool {
        switch phase {
        case .handshake, .ended, .broken, .failed: return false
        case .over: return inner.isDrained(afterReading: count, of: capacity)
        case .open: return count < capacity && reading.isDrained && !reading.hasPending && nextRecord() == 0
        }
    }

    /// Reads once from the stream below, about as much as `count` bytes of data need.
    private func fill(for count: Int) -> IOResult {
        reading.input.prepare()
        let wanted = min(max(count + 1024, 4096), reading.input.room)
        let room = UnsafeMutableRawBufferPointer(rebasing: reading.input.free[..<wanted])
        let result = inner.read(into: room)
        switch result {
        case .bytes(let received):
            reading.input.added(received)
            reading.isDrained = inner.isDrained(afterReading: received, of: wanted)
        case .wouldBlock:
            reading.isDrained = true
            shrinkInput()
        case .end, .failed, .insecure: break
        }
        return result
    }

    /// Returns the length of the first record if it is complete, 0 if it is not. Returns `nil` after a failure, if the
    /// bytes are not a record of TLS.
    ///
    /// - Parameter isFirst: Whether the peer has sent no record before.
    private func nextRecord(isFirst: Bool = false) -> Int? {
        switch TLSRecord.front(of: reading.input.bytes) {
        case .incomplete: return 0
        case .whole(let length): return length
        case .foreign where isFirst:
            let sentence = plainTextSentence(reading.input.bytes)
            fail(.plainText, sentence, refusing: side == .server)
        case .foreign: fail(.brokenRecord, "the \(peerName) has sent bytes that are no TLS record")
        case .tooLong(let length):
            fail(
                .brokenRecord,
                "the \(peerName) has sent a record of \(length) bytes; at most \(TLSRecord.longest - TLSRecord.header) are allowed"
            )
        }
        return nil
    }

    private func plainTextSentence(_ bytes: UnsafeRawBufferPointer) -> String {
        let seen = bytes.prefix(16).prefix { $0 >= 0x20 && $0 < 0x7f }
        let quoted = seen.count < 4 ? "" : " (\"\(String(decoding: seen, as: UTF8.self))\")"
        return side == .client
            ? "the server sent plain text\(quoted) where TLS was expected: use the URL's plain scheme, such as ws:// instead of wss://, or the port where the server speaks TLS"
            : "the client sent plain text\(quoted) where TLS was expected: it must use an encrypted scheme, such as wss:// instead of ws://"
    }

    /// Gives memory back between reads. While more is known to come, the block is kept.
    private func shrinkInput() {
        if reading.isDrained || reading.input.isEmpty { reading.input.shrink() }
    }

    // MARK: Writing

    package func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
        switch phase {
        case .open, .ended: break
        case .failed(_, inWrite: false): return .end
        case .failed, .broken: return takeFailure() ?? .end
        case .handshake, .over: return writing.error.map { .failed($0) } ?? .end
        }
        switch writing.ending {
        case .open: break
        case .broken(let error): return .failed(error)
        case .requested, .written, .done: return .end
        }
        if writing.needsInput { return .wouldBlock }
        guard flush() else { return writing.error.map { .failed($0) } ?? .wouldBlock }
        var taken = 0
        while taken < bytes.count {
            writing.output.prepare()
            while taken < bytes.count, writing.output.room > TLSRecord.longest + Self.reserve {
                let step = use { engine, output in engine.write(.init(rebasing: bytes[taken...]), &output) }
                taken += step.count
                overheadBytes &-= UInt64(step.count)
                if case .failed(let reason, _) = phase {
                    phase = .failed(reason, inWrite: true)
                    return taken > 0 ? .bytes(taken) : takeFailure() ?? .end
                }
                if case .needsInput = step.end { writing.needsInput = true }
                if step.count == 0 { break }
            }
            guard flush(), !writing.needsInput else { break }
        }
        return taken > 0 ? .bytes(taken) : writing.error.map { .failed($0) } ?? .wouldBlock
    }

    /// Passes the output to the stream below. Returns whether it took all of it.
    @discardableResult
    private func flush() -> Bool {
        if case .broken = writing.ending {
            writing.output.removeAll()
            return false
        }
        repeat {
            while !writing.output.isEmpty {
                switch inner.write(writing.output.bytes) {
                case .bytes(let count): writing.output.consume(count)
                case .wouldBlock:
                    writing.output.shrink()
                    return false
                case .end:
                    // The stream below is TLS too, to a proxy. It has failed, and its next read returns why.
                    breakOutput(SystemError("send", EPIPE))
                    return false
                case .failed(let error):
                    breakOutput(error)
                    return false
                case .insecure(let reason):
                    // The stream below is TLS too, to a proxy.
                    if !isFailed { phase = .failed(reason, inWrite: false) }
                    writing.lose()
                    return false
                }
            }
        } while writeEnd()
        writing.output.shrink()
        return true
    }

    private func breakOutput(_ error: SystemError) {
        writing.ending = .broken(error)
        writing.lose()
    }

    /// Writes close_notify, and then the end of the stream below, if the output is to end. The output is empty before, so
    /// there is room for close_notify. Returns whether the output has more bytes now.
    private func writeEnd() -> Bool {
        switch writing.ending {
        case .open, .done, .broken: return false
        case .requested:
            writing.ending = .written
            if isOpenOrEnded { _ = use { engine, output in engine.end(&output) } }
            writing.closingBytes = writing.output.count
            return true
        case .written:
            writing.ending = .done
            inner.shutdownWriting()
            return false
        }
    }

    private var isOpenOrEnded: Bool {
        switch phase {
        case .open, .ended: true
        case .handshake, .broken, .failed, .over: false
        }
    }

    // MARK: The end

    /// Whether there is a failure that was not returned, or that is returned each time.
    private var isFailed: Bool {
        switch phase {
        case .broken, .failed: true
        case .handshake, .open, .ended, .over: false
        }
    }

    /// Returns the failure. That of the stream below stays; one of TLS is returned once.
    private func takeFailure() -> IOResult? {
        switch phase {
        case .broken(let error): return .failed(error)
        case .failed(let reason, _):
            phase = .over
            return .insecure(reason)
        case .handshake, .open, .ended, .over: return nil
        }
    }

    /// Ends TLS, if the engine does not know about it.
    ///
    /// - Parameter isPlain: Whether the peer gets the alert for peers that speak no TLS.
    private func fail(_ problem: TLSProblem, _ sentence: String, refusing isPlain: Bool = false) {
        if isPlain {
            writing.output.prepare()
            if writing.output.room >= TLSRecord.refusal.count {
                writing.output.free.copyBytes(from: TLSRecord.refusal)
                writing.output.added(TLSRecord.refusal.count)
            }
        }
        fail(TLSFailure(problem, sentence))
    }

    /// Ends TLS. The engine's alert is in the output.
    private func fail(_ reason: TLSFailure) {
        switch phase {
        case .handshake, .open, .ended: phase = .failed(reason, inWrite: false)
        case .broken, .failed, .over: return
        }
        reading.input.removeAll()
        flush()
    }

    package func shutdownWriting() -> Bool {
        if case .open = writing.ending { writing.ending = .requested }
        flush()
        return true
    }

    package func close(abort: Bool) {
        handler = nil
        reading.input.removeAll()
        writing.output.removeAll()
        inner.close(abort: abort)
    }
}
