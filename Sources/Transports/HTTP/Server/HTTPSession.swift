import Protocols
import SocketIO
import TransportAPI

/// One logical connection over HTTP at a server: its streams, the driver that runs framed TCP over them, and the requests
/// of the client that wait for an answer. Lives on its loop.
final class HTTPSession {
    /// A request that receives, and that is not answered completely.
    private struct Receiving {
        enum Mode {
            /// Events, as far as the connection has room.
            case events(EventCursor)
            /// The bytes from this offset on, as soon as there are some. The timer ends the wait.
            case longPoll(from: UInt64, timer: UInt64)
        }

        let exchange: HTTPExchange
        var mode: Mode
        /// When something was last sent.
        var sentAt: Int64
        /// How much of its output the connection's peer had acknowledged when it was last checked.
        var acknowledged: UInt64
    }

    /// A request that sends, and that is not answered.
    private struct Sending {
        struct Piece {
            let bytes: [UInt8]
            let offset: UInt64
            let isLast: Bool
        }

        let exchange: HTTPExchange
        /// Its bytes, until they are taken.
        var piece: Piece?
    }

    /// How many bytes an answer has at least, if there are so many.
    private static let leastAnswer = 64 << 10
    /// How many bytes of events are joined for one write.
    private static let batch = 16 << 10

    let token: SessionToken
    private let binding: SessionBinding
    private let sessions: HTTPSessions
    let channel: HTTPServerChannel
    /// The network of the client that has opened the session.
    let opener: SocketAddress.Network?
    /// The driver, until it has closed the channel. Afterwards the client may still fetch what was written.
    var driver: ConnectionDriver?
    /// How long the session lives without a request.
    private let timeout: Int64
    /// How long its client may acknowledge nothing while output waits for it.
    private let stallTimeout: Duration
    private var receiving: Receiving?
    /// The connection over which bytes were last given out, and the offset behind them.
    private weak var carrier: ConnectionDriver?
    private var given: UInt64 = 0
    private var sending: Sending?
    /// When the client last showed that it is there, by a request or by taking events.
    private var heardAt: Int64
    /// Whether no request has followed the one that opened the session.
    private(set) var isSilent = true
    /// Whether the client was told that nothing follows.
    private var hasToldEnd = false
    /// The memory that the owner counts for this session after the end of its driver.
    private var leftMemory = 0

    init(
        _ token: SessionToken,
        _ binding: SessionBinding,
        _ channel: HTTPServerChannel,
        _ driver: ConnectionDriver,
        timeout: Duration,
        stallTimeout: Duration,
        of sessions: HTTPSessions
    ) {
        (self.token, self.binding) = (token, binding)
        (self.channel, self.driver) = (channel, driver)
        opener = channel.peer?.network
        self.timeout = timeout.wholeNanoseconds
        self.stallTimeout = stallTimeout
        self.sessions = sessions
        heardAt = sessions.loop.now
        channel.session = self
    }

    private var limits: HTTPSessionLimits { sessions.setup.limits }
    private var now: Int64 { sessions.loop.now }

    /// The memory of the bytes of a request that wait for room.
    var waitingBytes: Int { sending?.piece?.bytes.capacity ?? 0 }
    /// The memory that the session takes.
    var bufferedBytes: Int { driver?.bufferedBytes ?? leftMemory }

    /// Returns whether a request comes from the client that has opened the session, and notes that it is there.
    func admits(_ request: HTTPRequest, from peer: SocketAddress?) -> Bool {
        guard binding.admits(request) else { return false }
        heardAt = now
        isSilent = false
        channel.peer = peer
        return true
    }

    // MARK: Receiving

    /// Gives out the stream from an offset on, to this request and not to one before it.
    func receive(_ delivery: SessionRequest.Delivery, from offset: UInt64, _ exchange: HTTPExchange) {
        guard offset >= channel.output.start, offset <= channel.output.end else {
            let (start, end) = (channel.output.start, channel.output.end)
            return exchange.answer(409, "the stream is there from \(start) to \(end), and not from \(offset)")
        }
        endReceiving(409, "a later request receives")
        acknowledge(before: offset)
        guard !isRemoved else { return exchange.answer(404, HTTPSessions.unknown) }
        guard !isOver(at: offset) else { return tellEnd(exchange) }
        switch delivery {
        case .events:
            exchange.beginEvents()
            wait(exchange, .events(EventCursor(channel.output)))
            pour()
        case .longPoll:
            guard !give(from: offset, exchange), exchange.isOpen else { break }
            let deadline = Instant(nanoseconds: now).advanced(by: limits.hold).nanoseconds
            let timer = sessions.loop.schedule(at: deadline) { [self] in endReceiving(204) }
            wait(exchange, .longPoll(from: offset, timer: timer))
        case .poll: if !give(from: offset, exchange) { exchange.answer(204) }
        }
        reportMemory()
    }

