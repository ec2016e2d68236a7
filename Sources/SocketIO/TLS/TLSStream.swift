import CSocketIO
import Primitives

/// TLS over a byte stream. It gives an engine whole records and sends what the engine returns. It lives on its loop.
///
/// Received bytes stay here until a record is complete. So the engine holds nothing between records, and a peer that
/// speaks no TLS is recognized by its first bytes.
package final class TLSStream: ByteStream {
    private enum State {
        case handshake
        case open
        /// The peer has ended its side by close_notify.
        case ended
        /// TLS has ended the connection. From now on, received bytes are dropped.
        case failed
    }

    /// How far this side has ended its output.
    private enum Ending {
        case open
        /// close_notify follows the output.
        case requested
        /// close_notify is in the output, and the end of the inner stream follows it.
        case written
        /// The inner stream was shut down.
        case done
    }

    /// The longest record: TLS 1.2 allows 2048 bytes more than the data (RFC 5246, section 6.2.3).
    static let longestRecord = 5 + 16384 + 2048
    /// How many records without data may come in a row. Peers send a few after the handshake.
    private static let emptyRecordsInARow = 32
    /// The fatal alert unexpected_message, without its header of a record (RFC 8446, section 6.2).
    private static let unexpectedMessage: [UInt8] = [2, 10]
    /// How many records without data one read processes at most, if it has found data too.
    private static let emptyRecordsAtOnce = 16
    /// After this time without use, in nanoseconds, an engine frees its buffers. It takes twice as long at most.
    private static let restAfter: Int64 = 400_000_000
    /// How many records one read processes at most. Each takes about a microsecond, also with one byte of data.
    private static let recordsAtOnce = 32

    private let inner: any ByteStream
    private let engine: any TLSEngine
    private let side: TLSSettings.Side
    private let loop: EventLoop
    /// The user of the stream, until it closes the stream.
    private var handler: (any PollHandler)?
    // Unchecked exclusivity, because no other code runs while these change.
    @exclusivity(unchecked) private var state = State.handshake
    @exclusivity(unchecked) private var hasStarted = false
    @exclusivity(unchecked) private var innerIsReady = false
    /// Whether the engine could not store all of its output in the last step of the handshake.
    @exclusivity(unchecked) private var engineHasOutput = false
    /// Whether the peer has sent a record.
    @exclusivity(unchecked) private var hasReceivedRecord = false
    /// Received bytes that the engine has not taken.
    @exclusivity(unchecked) private var input: RecordBuffer
    /// Records that the inner stream has not taken.
    @exclusivity(unchecked) private var output: RecordBuffer
    /// The bytes of records that a broken inner stream did not take.
    @exclusivity(unchecked) private var lostBytes = 0
    /// The memory of the engine after the last step of the handshake.
    @exclusivity(unchecked) private var engineMemory = 0
    /// Whether the last read has emptied the inner stream, and no bytes were reported since.
    @exclusivity(unchecked) private var innerIsDrained = false
    @exclusivity(unchecked) private var ending = Ending.open
    /// Whether the engine has to read before it can write.
    @exclusivity(unchecked) private var writingNeedsInput = false
    /// Whether a write has found the failure. Otherwise the next read returns it, after the data before it.
    @exclusivity(unchecked) private var isFailureOfWriting = false
    /// The length of close_notify, once it was written.
    @exclusivity(unchecked) private var closingBytes = 0
    /// The failure of the inner stream or of TLS that the next read returns.
    @exclusivity(unchecked) private var failure: IOResult?
    /// The error of the inner stream that all writes return. Reads continue, because the peer can have sent the reason
    /// before it closed the stream.
    @exclusivity(unchecked) private var writeError: SystemError?
    @exclusivity(unchecked) private var emptyRecords = 0
    /// Whether the engine has decrypted bytes that were not read, because the last read had no room for them.
    @exclusivity(unchecked) private var hasPending = false
    @exclusivity(unchecked) private var roundTrips = 0
    /// The number of bytes of records that the engine has made.
    @exclusivity(unchecked) private var recordBytes: UInt64 = 0
    /// The number of bytes of data in these records.
    @exclusivity(unchecked) private var dataBytes: UInt64 = 0
    @exclusivity(unchecked) private var isUnanswered = false
    /// Whether a timer runs, after which an idle engine frees its buffers.
    @exclusivity(unchecked) private var isWaitingForRest = false
    /// Whether the engine was used since that timer was set.
    @exclusivity(unchecked) private var isEngineUsed = false

    /// Creates a stream whose handshake has not begun.
    ///
    /// - Parameters:
    ///   - inner: the stream that carries the records.
    ///   - engine: the engine of this connection.
    ///   - side: the side of the engine, for the sentences of errors.
    ///   - loop: the loop of `inner`.
    package init(over inner: any ByteStream, _ engine: any TLSEngine, _ side: TLSSettings.Side, on loop: EventLoop) {
        self.inner = inner
        self.engine = engine
        self.side = side
        self.loop = loop
        input = RecordBuffer(on: loop)
        output = RecordBuffer(on: loop)
    }

    // MARK: The stream below

    package var peer: SocketAddress? { inner.peer }
    package var bytesSent: UInt64 { inner.bytesSent }
    package var bytesReceived: UInt64 { inner.bytesReceived }
    package var segmentCounts: SegmentCounts? { inner.segmentCounts }
    /// The bytes of close_notify are the last ones. They carry no data, so they do not count.
    package var unacknowledgedBytes: Int { max(0, output.count + lostBytes + inner.unacknowledgedBytes - closingBytes) }
    package var bytesAcknowledged: UInt64 { inner.bytesAcknowledged }
    package var bufferedBytes: Int { input.ownMemory + output.ownMemory + engineMemory + inner.bufferedBytes }
    /// The records that wait, and close_notify after them. A broken stream passes nothing on.
    package var holdsOutput: Bool {
        guard writeError == nil, failure == nil else { return false }
        switch ending {
        case .open: return !output.isEmpty || inner.holdsOutput
        case .requested, .written: return true
        case .done: return inner.holdsOutput
        }
    }
    /// The round trips of the TLS handshake count too.
    package var roundTripsToConnect: Int { inner.roundTripsToConnect + roundTrips }
    package var tlsBytesSent: UInt64 { inner.tlsBytesSent + recordBytes - dataBytes }
    package var encryption: TLSDescription? { engine.description }

    package func attach(_ handler: any PollHandler) throws(SystemError) {
        self.handler = handler
        try inner.attach(handler)
    }

    package func note(_ readiness: Readiness) {
        inner.note(readiness)
        if readiness.contains(.read) { innerIsDrained = false }
        if readiness.contains(.write), innerIsReady { flush() }
    }

    // MARK: The handshake

    package func advance() -> StreamProgress {
        guard state == .handshake else { return failure == nil && state != .failed ? .ready : failed() }
        if !innerIsReady {
            switch inner.advance() {
            case .ready: innerIsReady = true
            case .failed(let result): return broke(result)
            case let progress: return progress
            }
        }
        guard flush() || writeError != nil else { return failure == nil ? .waiting : failed() }
        var record = 0
        while hasStarted, !engineHasOutput {
            guard let length = nextRecord() else { return failed() }
            record = length
            if record > 0 { break }
            switch fill(for: 0) {
            case .bytes: continue
            case .wouldBlock where writeError == nil: return .waiting
            case .end where writeError == nil:
                fail(.truncated, "the \(peerName) ended the connection during the TLS handshake")
                return failed()
            case let other: return broke(writeError.map { .failed($0) } ?? other)
            }
        }
        if !hasReceivedRecord, isAlertOfPlainServer(input.bytes(record)) {
            fail(
                .plainText,
                "the server refused the TLS handshake by the alert that plain servers send: use the URL's plain scheme, such as ws:// instead of wss://, or the port where the server speaks TLS"
            )
            return failed()
        }
        hasStarted = true
        let step = use { engine, output in engine.handshake(input.bytes(record), &output) }
        engineMemory = engine.ownMemory
        if case .needsOutput = step.end { engineHasOutput = true } else { engineHasOutput = false }
        flush()
        if failure != nil { return failed() }
        switch step.end {
        case .done:
            state = .open
            shrinkInput()
            return .ready
        case .ended:
            fail(.truncated, "the \(peerName) ended TLS during the handshake")
            return failed()
        case .needsOutput: return output.isEmpty ? .again : .waiting
        case .needsInput, .failed:
            return nextRecord() ?? 1 > 0 || !innerIsDrained || writeError != nil ? .again : .waiting
        }
    }

    /// Whether the first record of a server is the alert unexpected_message. The plain servers of this package answer a
    /// ClientHello with it. A TLS server has no reason to do so.
    private func isAlertOfPlainServer(_ record: UnsafeRawBufferPointer) -> Bool {
        side == .client && record.first == 21 && record.dropFirst(5).elementsEqual(Self.unexpectedMessage)
    }

    /// Calls the engine with room for its output, and takes what it has consumed from the input.
    private func use(_ call: (any TLSEngine, inout TLSOutput) -> TLSStep) -> TLSStep {
        output.prepare()
        var room = TLSOutput(output.free)
        let step = call(engine, &room)
        output.added(room.count)
        input.consume(step.consumed)
        if step.consumed > 0 { hasReceivedRecord = true }
        if room.count > 0 {
            isUnanswered = true
            recordBytes &+= UInt64(room.count)
        }
        if case .failed(let reason) = step.end { fail(reason) }
        isEngineUsed = true
        if !isWaitingForRest, engine.keepsBuffers { waitForRest() }
        return step
    }

    /// Lets the engine free its buffers once it is idle. To allocate them for each record costs more than the copies.
    private func waitForRest() {
        isWaitingForRest = true
        isEngineUsed = false
        let bound = LoopBound(self, to: loop)
        loop.execute { bound.value.setRestTimer() }
    }

    private func setRestTimer() {
        _ = loop.schedule(at: loop.now + Self.restAfter) { [weak self] in
            guard let self else { return }
            isWaitingForRest = false
            // Decrypted bytes that were not read are in these buffers.
            if isEngineUsed || hasPending { waitForRest() } else { engine.rest() }
        }
    }

    /// Ends the handshake, because the inner stream is broken. From now on, a read finds its end there.
    private func broke(_ result: IOResult) -> StreamProgress {
        state = .failed
        input.removeAll()
        return .failed(result)
    }

    private func failed() -> StreamProgress {
        .failed(failure.map(takeFailure) ?? .wouldBlock)
    }

    private var peerName: String { side == .client ? "server" : "client" }

    // MARK: Reading

    package func read(into target: UnsafeMutableRawBufferPointer) -> IOResult {
        if let failure { return takeFailure(failure) }
        switch state {
        case .handshake: return .wouldBlock
        case .ended: return .end
        case .failed: return inner.read(into: target)
        case .open: break
        }
        var filled = 0
        var empty = 0
        var records = 0
        while filled < target.count, records < Self.recordsAtOnce || filled == 0 {
            // The rest of an earlier record is read before the next record, which may be broken.
            guard let record = hasPending ? 0 : nextRecord() else { break }
            guard record > 0 || hasPending else {
                // An emptied stream is not asked again before it reports more bytes.
                if innerIsDrained { break }
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
                case let other: failure = other
                }
                break
            }
            let before = filled
            records += 1
            guard decrypt(record, into: target, &filled) else { break }
            if filled > before {
                emptyRecords = 0
            } else if !hasFoundOnlyFewEmpty(&empty, filled > 0) {
                break
            }
        }
        flush()
        shrinkInput()
        if writingNeedsInput { retryWriting() }
        if filled > 0 { return .bytes(filled) }
        if let failure { return takeFailure(failure) }
        return state == .ended ? .end : .wouldBlock
    }

    /// Decrypts `record` bytes of the input, or the rest of an earlier record if `record` is 0, into the rest of `target`.
    /// Returns `false` if nothing more is to be read.
    private func decrypt(_ record: Int, into target: UnsafeMutableRawBufferPointer, _ filled: inout Int) -> Bool {
        let wanted = target.count - filled
        let step = use { engine, output in
            engine.read(input.bytes(record), into: .init(rebasing: target[filled...]), &output)
        }
        filled += step.count
        hasPending = step.count == wanted && engine.pending > 0
        switch step.end {
        case .done, .needsInput: return true
        case .needsOutput:
            flush()
            if output.count < ScratchPool.blockSize / 2 { return true }
            fail(.tooManyEmptyRecords, "the \(peerName) requests answers and does not read them")
        case .ended:
            state = .ended
            input.removeAll()
        case .failed: break
        }
        return false
    }

    /// Reports that the stream can be written, because the engine has read. The stream below reports only its own room.
    private func retryWriting() {
        writingNeedsInput = false
        let bound = LoopBound(self, to: loop)
        loop.execute { bound.value.handler?.ready(.write) }
    }

    /// Counts a record without data. Returns `false` if this read is to end.
    private func hasFoundOnlyFewEmpty(_ empty: inout Int, _ hasData: Bool) -> Bool {
        emptyRecords += 1
        empty += 1
        guard emptyRecords <= Self.emptyRecordsInARow else {
            fail(
                .tooManyEmptyRecords,
                "the \(peerName) has sent more than \(Self.emptyRecordsInARow) records without data in a row"
            )
            return false
        }
        return !hasData || empty < Self.emptyRecordsAtOnce
    }

    package func isDrained(afterReading count: Int, of capacity: Int) -> Bool {
        switch state {
        case .handshake, .ended: return false
        case .failed: return failure == nil && inner.isDrained(afterReading: count, of: capacity)
        case .open:
            return count < capacity && failure == nil && innerIsDrained && !hasPending && nextRecord() == 0
        }
    }

    /// Reads once from the inner stream, about as much as `count` bytes of data need.
    private func fill(for count: Int) -> IOResult {
        input.prepare()
        let wanted = min(max(count + 1024, 4096), input.room)
        let room = UnsafeMutableRawBufferPointer(rebasing: input.free[..<wanted])
        let result = inner.read(into: room)
        switch result {
        case .bytes(let received):
            input.added(received)
            innerIsDrained = inner.isDrained(afterReading: received, of: wanted)
            if isUnanswered, state == .handshake { roundTrips += 1 }
            isUnanswered = false
        case .wouldBlock:
            innerIsDrained = true
            shrinkInput()
        case .end, .failed, .insecure: break
        }
        return result
    }

    /// Returns the length of the first record if it is complete, 0 if it is not. Returns `nil` after a failure, if
    /// the bytes are not a record of TLS (RFC 8446, section 5.1).
    private func nextRecord() -> Int? {
        let bytes = input.bytes
        guard bytes.count > 0 else { return 0 }
        guard (20...24).contains(bytes[0]), bytes.count < 2 || bytes[1] == 3 else {
            if hasReceivedRecord {
                fail(.brokenRecord, "the \(peerName) has sent bytes that are no TLS record")
            } else {
                let sentence = plainTextSentence(bytes)
                fail(.plainText, sentence, alert: side == .server ? Self.unexpectedMessage : [])
            }
            return nil
        }
        guard bytes.count >= 5 else { return 0 }
        let length = Int(bytes[3]) << 8 | Int(bytes[4])
        guard 5 + length <= Self.longestRecord else {
            fail(
                .brokenRecord,
                "the \(peerName) has sent a record of \(length) bytes; at most \(Self.longestRecord - 5) are allowed"
            )
            return nil
        }
        return bytes.count >= 5 + length ? 5 + length : 0
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
        if innerIsDrained || input.isEmpty { input.shrink() }
    }

    // MARK: Writing

    package func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
        if let failure {
            if case .insecure = failure, !isFailureOfWriting { return .end }
            return takeFailure(failure)
        }
        if let writeError { return .failed(writeError) }
        guard state == .open || state == .ended, case .open = ending else { return .end }
        if writingNeedsInput { return .wouldBlock }
        guard flush() else { return writeError.map { .failed($0) } ?? .wouldBlock }
        var taken = 0
        while taken < bytes.count {
            output.prepare()
            while taken < bytes.count, output.room > Self.longestRecord + Self.reserve {
                let step = use { engine, output in engine.write(.init(rebasing: bytes[taken...]), &output) }
                taken += step.count
                dataBytes &+= UInt64(step.count)
                if state == .failed {
                    isFailureOfWriting = true
                    return taken > 0 ? .bytes(taken) : failure.map(takeFailure) ?? .end
                }
                if case .needsInput = step.end { writingNeedsInput = true }
                if step.count == 0 { break }
            }
            guard flush(), !writingNeedsInput else { break }
        }
        return taken > 0 ? .bytes(taken) : writeError.map { .failed($0) } ?? .wouldBlock
    }

    /// The room that is left for answers to the peer's control messages, in bytes.
    private static let reserve = 8192

    /// Passes the output to the inner stream. Returns whether it took all of it.
    @discardableResult
    private func flush() -> Bool {
        if writeError != nil {
            output.removeAll()
            return false
        }
        repeat {
            while !output.isEmpty {
                switch inner.write(output.bytes) {
                case .bytes(let count): output.consume(count)
                case .wouldBlock:
                    output.shrink()
                    return false
                case .end:
                    // The inner stream is TLS too, to a proxy. It has failed, and its next read returns why.
                    breakOutput(SystemError("send", EPIPE))
                    return false
                case .failed(let error):
                    breakOutput(error)
                    return false
                case .insecure(let reason):
                    // The inner stream is TLS too, to a proxy.
                    if failure == nil { failure = .insecure(reason) }
                    lostBytes += output.count
                    output.removeAll()
                    return false
                }
            }
        } while writeEnd()
        output.shrink()
        return true
    }

    private func breakOutput(_ error: SystemError) {
        writeError = error
        lostBytes += output.count
        output.removeAll()
    }

    /// Writes close_notify, and then the end of the inner stream, if the output is to end. The output is empty before,
    /// so there is room for close_notify. Returns whether the output has more bytes now.
    private func writeEnd() -> Bool {
        switch ending {
        case .open, .done: return false
        case .requested:
            ending = .written
            if state == .open || state == .ended { _ = use { engine, output in engine.end(&output) } }
            closingBytes = output.count
            return true
        case .written:
            ending = .done
            inner.shutdownWriting()
            return false
        }
    }

    // MARK: The end

    /// Ends TLS, if the engine does not know about it. The peer gets an alert if there is one for it.
    private func fail(_ problem: TLSProblem, _ sentence: String, alert: [UInt8] = []) {
        if !alert.isEmpty {
            let record = [21, 3, 1, 0, UInt8(truncatingIfNeeded: alert.count)] + alert
            output.prepare()
            if output.room >= record.count {
                output.free.copyBytes(from: record)
                output.added(record.count)
            }
        }
        fail(TLSFailure(problem, sentence))
    }

    /// Ends TLS. The engine's alert is in the output.
    private func fail(_ reason: TLSFailure) {
        guard state != .failed else { return }
        state = .failed
        failure = .insecure(reason)
        input.removeAll()
        flush()
    }

    private func takeFailure(_ result: IOResult) -> IOResult {
        // A failure of the stream below stays; one of TLS is returned once, and then the rest of the input is dropped.
        if case .insecure = result { failure = nil }
        return result
    }

    package func shutdownWriting() -> Bool {
        if case .open = ending { ending = .requested }
        flush()
        return true
    }

    package func close(abort: Bool) {
        handler = nil
        input.removeAll()
        output.removeAll()
        inner.close(abort: abort)
    }
}
