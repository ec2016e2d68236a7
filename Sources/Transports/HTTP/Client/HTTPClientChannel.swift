import Protocols
import SocketIO
import TransportAPI

/// The client's end of a connection over HTTP: a byte stream, whose bytes travel in requests and answers. Up to two
/// connections carry them, and each is replaced if it breaks. ``HTTPClientSession`` decides what to request. Lives on its
/// loop.
final class HTTPClientChannel: ByteChannel, HTTPLaneUser {
    /// Opens another connection to the server. Called on the loop.
    typealias Dial = @Sendable (_ deadline: Int64) async throws(TransportError) -> LoopBound<HTTPLane>
    /// Writes the bytes of a request.
    typealias Write = (HTTPClientSession.Request) -> [UInt8]

    /// A lane: the connection that carries its requests, or the task that opens one.
    private struct LaneState {
        var connection: HTTPLane?
        var dialing: Task<Void, Never>?
        /// How many bytes of the connection had reached the server when its request seemed late.
        var acknowledged: UInt64 = 0
    }

    /// How long opening a connection may take, in nanoseconds.
    private static let dialTime: Int64 = 10_000_000_000

    private let loop: EventLoop
    private let dial: Dial
    private let write: Write
    private let keepCookies: (HTTPHead) -> Void
    private var session: HTTPClientSession
    private var lanes: [HTTPClientSession.Lane: LaneState] = [:]
    private var timer: (id: UInt64, deadline: Int64)?
    private var handler: (any PollHandler)?
    private var isWaitingForRoom = false
    private var isClosed = false
    /// Whether a step is in progress, so that what it causes is handled in the same one.
    private var isWorking = false
    /// The bytes of connections that have ended.
    private var past = (sent: UInt64(0), received: UInt64(0), tls: UInt64(0), segments: SegmentCounts?.none)
    private var error: TransportError?
    /// Whether the driver was told that the server has not confirmed everything.
    private var isHolding = false

    let peer: SocketAddress?
    let encryption: TLSDescription?
    let roundTripsToConnect: Int

    /// Creates the channel of a session that was opened over `lanes.receive`, while `lanes.send` was opened.
    init(
        _ session: consuming HTTPClientSession,
        over lanes: (receive: HTTPLane, send: HTTPLane),
        on loop: EventLoop,
        dial: @escaping Dial,
        write: @escaping Write,
        keepCookies: @escaping (HTTPHead) -> Void
    ) {
        self.session = session
        self.loop = loop
        self.dial = dial
        self.write = write
        self.keepCookies = keepCookies
        peer = lanes.receive.peer
        encryption = lanes.receive.encryption
        roundTripsToConnect = lanes.receive.roundTripsToConnect + max(1, lanes.send.roundTripsToConnect)
        self.lanes[.send] = LaneState(connection: lanes.send)
        lanes.send.user = self
        if lanes.receive.isOpen {
            lanes.receive.user = self
            self.lanes[.receive] = LaneState(connection: lanes.receive)
        } else {
            count(lanes.receive)
        }
    }

    // MARK: The stream of bytes

    func attach(_ handler: any PollHandler) {
        self.handler = handler
        lanes[.send]?.connection?.start()
        workLater()
    }

    /// The lanes get their readiness themselves.
    func note(_: Readiness) { isHolding = error == nil && session.holdsOutput }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> IOResult {
        let wasFull = session.isFull
        let count = session.read(into: buffer)
        if wasFull, !session.isFull {
            // The server was not silent: its bytes were not read.
            session.moved(.receive, at: loop.now)
            workLater()
        }
        if count > 0 { return .bytes(count) }
        if self.error != nil { return .failed(SystemError("HTTP", ECONNABORTED)) }
        return session.hasEnded ? .end : .wouldBlock
    }

    func isDrained(afterReading _: Int, of _: Int) -> Bool {
        session.unreadBytes == 0 && self.error == nil && !session.hasEnded
    }

