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

    /// The longest record: TLS 1.2 allows 2048 bytes more than the data (RFC 5246, section 6.2.3).
    static let longestRecord = 5 + 16384 + 2048
    /// How many records without data may come in a row. Peers send a few after the handshake.
    private static let emptyRecordsInARow = 32
    /// How many records without data one read processes at most, if it has found data too.
    private static let emptyRecordsAtOnce = 16

    private let inner: any ByteStream
    private let engine: any TLSEngine
    private let side: TLSSettings.Side
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
    /// Whether the last read has emptied the inner stream, and no bytes were reported since.
    @exclusivity(unchecked) private var innerIsDrained = false
    /// Whether close_notify was written.
    @exclusivity(unchecked) private var hasEnded = false
    /// Whether the inner stream is to be shut down once the output is empty.
    @exclusivity(unchecked) private var endsAfterOutput = false
    /// The failure of the inner stream or of TLS that the next read returns.
    @exclusivity(unchecked) private var failure: IOResult?
    @exclusivity(unchecked) private var emptyRecords = 0
    /// Whether the engine has decrypted bytes that were not read, because the last read had no room for them.
    @exclusivity(unchecked) private var hasPending = false
    @exclusivity(unchecked) private var roundTrips = 0
    /// The number of bytes of records that the engine has made.
    @exclusivity(unchecked) private var recordBytes: UInt64 = 0
    /// The number of bytes of data in these records.
    @exclusivity(unchecked) private var dataBytes: UInt64 = 0
    @exclusivity(unchecked) private var isUnanswered = false

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
        input = RecordBuffer(on: loop)
        output = RecordBuffer(on: loop)
    }

    // MARK: The stream below

    package var peer: SocketAddress? { inner.peer }
    package var bytesSent: UInt64 { inner.bytesSent }
    package var bytesReceived: UInt64 { inner.bytesReceived }
    package var segmentCounts: SegmentCounts? { inner.segmentCounts }
    package var unacknowledgedBytes: Int { output.count + inner.unacknowledgedBytes }
    package var bufferedBytes: Int { input.ownMemory + output.ownMemory + inner.bufferedBytes }
    /// The round trips of the TLS handshake count too.
    package var roundTripsToConnect: Int { inner.roundTripsToConnect + roundTrips }
    package var tlsBytesSent: UInt64 { inner.tlsBytesSent + recordBytes - dataBytes }
    package var encryption: TLSDescription? { engine.description }

    package func attach(_ handler: any PollHandler) throws(SystemError) {
        try inner.attach(handler)
    }

    package func note(_ readiness: Readiness) {
        inner.note(readiness)
        if readiness.contains(.read) { innerIsDrained = false }
        if readiness.contains(.write), innerIsReady { flush() }
    }

    // MARK: The handshake

    package func advance() -> StreamProgress {
        guard state == .handshake else { return failure.map { .failed($0) } ?? .ready }
        if !innerIsReady {
            let progress = inner.advance()
            guard progress == .ready else { return progress }
            innerIsReady = true
        }
        guard flush() else { return failure.map { .failed(takeFailure($0)) } ?? .waiting }
        var record = 0
        while hasStarted, !engineHasOutput {
            guard let length = nextRecord() else { return failed() }
            record = length
            if record > 0 { break }
            switch fill(for: 0) {
            case .bytes: continue
            case .wouldBlock: return .waiting
            case .end:
                fail(.truncated, "the \(peerName) ended the connection during the TLS handshake")
                return failed()
            case let other: return .failed(other)
            }
        }
        hasStarted = true
        let step = use { engine, output in engine.handshake(input.bytes(record), &output) }
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
        case .needsInput, .failed: return nextRecord() ?? 1 > 0 || !innerIsDrained ? .again : .waiting
        }
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
        return step
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
        while filled < target.count {
            guard let record = nextRecord() else { break }
            guard record > 0 || hasPending else {
                // An emptied stream is not asked again before it reports more bytes.
                if innerIsDrained { break }
                switch fill(for: target.count - filled) {
                case .bytes: continue
                case .wouldBlock: break
                case .end: fail(.truncated, "the stream ended without close_notify: the \(peerName) has crashed, or bytes are missing")
                case let other: failure = other
                }
                break
            }
            let before = filled
            guard decrypt(record, into: target, &filled) else { break }
            if filled > before {
                emptyRecords = 0
            } else if !hasFoundOnlyFewEmpty(&empty, filled > 0) {
                break
            }
        }
        flush()
        shrinkInput()
        // After a record with data, the engine does this itself.
        if empty > 0, !hasPending { engine.rest() }
        if filled > 0 { return .bytes(filled) }
        if let failure { return takeFailure(failure) }
        return state == .ended ? .end : .wouldBlock
    }

    /// Decrypts one record into the rest of `target`. Returns `false` if nothing more is to be read.
    private func decrypt(_ record: Int, into target: UnsafeMutableRawBufferPointer, _ filled: inout Int) -> Bool {
        // What an earlier record has left is read before the next record.
        let length = hasPending ? 0 : record
        let wanted = target.count - filled
        let step = use { engine, output in
            engine.read(input.bytes(length), into: .init(rebasing: target[filled...]), &output)
        }
        filled += step.count
        hasPending = step.count == wanted && engine.pending > 0
        switch step.end {
        case .done, .needsInput: return true
        case .needsOutput:
            flush()
            if output.count < ScratchPool.blockSize / 2 { return true }
            fail(.tooManyEmptyRecords, "the \(peerName) requests answers and does not read them")
        case .ended: state = .ended
        case .failed: break
        }
        return false
    }

    /// Counts a record without data. Returns `false` if this read is to end.
    private func hasFoundOnlyFewEmpty(_ empty: inout Int, _ hasData: Bool) -> Bool {
        emptyRecords += 1
        empty += 1
        guard emptyRecords <= Self.emptyRecordsInARow else {
            fail(.tooManyEmptyRecords, "the \(peerName) has sent more than \(Self.emptyRecordsInARow) records without data in a row")
            return false
        }
        return !hasData || empty < Self.emptyRecordsAtOnce
    }

    package func isDrained(afterReading count: Int, of capacity: Int) -> Bool {
        switch state {
        case .handshake, .ended: return false
        case .failed: return failure == nil && inner.isDrained(afterReading: count, of: capacity)
        case .open: return count < capacity && failure == nil && innerIsDrained && !hasPending && nextRecord() == 0
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
                fail(.plainText, plainTextSentence(bytes))
            }
            return nil
        }
        guard bytes.count >= 5 else { return 0 }
        let length = Int(bytes[3]) << 8 | Int(bytes[4])
        guard 5 + length <= Self.longestRecord else {
            fail(.brokenRecord, "the \(peerName) has sent a record of \(length) bytes; at most \(Self.longestRecord - 5) are allowed")
            return nil
        }
        return bytes.count >= 5 + length ? 5 + length : 0
    }

    private func plainTextSentence(_ bytes: UnsafeRawBufferPointer) -> String {
        let seen = bytes.prefix(16).prefix { $0 >= 0x20 && $0 < 0x7f }
        let quoted = seen.count < 4 ? "" : " (\"\(String(decoding: seen, as: UTF8.self))\")"
        return side == .client
            ? "the server sent plain text\(quoted) where TLS was expected: use the URL's plain scheme, or the port where the server speaks TLS"
            : "the client sent plain text\(quoted) where TLS was expected: it must use an encrypted scheme, such as wss:// instead of ws://"
    }

    /// Gives memory back between reads. While more is known to come, the block is kept.
    private func shrinkInput() {
        if innerIsDrained || input.isEmpty { input.shrink() }
    }

    // MARK: Writing

    package func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
        if let failure {
            if case .failed = failure { return takeFailure(failure) }
            return .end
        }
        guard state == .open || state == .ended, !hasEnded else { return .end }
        guard flush() else { return failure.map(takeFailure) ?? .wouldBlock }
        var taken = 0
        while taken < bytes.count {
            output.prepare()
            while taken < bytes.count, output.room > Self.longestRecord + Self.reserve {
                let step = use { engine, output in engine.write(.init(rebasing: bytes[taken...]), &output) }
                taken += step.count
                dataBytes &+= UInt64(step.count)
                if state == .failed { return taken > 0 ? .bytes(taken) : .end }
                if step.count == 0 { break }
            }
            guard flush() else { break }
        }
        return taken > 0 ? .bytes(taken) : failure.map(takeFailure) ?? .wouldBlock
    }

    /// The room that is left for answers to the peer's control messages, in bytes.
    private static let reserve = 8192

    /// Passes the output to the inner stream. Returns whether it took all of it.
    @discardableResult
    private func flush() -> Bool {
        while !output.isEmpty {
            switch inner.write(output.bytes) {
            case .bytes(let count): output.consume(count)
            case .wouldBlock, .end:
                output.shrink()
                return false
            case let other:
                if failure == nil { failure = other }
                output.removeAll()
                return false
            }
        }
        output.shrink()
        if endsAfterOutput {
            endsAfterOutput = false
            inner.shutdownWriting()
        }
        return true
    }

    // MARK: The end

    private func fail(_ problem: TLSProblem, _ sentence: String) {
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
        if state == .open || state == .ended, !hasEnded {
            hasEnded = true
            _ = use { engine, output in engine.end(&output) }
        }
        endsAfterOutput = true
        flush()
        return true
    }

    package func close(abort: Bool) {
        input.removeAll()
        output.removeAll()
        inner.close(abort: abort)
    }
}
