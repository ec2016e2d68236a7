import Primitives
import Protocols
import SocketIO
import TransportAPI

/// A byte stream through a proxy. At first it connects to the proxy and requests the tunnel. From then on it passes on
/// all bytes, beginning with those that followed the proxy's answer. Lives on its loop.
final class ProxyTunnel: StreamChannel, PollHandler {
    private let stream: StreamSocket
    private let loop: EventLoop
    private var handshake: ProxyHandshake
    private var output = ByteBuffer()
    /// The proxy's answer; once the tunnel is open, the bytes after it that were not read yet.
    private var input = ByteBuffer()
    /// Whether the last read took bytes from ``input``. Such a read does not show whether the stream is empty.
    private var wasReadAhead = false
    private var opener: UnsafeContinuation<TransportError?, Never>?
    private var timer: UInt64?
    /// The user of the open tunnel.
    private var handler: (any PollHandler)?

    init(_ stream: StreamSocket, _ handshake: ProxyHandshake, on loop: EventLoop) {
        self.stream = stream
        self.handshake = handshake
        self.loop = loop
    }

    /// Requests the tunnel and waits until it is open. If that fails, everything is closed. Call this on the loop.
    ///
    /// - Parameter deadline: When to give up, in nanoseconds of ``MonotonicClock``.
    nonisolated(nonsending) func open(deadline: Int64) async throws(TransportError) {
        let error: TransportError? = await LoopBound(self, to: loop).suspend(with: deadline, #isolation) {
            $0.opener = $2
            $0.begin($1)
        } onCancel: { tunnel, _ in
            tunnel.finish(.cancelled(.connect))
        }
        if let error { throw error }
    }

    private func begin(_ deadline: Int64) {
        timer = loop.schedule(at: deadline) { [self] in
            timer = nil
            finish(TransportError(.timedOut, .connect, "the proxy did not answer in time"))
        }
        do throws(SystemError) {
            try stream.attach(self)
        } catch {
            return finish(TransportError(error, .connect))
        }
        output.append(utf8: handshake.request)
        writeRequest()
    }

    func ready(_ readiness: Readiness) {
        if let handler { return handler.ready(readiness) }
        stream.note(readiness)
        guard opener != nil else { return }
        if readiness.contains(.write) { writeRequest() }
        if readiness.contains(.read) { readAnswer() }
    }

    private func writeRequest() {
        while !output.isEmpty {
            switch output.withUnsafeReadableBytes({ stream.write($0) }) {
            case .bytes(let count): output.consume(count)
            case .wouldBlock, .end: return
            case .insecure(let failure): return finish(TransportError(failure, wasOpen: false))
            case .failed(let error): return finish(TransportError(error, .connect))
            }
        }
    }

    private func readAnswer() {
        while opener != nil {
            var result = IOResult.wouldBlock
            var isDrained = false
            _ = input.write(minimum: 1024) { target in
                result = stream.read(into: target)
                guard case .bytes(let count) = result else { return 0 }
                isDrained = stream.isDrained(afterReading: count, of: target.count)
                return count
            }
            switch result {
            case .bytes: readHeads()
            case .wouldBlock: return
            case .end:
                return finish(
                    TransportError(.connectionLost, .connect, "the proxy ended the connection without an answer")
                )
            case .failed(let error): return finish(TransportError(error, .connect))
            case .insecure(let failure): return finish(TransportError(failure, wasOpen: false))
            }
            if isDrained { return }
        }
    }

    private func readHeads() {
        do throws(TransportError) {
            if try handshake.next(&input) { finish(nil) }
        } catch {
            finish(error)
        }
    }

    /// Ends the handshake. Only the first call has an effect.
    private func finish(_ error: TransportError?) {
        guard let opener else { return }
        self.opener = nil
        if let timer { loop.cancel(timer: timer) }
        timer = nil
        output = ByteBuffer()
        if error != nil { close(abort: true) }
        opener.resume(returning: error)
    }

    // MARK: The open tunnel

    /// The address of the proxy.
    var peer: SocketAddress? { stream.peer }

    func attach(_ handler: any PollHandler) throws(SystemError) {
        self.handler = handler
        // The edges of bytes that came since the handshake can have been reported already.
        let confined = LoopBound(self, to: loop)
        loop.execute { confined.value.handler?.ready([.read, .write]) }
    }

    func note(_ readiness: Readiness) {
        stream.note(readiness)
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        wasReadAhead = !input.isEmpty
        guard wasReadAhead else { return stream.read(into: buffer) }
        let count = input.withUnsafeReadableBytes { ahead in
            let count = min(ahead.count, buffer.count)
            buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: ahead[..<count]))
            return count
        }
        input.consume(count)
        if input.isEmpty { input = ByteBuffer() }
        return .bytes(count)
    }

    func isDrained(afterReading count: Int, of capacity: Int) -> Bool {
        !wasReadAhead && stream.isDrained(afterReading: count, of: capacity)
    }

    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
        stream.write(bytes)
    }

    func shutdownWriting() -> Bool {
        stream.shutdownWriting()
    }

    func close(abort: Bool) {
        handler = nil
        input = ByteBuffer()
        stream.close(abort: abort)
    }

    var unacknowledgedBytes: Int { stream.unacknowledgedBytes }

    var segmentCounts: SegmentCounts? { stream.segmentCounts }

    /// Bytes exchanged with the proxy count too.
    var bytesSent: UInt64 { stream.bytesSent }
    var bytesReceived: UInt64 { stream.bytesReceived }
    /// One round trip to the proxy, and one for the tunnel.
    var roundTripsToConnect: Int { 2 }
}
