import Primitives
import Testing

@testable import SocketIO

@Suite("The end of a TLS stream")
struct CloseNotifyTests {
    @Test("Data without an acknowledgement counts, and close_notify does not")
    func count() async throws {
        let loop = try Loops.of(.automatic)
        let counts = try await on(loop) {
            let stream = TLSStream(over: SilentStream(), FixedEngine(), .client, on: loop)
            #expect(stream.advance() == .ready)
            #expect([UInt8](repeating: 1, count: 100).withUnsafeBytes { stream.write($0) } == .bytes(100))
            let before = stream.unacknowledgedBytes
            _ = stream.shutdownWriting()
            return [before, stream.unacknowledgedBytes]
        }
        #expect(counts == [100, 100])
    }

    @Test("A stream that has sent only close_notify has delivered all bytes")
    func delivered() async throws {
        let loop = try Loops.of(.automatic)
        let count = try await on(loop) {
            let inner = SilentStream()
            let stream = TLSStream(over: inner, FixedEngine(), .client, on: loop)
            #expect(stream.advance() == .ready)
            _ = stream.shutdownWriting()
            #expect(inner.unacknowledgedBytes == FixedEngine.closeNotify)
            return stream.unacknowledgedBytes
        }
        #expect(count == 0)
    }

    @Test("A stream holds its records and close_notify until the stream below has taken them")
    func held() async throws {
        let loop = try Loops.of(.automatic)
        let holds = try await on(loop) {
            let inner = SilentStream()
            let stream = TLSStream(over: inner, FixedEngine(), .client, on: loop)
            #expect(stream.advance() == .ready)
            inner.room = 40
            #expect([UInt8](repeating: 1, count: 100).withUnsafeBytes { stream.write($0) } == .bytes(100))
            var holds = [stream.holdsOutput]
            inner.room = 60
            stream.note(.write)
            holds.append(stream.holdsOutput)
            _ = stream.shutdownWriting()
            holds.append(stream.holdsOutput)
            #expect(!inner.hasEnded)
            inner.room = .max
            stream.note(.write)
            #expect(inner.hasEnded)
            return holds + [stream.holdsOutput]
        }
        #expect(holds == [true, false, true, false])
    }
}

/// A stream that takes as many bytes as it has room, to a peer that acknowledges none.
private final class SilentStream: ByteChannel {
    var room = Int.max
    private(set) var hasEnded = false
    private(set) var unacknowledgedBytes = 0
    var bytesSent: UInt64 { UInt64(unacknowledgedBytes) }
    var bytesReceived: UInt64 { 0 }

    func attach(_: any PollHandler) {}
    func note(_: Readiness) {}
    func read(into _: UnsafeMutableRawBufferPointer) -> IOResult { .wouldBlock }
    func isDrained(afterReading _: Int, of _: Int) -> Bool { true }
    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
        let count = min(room, bytes.count)
        guard count > 0 else { return .wouldBlock }
        room -= count
        unacknowledgedBytes += count
        return .bytes(count)
    }
    func shutdownWriting() -> Bool {
        hasEnded = true
        return true
    }
    func close(abort _: Bool) {}
}

/// An engine whose handshake is complete at once, and whose records are the bytes themselves.
private final class FixedEngine: TLSEngine {
    /// The length of the record that ends the output.
    static let closeNotify = 24
    var description: TLSDescription? { nil }
    var pending: Int { 0 }

    func handshake(_: UnsafeRawBufferPointer, _: inout TLSOutput) -> TLSStep { TLSStep(.done) }
    func read(_: UnsafeRawBufferPointer, into _: UnsafeMutableRawBufferPointer, _: inout TLSOutput) -> TLSStep {
        TLSStep(.needsInput)
    }
    func write(_ bytes: UnsafeRawBufferPointer, _ output: inout TLSOutput) -> TLSStep {
        output.count += bytes.count
        return TLSStep(.done, count: bytes.count)
    }
    func end(_ output: inout TLSOutput) -> TLSStep {
        output.count += Self.closeNotify
        return TLSStep(.done)
    }
}
