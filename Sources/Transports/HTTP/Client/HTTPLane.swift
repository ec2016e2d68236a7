import Protocols
import SocketIO
import TransportAPI

/// Receives what happens on a lane. Called on the loop.
protocol HTTPLaneUser: AnyObject {
    /// A part of the answer has arrived.
    func received(_ event: HTTPResponseReader.Event, on lane: HTTPLane)
    /// Bytes of the request have left, or bytes of the answer have arrived.
    func moved(_ lane: HTTPLane)
    /// The connection has ended. This is the last call.
    func ended(_ lane: HTTPLane, _ error: TransportError)
}

/// One connection of a client for requests over HTTP, one after the other. Lives on its loop.
final class HTTPLane: PollHandler, ScheduledHandler {
    /// How many bytes are read in one turn, before other connections of the loop have theirs.
    private static let turn = 256 << 10

    private let channel: any ByteChannel
    private let loop: EventLoop
    private var output = ByteBuffer()
    private var input = ByteBuffer()
    private var reader = HTTPResponseReader()
    private var isSecuring = true
    private var isReadable = false
    var schedule = ScheduleEntry()
    /// The user, until the lane is closed.
    var user: (any HTTPLaneUser)?
    /// The counts of packets of the closed connection.
    private var lastSegments: SegmentCounts?
    /// Whether a request is in progress.
    private(set) var isBusy = false
    /// Whether the connection has carried a whole exchange before.
    private(set) var isReused = false
    /// Whether anything of the answer in progress has arrived.
    private(set) var hasAnswer = false
    /// Whether the answer is not read now, because its reader has no room.
    private(set) var isPaused = false

    init(over channel: any ByteChannel, on loop: EventLoop) {
        (self.channel, self.loop) = (channel, loop)
    }

    /// Begins to use the connection.
    func start() {
        do throws(SystemError) {
            try channel.attach(self)
        } catch {
            return fail(.failed(error))
        }
        secure()
    }

    // MARK: Requests

    /// Sends a request. The one before must be over.
    func send(_ request: [UInt8]) {
        (isBusy, hasAnswer) = (true, false)
        reader = HTTPResponseReader()
        output.append(contentsOf: request)
        if !isSecuring { write() }
    }

    /// Stops reading, or continues.
    func pause(_ isPaused: Bool) {
        guard isPaused != self.isPaused else { return }
        self.isPaused = isPaused
        if !isPaused, isReadable { loop.add(self, to: .deferred) }
    }

    /// Ends the connection. The user is not called any more.
    func close(abort: Bool) {
        user = nil
        lastSegments = segmentCounts
        channel.close(abort: abort)
    }

    // MARK: From the loop

    func ready(_ readiness: Readiness) {
        channel.note(readiness)
        guard user != nil else { return }
        if isSecuring { return loop.add(self, to: .handshake) }
        if readiness.contains(.write) { write() }
        if readiness.contains(.read) {
            isReadable = true
            read()
        }
    }

    func run(_: LoopQueue) {
        if isSecuring { secure() } else { read() }
    }

    private func secure() {
        guard user != nil, isSecuring else { return }
        switch channel.advance() {
        case .ready: break
        case .again: return loop.add(self, to: .handshake)
        case .waiting: return
        case .failed(let result): return fail(result)
        }
        isSecuring = false
        write()
        // The edge of bytes behind the handshake can have been reported already.
        isReadable = true
        read()
    }

    private func write() {
        while user != nil, !output.isEmpty {
            switch output.withUnsafeReadableBytes({ channel.write($0) }) {
            case .bytes(let count):
                output.consume(count)
                user?.moved(self)
            case .wouldBlock: return
            case let failure: return fail(failure)
            }
        }
        if output.isEmpty { output = ByteBuffer() }
    }

    private func read() {
        var left = Self.turn
        while user != nil, isReadable, !isPaused {
            guard left > 0 else { return loop.add(self, to: .deferred) }
            var result = IOResult.wouldBlock
            var isDrained = false
            input.borrowInput(of: loop)
            _ = input.write(minimum: 1) { [channel] target in
                result = channel.read(into: target)
                guard case .bytes(let count) = result else { return 0 }
                isDrained = channel.isDrained(afterReading: count, of: target.count)
                return count
            }
            switch result {
            case .bytes(let count):
                left -= count
                if isDrained { isReadable = false }
                process()
            case .wouldBlock: isReadable = false
            case .end:
                isReadable = false
                inputEnded()
            case let failure: fail(failure)
            }
        }
        input.returnBlock(to: loop)
    }

    /// Takes the answer apart.
    private func process() {
        guard isBusy else {
            // A server may answer 408 before it ends an idle connection.
            return fail(.end)
        }
        hasAnswer = true
        user?.moved(self)
        do throws(HTTPMessageError) {
            while user != nil, let event = try reader.next(&input) { report(event) }
        } catch {
            end(TransportError(.protocolViolation, .open, "the answer over HTTP is malformed: \(error.reason)"))
        }
    }

    private func inputEnded() {
        guard isBusy else { return fail(.end) }
        do throws(HTTPMessageError) {
            guard let event = try reader.inputEnded() else { return fail(.end) }
            report(event)
        } catch {
            return fail(.end)
        }
        if user != nil { fail(.end) }
    }

    private func report(_ event: HTTPResponseReader.Event) {
        guard case .end = event else {
            user?.received(event, on: self)
            return
        }
        (isBusy, isReused) = (false, true)
        let isReusable = reader.isReusable
        let user = user
        if !isReusable { close(abort: false) }
        user?.received(.end, on: self)
    }

    /// Whether the connection can carry another request.
    var isOpen: Bool { user != nil }

    // MARK: The end

    private func fail(_ result: IOResult) {
        switch result {
        case .failed(let error): end(TransportError(error, .open, at: channel.peer?.description))
        case .insecure(let failure): end(TransportError(failure, wasOpen: false))
        case .bytes, .wouldBlock, .end:
            end(TransportError(.connectionLost, .open, "the server ended the connection without an answer"))
        }
    }

    private func end(_ error: TransportError) {
        let user = user
        close(abort: true)
        user?.ended(self, error)
    }

    // MARK: Facts

    var peer: SocketAddress? { channel.peer }
    var encryption: TLSDescription? { channel.encryption }
    var bytesSent: UInt64 { channel.bytesSent }
    var bytesReceived: UInt64 { channel.bytesReceived }
    var bytesAcknowledged: UInt64 { channel.bytesAcknowledged }
    var tlsBytesSent: UInt64 { channel.tlsBytesSent }
    var segmentCounts: SegmentCounts? { lastSegments ?? channel.segmentCounts }
    var roundTripsToConnect: Int { channel.roundTripsToConnect }
    /// How many bytes the lane holds, and how many the peer's system has not acknowledged.
    var bufferedBytes: Int { output.capacity + input.ownMemory + channel.bufferedBytes }
}