    /// Whether the client has the whole stream.
    private func isOver(at offset: UInt64) -> Bool { channel.output.isEnded && offset == channel.output.end }

    private func tellEnd(_ exchange: HTTPExchange) {
        exchange.answer(410, "the stream has ended")
        hasToldEnd = true
        endIfDone()
    }

    /// Answers with the bytes from an offset on. Returns `false` if there are none.
    private func give(from offset: UInt64, _ exchange: HTTPExchange) -> Bool {
        // Fewer bytes would cost a request for each piece.
        let most = max(exchange.connection.limits.writeBuffer, Self.leastAnswer)
        let bytes = channel.output.withBytes(from: offset) { Array($0.prefix(most)) } ?? []
        guard !bytes.isEmpty else { return false }
        (carrier, given) = (exchange.connection, offset + UInt64(bytes.count))
        exchange.answer(200, type: "application/octet-stream", bytes)
        return true
    }

    /// Up to which offset the client's system has taken what was given out, at least. On a slow path it is long before the
    /// client acknowledges it. The connection carries more bytes than the stream has.
    var takenByClient: UInt64 {
        guard let carrier, carrier.phase != .closed else { return 0 }
        return given - min(given, UInt64(carrier.context.output.count + carrier.channel.unacknowledgedBytes))
    }

    private func wait(_ exchange: HTTPExchange, _ mode: Receiving.Mode) {
        guard exchange.isOpen else { return }
        let acknowledged = exchange.connection.channel.bytesAcknowledged
        receiving = Receiving(exchange: exchange, mode: mode, sentAt: now, acknowledged: acknowledged)
        sessions.waiting[exchange.number] = self
    }

    /// Ends the request that receives. One that has no answer yet is answered with this status.
    private func endReceiving(_ status: Int, _ sentence: String = "") {
        guard let ended = receiving.take() else { return }
        sessions.waiting[ended.exchange.number] = nil
        heardAt = now
        switch ended.mode {
        case .events: ended.exchange.end()
        case .longPoll(_, let timer):
            sessions.loop.cancel(timer: timer)
            ended.exchange.answer(status, sentence)
        }
    }

    /// The driver has written bytes, or has ended the stream.
    func outputChanged() {
        guard let receiving else { return }
        switch receiving.mode {
        case .events: pour()
        case .longPoll(let offset, let timer):
            let (exchange, isOver) = (receiving.exchange, isOver(at: offset))
            guard isOver || offset < channel.output.end else { return }
            self.receiving = nil
            sessions.waiting[exchange.number] = nil
            sessions.loop.cancel(timer: timer)
            heardAt = now
            if isOver { tellEnd(exchange) } else { _ = give(from: offset, exchange) }
        }
    }

    /// The connection of the events has room.
    func roomMade() {
        pour()
    }

    /// Sends events while the connection has room for them.
    private func pour() {
        guard var receiving, case .events(var cursor) = receiving.mode else { return }
        let connection = receiving.exchange.connection
        while connection.isNearlyEmpty {
            var part = ByteBuffer()
            cursor.write(channel.output, until: Self.batch, to: &part)
            guard !part.isEmpty else { break }
            receiving.exchange.send(part)
            receiving.sentAt = now
        }
        receiving.mode = .events(cursor)
        self.receiving = receiving
        (carrier, given) = (connection, cursor.offset)
        if cursor.hasEnded {
            hasToldEnd = true
            endReceiving(200)
        } else if cursor.offset < channel.output.end {
            connection.notifyOfRoom()
        }
    }

    // MARK: Sending

    /// Takes bytes of the client's stream as soon as they fit into the window beside those that wait for the driver, and
    /// answers then.
    func send(
        _ bytes: [UInt8],
        at offset: UInt64,
        received: UInt64,
        isLast: Bool,
        _ exchange: HTTPExchange
    ) {
        guard received <= channel.output.end else {
            let sentence = "\(received) bytes are acknowledged, and \(channel.output.end) were written"
            return exchange.answer(409, sentence)
        }
        // The bytes count for the session from now on, and not for the connection too.
        exchange.connection.reportBufferedBytes()
        endSending(409, "a later request sends")
        acknowledge(before: received)
        guard !isRemoved else { return exchange.answer(404, HTTPSessions.unknown) }
        guard exchange.isOpen else { return }
        channel.arrives(bytes.count, over: exchange.number)
        channel.hasArrived()
        sending = Sending(exchange: exchange, piece: .init(bytes: bytes, offset: offset, isLast: isLast))
        sessions.waiting[exchange.number] = self
        takePiece()
        endIfDone()
        reportMemory()
    }

    /// A part of a request that sends has come over a connection.
    func arrives(_ count: Int, over connection: UInt64) { channel.arrives(count, over: connection) }

    /// The driver has read bytes.
    func inputTaken() {
        takePiece()
    }

