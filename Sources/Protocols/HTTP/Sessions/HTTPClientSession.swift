import Primitives
import TransportAPI

/// The client's side of one connection over HTTP, as a value: which requests to make when, what the answers mean, and what
/// to repeat after a request has failed. Docs/reference/wire-formats.md describes the requests.
///
/// There are two lanes. Each has at most one request in progress, so that both directions work at the same time. Bytes are
/// numbered in each direction, so a repeated request neither loses nor doubles any.
package struct HTTPClientSession: ~Copyable {
    /// How the client gets the bytes of the server.
    package enum Mode: Sendable, Hashable {
        /// One answer that does not end, of server-sent events.
        case eventStream
        /// Requests that the server answers once it has something.
        case longPoll
        /// Requests at this interval, in nanoseconds.
        case poll(Int64)
    }

    /// A lane of requests.
    package enum Lane: Sendable, Hashable, CaseIterable {
        /// Requests that bring bytes of the server.
        case receive
        /// Requests that bring bytes to the server.
        case send
    }

    /// What the server has said about the session, and the client's limits.
    package struct Terms: Sendable, Hashable {
        /// Names the session in each request. Whoever knows it can speak for the client.
        @Secret package var token: String
        /// How many bytes of the server may be unacknowledged, and how many bytes a request may bring.
        package var window: Int
        /// How long the server holds a request that waits for bytes, in nanoseconds.
        package var hold: Int64
        /// How the client gets the bytes of the server.
        package var mode: Mode
        /// How long one lane may fail before the connection ends, in nanoseconds.
        package var patience: Int64
        /// How long the first byte of an event stream may take, in nanoseconds. After that, a proxy seems to collect the
        /// answer, and the client polls.
        package var firstByte: Int64

        /// Creates terms from their parts.
        package init(
            token: String,
            window: Int,
            hold: Int64,
            mode: Mode,
            patience: Int64 = 15_000_000_000,
            firstByte: Int64 = 2_000_000_000
        ) {
            (self.window, self.hold, self.mode) = (window, hold, mode)
            (self.patience, self.firstByte) = (patience, firstByte)
            self.token = token
        }

        /// Reads what a server says about a session that it has opened: the items `session`, `window` and `hold`.
        ///
        /// - Parameters:
        ///   - answer: the body of its answer.
        ///   - largestWindow: the most bytes that the client is willing to keep, whatever the server's window is.
        /// - Returns: `nil` if it is something else.
        package init?(answer: [UInt8], largestWindow: Int, mode: Mode, patience: Int64) {
            guard let items = FormQuery(answer), let token = items["session"], Self.isToken(token),
                let window = items.number("window"), let hold = items.number("hold"), (1...1 << 30).contains(window),
                (1...600_000).contains(hold)
            else { return nil }
            self.init(
                token: token,
                window: Int(min(window, UInt64(max(largestWindow, 1)))),
                hold: Int64(hold) * 1_000_000,
                mode: mode,
                patience: patience
            )
        }

        /// Whether a text has only characters of base64url, which stand for themselves in a query.
        private static func isToken(_ text: String) -> Bool {
            (16...128).contains(text.utf8.count)
                && text.utf8.allSatisfy { byte in
                    switch byte {
                    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                        true
                    default: false
                    }
                }
        }
    }

    /// A request to make.
    package struct Request: Sendable, Hashable {
        /// GET or POST.
        package var method: String
        /// The items of its query.
        @Secret package var query: String
        /// The body; empty for GET.
        package var body: [UInt8]
        /// The media type that it accepts; `nil` for any.
        package var accept: String?

        /// Creates a request from its parts.
        package init(method: String, query: String, body: [UInt8], accept: String?) {
            (self.method, self.body, self.accept) = (method, body, accept)
            self.query = query
        }
    }

    /// The state of a lane.
    private struct LaneState {
        /// When the request in progress began, in nanoseconds; `nil` if none is in progress.
        var began: Int64?
        /// When something of its answer last arrived, or some of its bytes left.
        var moved: Int64 = 0
        /// The status of its answer; `nil` before the head has arrived.
        var status: Int?
        /// Whether bytes of its body have arrived.
        var hasBody = false
        /// Before this time no other request begins.
        var notBefore: Int64 = .min
        /// Since when requests of this lane fail; `nil` after one that has not.
        var brokenSince: Int64?
        /// How many have failed in a row.
        var failures = 0
    }

    /// What the request in progress brings to the server.
    private struct Upload {
        /// How many bytes of the output it has.
        let count: Int
        /// Up to which offset it confirms the server's bytes.
        let received: UInt64
        /// Whether it says that nothing follows.
        let isLast: Bool
    }

    /// Whether bytes for the server may follow.
    private enum OutputEnd {
        case open
        /// Nothing follows, and the server may not know it.
        case unconfirmed
        /// The server knows that nothing follows.
        case confirmed
    }

    /// How long an answer may be silent, in nanoseconds.
    private static let silence: Int64 = 15_000_000_000
    /// The same for a request that the server holds while it waits for a confirmation, in nanoseconds.
    private static let silenceWhenOwing: Int64 = 3_000_000_000
    /// How long a poll must have been held to show that the path works, in nanoseconds.
    private static let longHeld: Int64 = 5_000_000_000
    /// The least time between two requests that bring nothing, in nanoseconds.
    private static let leastInterval: Int64 = 500_000_000
    /// How many bytes one request brings at most.
    package static let largestBody = 64 << 10

    package let terms: Terms
    /// The current mode, which may be another one than that of the terms.
    package private(set) var mode: Mode
    private var receiving = LaneState()
    private var sending = LaneState()
    private subscript(lane: Lane) -> LaneState {
        get { lane == .receive ? receiving : sending }
        set { if lane == .receive { receiving = newValue } else { sending = newValue } }
    }

    /// Bytes of the server that the reader has not taken.
    private var input = ByteBuffer()
    /// The offset of the next byte that the server sends.
    private var received: UInt64 = 0
    /// Up to which offset the server knows that its bytes have arrived.
    private var told: UInt64 = 0
    private var events = Self.newReader

    /// Bytes for the server that it has not confirmed.
    private var output = ByteBuffer()
    /// The offset of the first of them.
    private var sent: UInt64 = 0
    private var outputEnd = OutputEnd.open
    /// The content of the request in progress; `nil` if none is.
    private var upload: Upload?

    /// Whether the server has ended its stream. What has arrived before can still be read.
    package private(set) var hasEnded = false

    /// Creates the session that a server has opened.
    package init(_ terms: Terms) {
        self.terms = terms
        mode = terms.mode
    }

    private static var newReader: EventStreamReader {
        EventStreamReader(maximumLine: StreamEvent.longestLine, maximumEvent: StreamEvent.largestText)
    }

    // MARK: The bytes

    /// Takes as many of the bytes as there is room for, and returns their number.
    package mutating func append(_ bytes: UnsafeRawBufferPointer) -> Int {
        let count = max(0, min(bytes.count, terms.window - output.count))
        output.append(contentsOf: UnsafeRawBufferPointer(rebasing: bytes[..<count]))
        return count
    }

    /// Notes that no more bytes for the server follow.
    package mutating func finish() {
        if outputEnd == .open { outputEnd = .unconfirmed }
    }

    /// Whether there is room for bytes for the server.
    package var hasRoom: Bool { output.count < terms.window }
    /// How many bytes the server has not confirmed.
    package var unconfirmedBytes: Int { output.count }
    /// Whether bytes, or the end of them, have not been confirmed.
    package var holdsOutput: Bool { !output.isEmpty || outputEnd == .unconfirmed }
    /// How many bytes of the server wait for the reader.
    package var unreadBytes: Int { input.count }
    /// How much memory the session holds.
    package var bufferedBytes: Int { input.capacity + output.capacity + events.bufferedBytes }
    /// Whether so much waits for the reader that the answer in progress must not be read.
    package var isFull: Bool { input.count >= terms.window }

    /// Moves bytes of the server to `target`, and returns their number.
    package mutating func read(into target: UnsafeMutableRawBufferPointer) -> Int {
        let count = input.withUnsafeReadableBytes { bytes in
            let count = min(bytes.count, target.count)
            target.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[..<count]))
            return count
        }
        input.consume(count)
        if input.isEmpty { input = ByteBuffer() }
        return count
    }

    // MARK: Requests

    /// Returns whether a request is to be made.
    package func wants(_ lane: Lane, at now: Int64) -> Bool {
        let state = self[lane]
        guard state.began == nil, state.notBefore <= now else { return false }
        switch lane {
        case .receive: return !hasEnded && !isFull
        case .send: return hasToSend
        }
    }

    private var hasToSend: Bool {
        holdsOutput || !hasEnded && mustTell
    }

    /// Whether so much has arrived that the server must learn of it. Requests of a poll tell it anyway.
    private var mustTell: Bool { mode == .eventStream && received - told >= UInt64(max(1, terms.window / 2)) }

    /// Whether the server can send nothing more until it learns what has arrived, although a request is in progress. It may
    /// hold that request because its app does not read while it waits for room to write.
    private var owesConfirmation: Bool {
        mode == .eventStream && received - max(told, upload?.received ?? 0) >= UInt64(terms.window)
    }

    /// Begins a request. Call it if one is wanted and there is a connection for it.
    package mutating func begin(_ lane: Lane, at now: Int64) -> Request {
        switch lane {
        case .receive:
            (receiving.began, receiving.moved, receiving.status, receiving.hasBody) = (now, now, nil, false)
            events = Self.newReader
            told = received
            let kind =
                switch mode {
                case .eventStream: "sse"
                case .longPoll: "long-poll"
                case .poll: "poll"
                }
            return Request(
                method: "GET",
                query: "im-session=\(terms.token)&im-receive=\(kind)&im-from=\(received)",
                body: [],
                accept: mode == .eventStream ? "text/event-stream" : nil
            )
        case .send:
            (sending.began, sending.moved, sending.status) = (now, now, nil)
            let count = min(output.count, Self.largestBody, terms.window)
            let isLast = outputEnd == .unconfirmed && count == output.count
            upload = Upload(count: count, received: received, isLast: isLast)
            return Request(
                method: "POST",
                query: "im-session=\(terms.token)&im-at=\(sent)&im-received=\(received)\(isLast ? "&im-end=1" : "")",
                body: output.bytes(at: 0, count: count) ?? [],
                accept: nil
            )
        }
    }

    /// Notes that bytes of the request or of its answer have moved.
    package mutating func moved(_ lane: Lane, at now: Int64) {
        self[lane].moved = now
    }

    // MARK: Answers

    /// Handles the head of an answer.
    ///
    /// - Parameter type: The media type, in lower case and without parameters.
    /// - Throws: The error that ends the connection, or one without which the request can be repeated (``failed(_:_:at:)``).
    package mutating func answered(
        _ lane: Lane,
        _ status: Int,
        type: String,
        at now: Int64
    ) throws(HTTPSessionFailure) {
        moved(lane, at: now)
        self[lane].status = status
        switch (lane, status) {
        case (.receive, 200):
            guard type == (mode == .eventStream ? "text/event-stream" : "application/octet-stream") else {
                throw .passing("the answer is not of the media type that was requested")
            }
        case (.receive, 204), (.send, 204): break
        case (.receive, 410): hasEnded = true
        // The session ends at the server once it has ended its stream.
        case (.send, 404), (.send, 410):
            guard hasEnded else { throw .final(Self.unknown) }
        case (.receive, 404): throw .final(Self.unknown)
        case (_, 401), (_, 403): throw .final(.httpStatus(status).inPhase(.open))
        // A request that was repeated may come first, so this one may be too late and not wrong.
        case (_, 409): throw .passing("the server has other bytes of the stream: HTTP 409")
        case (_, 413):
            throw .final(TransportError(.messageTooLarge, .open, "the request is too large for the server: HTTP 413"))
        default: throw .passing("the answer has the status \(status)")
        }
    }

    private static var unknown: TransportError {
        TransportError(.connectionLost, .open, "the server does not know the session any more: HTTP 404")
    }

    /// Handles bytes of the body of an answer.
    package mutating func take(_ bytes: [UInt8], on lane: Lane, at now: Int64) throws(HTTPSessionFailure) {
        moved(lane, at: now)
        guard lane == .receive, receiving.status == 200, !hasEnded else { return }
        receiving.hasBody = true
        succeeded(.receive)
        guard mode == .eventStream else {
            received += UInt64(bytes.count)
            return input.append(contentsOf: bytes)
        }
        events.append(bytes)
        do throws(HTTPMessageError) {
            while !hasEnded, let event = try events.next() {
                guard let part = StreamEvent(event) else {
                    guard ["message", "bytes", "end"].contains(event.type) else { continue }
                    throw .malformed("an event of type \(event.type) cannot be read")
                }
                try advance(by: part.count, to: event.id)
                part.append(to: &input)
                if case .end = part { hasEnded = true }
            }
        } catch {
            // Something on the path changes the events. Polling needs none.
            mode = .longPoll
            throw .passing("the event stream is malformed: \(error.reason)")
        }
    }

    private mutating func advance(by count: Int, to id: String) throws(HTTPMessageError) {
        guard UInt64(id) == received + UInt64(count) else {
            throw .malformed(
                "an event has the id '\(String(excerptOf: id.utf8))', where \(received + UInt64(count)) is next"
            )
        }
        received += UInt64(count)
    }

    /// Handles the end of an answer.
    package mutating func completed(_ lane: Lane, at now: Int64) {
        switch lane {
        case .receive:
            let (began, hadBody) = (receiving.began ?? now, receiving.hasBody)
            receiving.began = nil
            succeeded(.receive)
            switch mode {
            case .eventStream where !hadBody:
                mode = .longPoll
                wait(.receive, at: now)
            case .longPoll where hadBody: receiving.notBefore = now
            case .eventStream, .longPoll: receiving.notBefore = max(now, began + Self.leastInterval)
            case .poll(let interval):
                receiving.notBefore = outputEnd == .confirmed ? max(now, began + Self.leastInterval) : began + interval
            }
        case .send:
            sending.began = nil
            succeeded(.send)
            guard let upload = upload.take() else { return }
            output.consume(upload.count)
            sent += UInt64(upload.count)
            told = max(told, upload.received)
            if upload.isLast {
                outputEnd = .confirmed
                // Only the end of the server's stream is awaited now.
                if case .poll = mode, receiving.failures == 0 { receiving.notBefore = min(receiving.notBefore, now) }
            }
            if output.isEmpty { output = ByteBuffer() }
        }
    }

    private mutating func succeeded(_ lane: Lane) {
        (self[lane].brokenSince, self[lane].failures) = (nil, 0)
    }

    // MARK: Failures

    /// Handles the failure of a request, or of a connection for one.
    ///
    /// - Parameters:
    ///   - isStale: Whether the connection has carried a request before and nothing of the answer has arrived. The server may
    ///     have ended it while it was idle, so another one is tried at once.
    /// - Returns: The error that ends the connection; `nil` if the request is to be repeated.
    package mutating func failed(_ lane: Lane, _ reason: String, isStale: Bool = false, at now: Int64)
        -> TransportError?
    {
        // A request that was held shows that the path works, whatever has ended it.
        if lane == .receive, mode == .longPoll, let began = receiving.began, now - began >= Self.longHeld,
            now - began < terms.hold
        {
            receiving.brokenSince = nil
        }
        if lane == .receive {
            receiving.began = nil
        } else {
            (sending.began, upload) = (nil, nil)
        }
        if hasEnded, lane == .receive || output.isEmpty {
            if lane == .send { wait(.send, at: now) }
            return nil
        }
        // A connection that was opened ahead of the first message is not missed.
        if lane == .send, !hasToSend { return nil }
        let since = self[lane].brokenSince ?? now
        self[lane].brokenSince = since
        guard now - since < terms.patience else {
            let seconds = (now - since) / 1_000_000_000
            return TransportError(.connectionLost, .open, "requests over HTTP have failed for \(seconds) s: \(reason)")
        }
        if !isStale { wait(lane, at: now) }
        return nil
    }

    /// Lets a lane pause: 50 ms after the first failure, doubled up to 2 s.
    private mutating func wait(_ lane: Lane, at now: Int64) {
        let pause: Int64 = min(2_000_000_000, 50_000_000 << Int64(min(self[lane].failures, 6)))
        self[lane].notBefore = now + pause
        self[lane].failures += 1
    }

    // MARK: Time

    /// When the lane is late, or wants its next request; `nil` if nothing is due.
    package func deadline(_ lane: Lane) -> Int64? {
        let state = self[lane]
        guard let began = state.began else {
            let isWanted = lane == .receive ? !hasEnded && !isFull : hasToSend
            return isWanted ? state.notBefore : nil
        }
        switch (lane, mode) {
        // The repeated request brings the confirmation.
        case (.send, _): return state.moved + (owesConfirmation ? Self.silenceWhenOwing : Self.silence)
        // An answer that is not read is not silent.
        case (.receive, _) where isFull: return nil
        case (.receive, .eventStream):
            if !state.hasBody { return began + terms.firstByte }
            return state.moved + 2 * Self.silence + Self.silence / 2
        case (.receive, .longPoll): return state.moved + terms.hold + Self.silence
        case (.receive, .poll): return state.moved + Self.silence
        }
    }

    /// Returns the lanes whose request has taken too long, and the reason. Each is to be aborted, and to be reported as
    /// failed. A late event stream is replaced by polling.
    package mutating func late(at now: Int64) -> [(lane: Lane, reason: String)] {
        var late: [(lane: Lane, reason: String)] = []
        if receiving.began != nil, let deadline = deadline(.receive), deadline <= now {
            if mode == .eventStream, !receiving.hasBody {
                mode = .longPoll
                late.append((.receive, "no byte of the event stream came in time; a proxy may collect answers"))
                // It is no failure of the path.
                receiving.brokenSince = receiving.brokenSince ?? now
            } else {
                late.append((.receive, "the server was silent for too long"))
            }
        }
        if sending.began != nil, let deadline = deadline(.send), deadline <= now {
            // The server may hold it while its app does not read. A broken path shows in the other lane too.
            if receiving.brokenSince == nil { sending.brokenSince = nil }
            late.append((.send, "the server did not answer a request in time"))
        }
        return late
    }
}

/// Why a request over HTTP has failed.
package enum HTTPSessionFailure: Error, Sendable, Hashable {
    /// The connection cannot go on.
    case final(TransportError)
    /// The request can be repeated. The text says what was wrong.
    case passing(String)
}

extension TransportError {
    fileprivate func inPhase(_ phase: Phase) -> TransportError {
        var error = self
        error.phase = phase
        return error
    }
}
