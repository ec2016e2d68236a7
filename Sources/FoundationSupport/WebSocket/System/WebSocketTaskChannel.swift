import Primitives
import Protocols
import SocketIO
import TransportAPI

/// Joins the driver of a connection and a ``WebSocketTask``. It takes the frames of the core apart into calls of the task, and
/// makes frames of what the task reports. Lives on its loop, and takes every callback there. After its end it ignores them.
final class WebSocketTaskChannel: ByteChannel {
    private enum State {
        case opening
        case open
        /// The task is over, or nobody listens to it any more.
        case ended
    }

    private let loop: EventLoop
    private let task: any WebSocketTask
    private let request: WebSocketTaskRequest
    private let path: String
    private var handler: (any PollHandler)?
    private var state = State.opening
    /// The frames for the core.
    private var input = ByteBuffer()
    private var isReceiving = false
    private(set) var failure: (any Error)?
    private(set) var encryption: TLSDescription?
    /// The sizes of the messages that the task has not passed on, by their numbers.
    private var unsent: [UInt64: Int] = [:]
    private var unsentBytes = 0
    private var lastSend: UInt64 = 0
    private var mustReportRoom = false
    /// The close frame to send once the task has passed on all messages.
    private var closeFrame: (code: UInt16, text: String)?
    /// The last ping that was answered.
    private var lastPong: UInt64 = 0
    /// Ends a task that does not end by itself.
    private var timer: UInt64?
    /// What the handshake and the frames take without TLS and compression. The system does not tell what it has sent.
    private(set) var bytesSent: UInt64 = 0
    private(set) var bytesReceived: UInt64 = 0

    /// How many bytes of messages the task may hold before writers wait.
    private static let mostUnsent = 256 << 10
    /// How many bytes of received messages may wait before no further one is requested.
    private static let mostReceived = 64 << 10
    /// How long a task may take to end after the driver has left it, in nanoseconds.
    private static let linger: Int64 = 2_000_000_000
    /// How long the end of a task may take after a receive has failed, in nanoseconds.
    private static let grace: Int64 = 500_000_000

    init(_ task: any WebSocketTask, _ request: WebSocketTaskRequest, path: String, on loop: EventLoop) {
        (self.task, self.request, self.path, self.loop) = (task, request, path, loop)
    }

    var unacknowledgedBytes: Int { unsentBytes }
    var holdsOutput: Bool { unsentBytes > 0 || closeFrame != nil }

    func attach(_ handler: any PollHandler) {
        self.handler = handler
        bytesSent += UInt64(request.size(path: path))
        let bound = LoopBound(self, to: loop)
        task.resume { event in bound.execute { bound.value.handle(event) } }
    }

    func note(_: Readiness) {}

    // MARK: From the task

    private func handle(_ event: WebSocketTaskEvent) {
        guard state != .ended else { return }
        switch event {
        case .opened(let subprotocol, let encryption):
            guard state == .opening else { return }
            state = .open
            self.encryption = encryption
            bytesReceived += UInt64(WebSocketTaskRequest.answerSize)
            TaskFrame.write(.opened, subprotocol ?? "", to: &input)
            receiveMore()
        case .closed(let code, let text):
            guard state == .open else { return }
            TaskFrame.write(.close, number: code, text, to: &input)
        case .ended(let end):
            let wasOpen = state == .open
            finish()
            if let status = end.redirectStatus, !wasOpen {
                TaskFrame.write(.redirected, number: status.number, status.location, to: &input)
            } else {
                failure = failure ?? end.error(request, path: path, wasOpen: wasOpen)
                if end.isVerified, encryption == nil {
                    encryption = TLSDescription(version: "", cipher: "", isVerified: true)
                }
            }
        }
        handler?.ready(.read)
    }

    private func received(_ result: Result<WebSocketTaskMessage, WebSocketTaskFailure>) {
        isReceiving = false
        guard state == .open else { return }
        switch result {
        case .success(.text(let text)):
            bytesReceived += Self.frameSize(text.utf8.count, isMasked: false)
            TaskFrame.write(.text, text, to: &input)
        case .success(.binary(let bytes)):
            bytesReceived += Self.frameSize(bytes.count, isMasked: false)
            bytes.withUnsafeBytes { TaskFrame.write(.binary, $0, to: &input) }
        case .failure(let error) where error.isTooLarge:
            // The system need not end the task for that.
            failure = TransportError.receivedTooMuch(request.maximumMessageSize)
            task.close(code: 1009, text: "")
            finish()
            handler?.ready(.read)
            return cancelLater()
        case .failure(let error):
            // The end of the task follows, with the close frame of the peer if there is one.
            timer = loop.schedule(at: loop.now + Self.grace) { [self] in
                timer = nil
                handle(.ended(WebSocketTaskEnd(failure: error)))
                task.cancel()
            }
            return
        }
        receiveMore()
        handler?.ready(.read)
    }