    func write(_ bytes: UnsafeRawBufferPointer) -> IOResult {
        if self.error != nil { return .failed(SystemError("HTTP", ECONNABORTED)) }
        let count = session.append(bytes)
        isWaitingForRoom = count < bytes.count
        guard count > 0 else { return .wouldBlock }
        isHolding = session.holdsOutput
        work()
        return .bytes(count)
    }

    var holdsOutput: Bool { isHolding }

    func shutdownWriting() -> Bool {
        guard self.error == nil else { return false }
        session.finish()
        isHolding = session.holdsOutput
        work()
        return true
    }

    func close(abort: Bool) {
        guard !isClosed else { return }
        isClosed = true
        handler = nil
        if let timer { loop.cancel(timer: timer.id) }
        timer = nil
        for lane in lanes.values {
            lane.dialing?.cancel()
            if let connection = lane.connection { end(connection, abort: abort) }
        }
        lanes = [:]
    }

    // MARK: Facts

    var failure: (any Error)? { error }
    var bytesSent: UInt64 { lanes.values.reduce(past.sent) { $0 + ($1.connection?.bytesSent ?? 0) } }
    var bytesReceived: UInt64 { lanes.values.reduce(past.received) { $0 + ($1.connection?.bytesReceived ?? 0) } }
    var tlsBytesSent: UInt64 { lanes.values.reduce(past.tls) { $0 + ($1.connection?.tlsBytesSent ?? 0) } }
    var segmentCounts: SegmentCounts? {
        lanes.values.compactMap(\.connection).compactMap(\.segmentCounts)
            .reduce(past.segments) { sum, counts in sum.map { $0 + counts } ?? counts }
    }
    var unacknowledgedBytes: Int { session.unconfirmedBytes }
    var bufferedBytes: Int {
        lanes.values.reduce(session.bufferedBytes) { $0 + ($1.connection?.bufferedBytes ?? 0) }
    }

    // MARK: Requests

    /// Makes the requests that are wanted, and sets the timer.
    private func work() {
        guard !isWorking, !isClosed, self.error == nil else { return }
        isWorking = true
        for lane in HTTPClientSession.Lane.allCases { begin(lane) }
        lanes[.receive]?.connection?.pause(session.isFull)
        isWorking = false
        armTimer()
    }

    private func workLater() {
        let channel = LoopBound(self, to: loop)
        loop.execute { channel.value.work() }
    }

    private func begin(_ lane: HTTPClientSession.Lane) {
        guard session.wants(lane, at: loop.now) else { return }
        guard let connection = lanes[lane]?.connection, connection.isOpen else { return openConnection(for: lane) }
        connection.send(write(session.begin(lane, at: loop.now)))
    }

    private func openConnection(for lane: HTTPClientSession.Lane) {
        guard lanes[lane]?.dialing == nil else { return }
        let channel = LoopBound(self, to: loop)
        let deadline = loop.now + Self.dialTime
        let task = Task(executorPreference: loop) { [dial, loop] in
            let result: Result<LoopBound<HTTPLane>, TransportError>
            do throws(TransportError) { result = .success(try await dial(deadline)) } catch { result = .failure(error) }
            loop.execute { channel.value.dialed(lane, result) }
        }
        lanes[lane, default: LaneState()].dialing = task
    }

    private func dialed(_ lane: HTTPClientSession.Lane, _ result: Result<LoopBound<HTTPLane>, TransportError>) {
        guard !isClosed, self.error == nil else {
            if case .success(let connection) = result { connection.value.close(abort: true) }
            return
        }
        lanes[lane]?.dialing = nil
        switch result {
        case .success(let connection):
            connection.value.user = self
            lanes[lane] = LaneState(connection: connection.value)
            connection.value.start()
        case .failure(let error): failed(lane, error.reason)
        }
        work()
    }