    /// Takes the bytes of the request that sends, and answers it, as soon as there is room.
    private func takePiece() {
        guard let piece = sending?.piece, hasRoom(for: piece) else { return }
        sending?.piece = nil
        switch channel.take(piece.bytes, at: piece.offset, isLast: piece.isLast) {
        case .taken: endSending(204)
        case .gap(let expected):
            endSending(409, "the bytes from \(expected) to \(piece.offset) are missing")
        case .beyondEnd(let end):
            endSending(409, "the stream ends at \(end)")
        }
    }

    /// Whether what the driver has not read stays within the window. So a session keeps two windows of input at most: this
    /// one, and the piece that waits.
    private func hasRoom(for piece: Sending.Piece) -> Bool {
        channel.input.count + piece.bytes.count <= limits.window || channel.input.count == 0
    }

    /// Answers the request that sends.
    private func endSending(_ status: Int, _ sentence: String = "") {
        guard let ended = sending.take() else { return }
        sessions.waiting[ended.exchange.number] = nil
        heardAt = now
        ended.exchange.answer(status, sentence)
    }

    private func acknowledge(before offset: UInt64) {
        guard case .taken(1...) = channel.acknowledge(before: offset) else { return }
        // What the driver could not write before belongs into the answer to this request.
        driver?.flushIfRequested()
        reportMemory()
    }

    // MARK: The end

    /// A connection with a request of this session has ended. The client sends the request again.
    func connectionEnded(_ number: UInt64) {
        if let ended = receiving, ended.exchange.number == number {
            if case .longPoll(_, let timer) = ended.mode { sessions.loop.cancel(timer: timer) }
            receiving = nil
        }
        if sending?.exchange.number == number { sending = nil }
        reportMemory()
    }

    /// The driver has closed the channel.
    func channelClosed() {
        switch channel.ending {
        case .aborted:
            endReceiving(404, HTTPSessions.unknown)
            endSending(404, HTTPSessions.unknown)
        case .closed:
            outputChanged()
            takePiece()
        case nil: break
        }
    }

    /// The driver has ended. Returns whether the client may still fetch what was written.
    func driverClosed() -> Bool {
        driver = nil
        guard channel.ending == .closed, !isDone else { return false }
        reportMemory()
        return true
    }

    /// Whether the client needs nothing more: it has ended its stream and has all of this one, or was told of the end.
    private var isDone: Bool { channel.output.count == 0 && (channel.input.isEnded || hasToldEnd) && receiving == nil }

    private func endIfDone() {
        if driver == nil, isDone { sessions.remove(self) }
    }

    /// Whether the session was removed. A limit on memory can do so while it handles a request.
    private var isRemoved: Bool { channel.session == nil }

    /// Ends the requests that wait, because the session was removed.
    func removed() {
        endReceiving(404, HTTPSessions.unknown)
        endSending(404, HTTPSessions.unknown)
        channel.session = nil
        sessions.memoryChanged(by: -leftMemory)
        leftMemory = 0
    }

    /// Reports the memory of the session. The driver counts it as long as there is one.
    private func reportMemory() {
        if let driver { return driver.reportBufferedBytes() }
        let held = isRemoved ? 0 : channel.bufferedBytes
        guard held != leftMemory else { return }
        let change = held - leftMemory
        leftMemory = held
        sessions.memoryChanged(by: change)
    }

    // MARK: The clock

    /// Keeps an event stream alive, and ends the session if the client has gone, or takes nothing of what waits for it.
    ///
    /// - Parameter commentAfter: How long an event stream may have been silent, in nanoseconds.
    func check(commentAfter: Int64) {
        if var receiving, case .events = receiving.mode {
            let connection = receiving.exchange.connection
            // A client that takes events makes no requests meanwhile.
            let acknowledged = connection.channel.bytesAcknowledged
            if acknowledged > receiving.acknowledged { heardAt = now }
            receiving.acknowledged = acknowledged
            if now - receiving.sentAt >= commentAfter, connection.isNearlyEmpty {
                var comment = ByteBuffer()
                EventStreamWriter.comment("", to: &comment)
                receiving.exchange.send(comment)
                receiving.sentAt = now
            }
            self.receiving = receiving
        }
        // While the process was stopped, requests may have come that were not read yet.
        let wasAwake = sessions.continuedAt <= now - stallTimeout.wholeNanoseconds
        if wasAwake, driver?.endIfStalled(stallTimeout) == true { return }
        // A poll that is held has a limit of its own.
        if case .longPoll = receiving?.mode { return }
        guard now - max(heardAt, sessions.continuedAt) >= timeout else { return }
        guard let driver else { return sessions.remove(self) }
        let sentence = "no request has come from the client in \(Duration.nanoseconds(timeout))"
        driver.abandonAtOnce(TransportError(.keepaliveTimeout, .open, sentence))
    }
}
