import Primitives
import Protocols
import SocketIO
import TransportAPI

/// A byte stream through a proxy, over a stream to the proxy. At first it completes the handshake of that stream, such as
/// TLS, and requests the tunnel. From then on it passes on all bytes, beginning with those that followed the proxy's
/// answer. Lives on its loop.
final class ProxyTunnel: ByteChannel, PollHandler, ScheduledHandler {
    private enum State {
        /// The handshake of the stream to the proxy is in progress.
        case securing
        /// The tunnel is requested.
        case requesting
        /// The tunnel is open, or the attempt has ended.
        case done
    }

    private let stream: any ByteChannel
    private let loop: EventLoop
    private var state = State.securing
    private var handshake: any ProxyHandshake
    private var output = ByteBuffer()
    /// The proxy's answer; once the tunnel is open, the bytes after it that were not read yet.
    private var input = ByteBuffer()
    /// Whether the last read took bytes from ``input``. Such a read does not show whether the stream is empty.
    private var wasReadAhead = false
    private var roundTrips = 0
    private var isUnanswered = false
    private var opener: UnsafeContinuation<TransportError?, Never>?
    private var timer: UInt64?
    var schedule = ScheduleEntry()
    /// The user of the open tunnel.
    private var handler: (any PollHandler)?

    init(over stream: any ByteChannel, _ handshake: any ProxyHandshake, on loop: EventLoop) {
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
            finish(.proxySilent)
        }
        do throws(SystemError) {
            try stream.attach(self)
        } catch {
            return finish(TransportError(error, .connect).ofProxy)
        }
        secure()
    }

    // MARK: The handshakes

    func ready(_ readiness: Readiness) {
        if let handler { return handler.ready(readiness) }
        stream.note(readiness)
        switch state {
        case .securing: loop.add(self, to: .handshake)
        case .requesting:
            if readiness.contains(.write) { writeRequest() }
            if readiness.contains(.read) { readAnswer() }
        case .done: break
        }
    }

    func run(_: LoopQueue) {
        if state == .securing { secure() }
    }

    /// Takes one step of the stream's own handshake. After the last one, requests the tunnel.
    private func secure() {
        switch stream.advance() {
        case .ready: break
        case .again: return loop.add(self, to: .handshake)
        case .waiting: return
        case .failed(let result): return fail(result)
        }
        state = .requesting
        handshake.start(&output, unixTime: WallClock.unixTime())
        writeRequest()
        // The edge of bytes behind the handshake can have been reported already.
        readAnswer()
    }

    private func writeRequest() {
        while state == .requesting, !output.isEmpty {
            switch output.withUnsafeReadableBytes({ stream.write($0) }) {
            case .bytes(let count):
                output.consume(count)
                isUnanswered = true
            case .wouldBlock, .end: return
            case let failure: return fail(failure)
            }
        }
    }

    private func readAnswer() {
        while state == .requesting {
            var result = IOResult.wouldBlock
            var isDrained = false
            _ = input.write(minimum: 1024) { target in
                result = stream.read(into: target)
                guard case .bytes(let count) = result else { return 0 }
                isDrained = stream.isDrained(afterReading: count, of: target.count)
                return count
            }
            switch result {
            case .bytes: processAnswer()
            case .wouldBlock: return
            case let failure: return fail(failure)
            }
            if isDrained { return }
        }
    }

    private func processAnswer() {
        if isUnanswered { roundTrips += 1 }
        isUnanswered = false
        let isRequested = output.isEmpty
        do throws(TransportError) {
            let isOpen = try handshake.next(&input, &output)
            guard isRequested, !isOpen || output.isEmpty else {
                throw .proxyFailed("sent an answer before it had the whole request")
            }
            if isOpen { finish(nil) } else { writeRequest() }
        } catch {
            finish(error)
        }
    }

    /// Ends the attempt after a read, a write or a step of the stream's own handshake.
    private func fail(_ result: IOResult) {
        switch result {
        case .failed(let error):
            var error = TransportError(error, .connect).ofProxy
            if error.code == .connectionReset, stream.bytesReceived == 0 {
                error.reason += ", before it sent anything\(TransportError.compareProxy)"
            }
            finish(error)
        case .insecure(let failure): finish(.insecureProxy(failure))
        case .bytes, .wouldBlock, .end: finish(.proxyEnded)
        }
    }

    /// Ends the handshake. Only the first call has an effect.
    private func finish(_ error: TransportError?) {
        guard let opener else { return }
        self.opener = nil
        state = .done
        if let timer { loop.cancel(timer: timer) }
        timer = nil
        output = ByteBuffer()
        if input.isEmpty { input = ByteBuffer() }
        if error != nil { close(abort: true) }
        var error = error
        // A proxy is a part of the path.
        error?.origin = .path
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
        guard wasReadAhead else {
            let result = stream.read(into: buffer)
            guard case .insecure(let failure) = result else { return result }
            return .insecure(TLSFailure(failure.problem, "the proxy: \(failure.sentence)"))
        }
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
    var bytesAcknowledged: UInt64 { stream.bytesAcknowledged }
    var bufferedBytes: Int { input.capacity + stream.bufferedBytes }
    var holdsOutput: Bool { stream.holdsOutput }
    var segmentCounts: SegmentCounts? { stream.segmentCounts }

    /// Bytes exchanged with the proxy count too.
    var bytesSent: UInt64 { stream.bytesSent }
    var bytesReceived: UInt64 { stream.bytesReceived }
    var tlsBytesSent: UInt64 { stream.tlsBytesSent }
    /// The round trips to the proxy, and those of the request for the tunnel.
    var roundTripsToConnect: Int { stream.roundTripsToConnect + roundTrips }
}

extension TransportError {
    /// The error of a proxy that does not answer.
    static let proxySilent = TransportError(.timedOut, .connect, "the proxy did not answer in time")

    /// The error of a proxy that closes the connection in place of an answer.
    static let proxyEnded = TransportError(
        .connectionLost,
        .connect,
        "the proxy ended the connection without an answer\(compareProxy)"
    )

    fileprivate static let compareProxy = ": compare the scheme and the port of its URL with those of the proxy"

    /// The error for TLS to the proxy. The sentences of TLS call the other side a server, and know the option `ca`.
    static func insecureProxy(_ failure: TLSFailure) -> TransportError {
        var error = TransportError(failure, wasOpen: false)
        switch failure.problem {
        case .truncated: error.reason = proxyEnded.reason
        case .plainText:
            error.reason =
                "the proxy sent plain text where TLS was expected; write http:// in its URL, or its port for TLS"
        case .certificateRequired:
            error.reason = "the proxy requires a certificate of the client, which is not supported"
        case .unknownIssuer, .selfSigned, .incompleteChain:
            error.reason = "\(error.ofProxy.reason); the option for the authorities of a proxy is proxy-ca"
        default: error = error.ofProxy
        }
        return error
    }
}