    private func armTimer() {
        // A request that waits for its connection has no deadline: dialing has a limit of its own.
        var deadline = Int64.max
        for lane in HTTPClientSession.Lane.allCases where lanes[lane]?.dialing == nil {
            deadline = min(deadline, session.deadline(lane) ?? .max)
        }
        guard deadline < .max else { return }
        let due = max(deadline, loop.now + 1_000_000)
        if let timer {
            guard due < timer.deadline else { return }
            loop.cancel(timer: timer.id)
        }
        timer = (loop.schedule(at: due) { [self] in timerFired() }, due)
    }

    private func timerFired() {
        timer = nil
        guard !isClosed, self.error == nil else { return }
        // On a slow path, a request takes long to leave the system.
        if let taken = lanes[.send]?.connection?.bytesAcknowledged, taken > lanes[.send]?.acknowledged ?? 0 {
            lanes[.send]?.acknowledged = taken
            session.moved(.send, at: loop.now)
        }
        for (lane, reason) in session.late(at: loop.now) {
            if let connection = lanes[lane]?.connection { end(connection, abort: true) }
            lanes[lane]?.connection = nil
            failed(lane, reason)
        }
        work()
    }

    // MARK: From the lanes

    private func name(of connection: HTTPLane) -> HTTPClientSession.Lane? {
        HTTPClientSession.Lane.allCases.first { lanes[$0]?.connection === connection }
    }

    func moved(_ connection: HTTPLane) {
        if let lane = name(of: connection) { session.moved(lane, at: loop.now) }
    }

    func received(_ event: HTTPResponseReader.Event, on connection: HTTPLane) {
        guard let lane = name(of: connection), self.error == nil else { return }
        do throws(HTTPSessionFailure) {
            switch event {
            case .head(let head, let status):
                keepCookies(head)
                let type = head.headers.values("Content-Type").first?.prefix { $0 != ";" } ?? ""
                try session.answered(lane, status, type: type.lowercased(), at: loop.now)
            case .body(let bytes): try session.take(bytes, on: lane, at: loop.now)
            case .end:
                session.completed(lane, at: loop.now)
                if !connection.isOpen { count(connection) }
                if !connection.isOpen { lanes[lane]?.connection = nil }
            }
        } catch {
            end(connection, abort: true)
            lanes[lane]?.connection = nil
            switch error {
            case .final(let error): fail(error)
            case .passing(let reason): failed(lane, reason)
            }
        }
        tellHandler()
        work()
    }

    func ended(_ connection: HTTPLane, _ error: TransportError) {
        guard let lane = name(of: connection) else { return }
        count(connection)
        lanes[lane]?.connection = nil
        // A server ends connections that are idle.
        // One that ends before its first request has failed too.
        if connection.isBusy || !connection.isReused {
            failed(lane, error.reason, isStale: connection.isReused && !connection.hasAnswer)
        }
        tellHandler()
        work()
    }

    /// Tells the driver what it can do now.
    private func tellHandler() {
        if session.unreadBytes > 0 || session.hasEnded { handler?.ready(.read) }
        if isHolding && !session.holdsOutput || isWaitingForRoom && session.hasRoom { handler?.ready(.write) }
    }

    private func failed(_ lane: HTTPClientSession.Lane, _ reason: String, isStale: Bool = false) {
        if let error = session.failed(lane, reason, isStale: isStale, at: loop.now) { fail(error) }
    }

    private func fail(_ error: TransportError) {
        guard self.error == nil else { return }
        var error = error
        if error.origin == .unstated { error.origin = encryption?.isVerified == true ? .peer : .path }
        self.error = error
        handler?.ready([.read, .write])
    }

    private func end(_ connection: HTTPLane, abort: Bool) {
        count(connection)
        connection.close(abort: abort)
    }

    private func count(_ connection: HTTPLane) {
        past.sent += connection.bytesSent
        past.received += connection.bytesReceived
        past.tls += connection.tlsBytesSent
        guard let counts = connection.segmentCounts else { return }
        past.segments = past.segments.map { $0 + counts } ?? counts
    }
}