    /// Requests the next message unless enough wait. Until then the system reads nothing more, so the peer has to wait.
    private func receiveMore() {
        guard state == .open, !isReceiving, input.count < Self.mostReceived else { return }
        isReceiving = true
        let bound = LoopBound(self, to: loop)
        task.receive { result in bound.execute { bound.value.received(result) } }
    }

    private func sent(_ number: UInt64) {
        guard let size = unsent.removeValue(forKey: number) else { return }
        unsentBytes -= size
        sendClose()
        guard mustReportRoom || handler != nil && unsent.isEmpty else { return }
        mustReportRoom = false
        handler?.ready(.write)
    }

    private func answered(_ ping: UInt64) {
        guard state == .open, ping > lastPong else { return }
        lastPong = ping
        bytesReceived += Self.frameSize(0, isMasked: false)
        TaskFrame.write(.pong, ping: ping, to: &input)
        handler?.ready(.read)
    }

    // MARK: From the driver

    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        guard !input.isEmpty else {
            guard state == .ended else { return .wouldBlock }
            return failure == nil ? .end : .failed(SystemError("URLSessionWebSocketTask", ECONNRESET))
        }
        let count = min(input.count, buffer.count)
        input.withUnsafeReadableBytes {
            buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[..<count]))
        }
        input.consume(count)
        receiveMore()
        return .bytes(count)
    }

    func isDrained(afterReading count: Int, of capacity: Int) -> Bool {
        count < capacity && input.isEmpty && state != .ended
    }

    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
        guard state != .ended else { return .failed(SystemError("URLSessionWebSocketTask", EPIPE)) }
        var taken = 0
        // The output has whole frames only, and only whole ones are taken.
        while let (kind, body) = TaskFrame.first(UnsafeRawBufferPointer(rebasing: bytes[taken...])) {
            guard unsent.isEmpty || unsentBytes < Self.mostUnsent else { break }
            switch kind {
            case .text: send(.text(String(decoding: body, as: UTF8.self)), body.count)
            case .binary: send(.binary([UInt8](body)), body.count)
            case .ping: ping(TaskFrame.ping(body))
            case .close:
                let (code, text) = TaskFrame.numberAndText(body)
                closeFrame = (code, text)
                sendClose()
            case .opened, .redirected, .pong: break
            }
            taken += TaskFrame.headerSize + body.count
            bytesSent += Self.frameSize(kind == .ping ? 0 : body.count, isMasked: true)
        }
        if taken < bytes.count { mustReportRoom = true }
        return taken > 0 ? .bytes(taken) : .wouldBlock
    }

    /// The size of a WebSocket frame with a body (RFC 6455, section 5.2).
    private static func frameSize(_ body: Int, isMasked: Bool) -> UInt64 {
        UInt64(body + (body < 126 ? 2 : body < 65536 ? 4 : 10) + (isMasked ? 4 : 0))
    }

    private func send(_ message: WebSocketTaskMessage, _ size: Int) {
        lastSend += 1
        let number = lastSend
        unsent[number] = size
        unsentBytes += size
        let bound = LoopBound(self, to: loop)
        task.send(message) { _ in bound.execute { bound.value.sent(number) } }
    }

    private func ping(_ number: UInt64) {
        let bound = LoopBound(self, to: loop)
        task.ping { isAnswered in
            // The system may call this again when the connection breaks.
            if isAnswered { bound.execute { bound.value.answered(number) } }
        }
    }

    /// Sends the close frame after all messages.
    private func sendClose() {
        guard state == .open, let frame = closeFrame, unsent.isEmpty else { return }
        closeFrame = nil
        task.close(code: frame.code, text: frame.text)
    }

    /// A WebSocket has no end of one half.
    func shutdownWriting() -> Bool { false }

    func close(abort: Bool) {
        handler = nil
        guard state != .ended else { return }
        guard !abort, state == .open else { return leave() }
        // The last messages and the close frame may still be on their way.
        cancelTimer()
        timer = loop.schedule(at: loop.now + Self.linger) { [self] in
            timer = nil
            if state != .ended { leave() }
        }
        if !holdsOutput { task.close(code: 1000, text: "") }
    }

    private func leave() {
        finish()
        task.cancel()
    }

    /// Gives a task time for its last bytes.
    private func cancelLater() {
        timer = loop.schedule(at: loop.now + Self.linger) { [self] in
            timer = nil
            task.cancel()
        }
    }

    private func cancelTimer() {
        if let timer = timer.take() { loop.cancel(timer: timer) }
    }

    private func finish() {
        state = .ended
        cancelTimer()
        closeFrame = nil
        unsent.removeAll()
        unsentBytes = 0
    }
}
