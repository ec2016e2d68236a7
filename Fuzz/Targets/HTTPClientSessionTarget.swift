import TransportAPI

@testable import Protocols

/// Runs a client's session against any server, or against one that does its best behind a path that loses requests and
/// answers.
func fuzzHTTPClientSession(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let isAnyServer = input.flag()
    let terms = input.sessionTerms(patience: isAnyServer ? 15_000_000_000 : .max / 4)
    if isAnyServer { try meetAnyServer(terms, &input) } else { try meetFaultyPath(terms, &input) }
}

extension FuzzInput {
    fileprivate mutating func sessionTerms(patience: Int64) -> HTTPClientSession.Terms {
        var random = RandomSource.seeded(7)
        return HTTPClientSession.Terms(
            token: SessionToken(&random).text,
            window: choice(of: [100, 1, 2, 7, 3000]),
            hold: 25_000_000_000,
            mode: choice(of: [.eventStream, .longPoll, .poll(5_000_000_000)]),
            patience: patience
        )
    }
}

/// Answers requests with anything, in any order that a channel can report.
private func meetAnyServer(_ terms: HTTPClientSession.Terms, _ input: inout FuzzInput) throws {
    var client = SessionClient(terms)
    while client.error == nil, let what = input.next() {
        let argument = what >> 4
        let lane: HTTPClientSession.Lane = argument & 1 == 0 ? .receive : .send
        switch what & 15 {
        case 0, 1, 2: _ = try client.begin(lane)
        case 3, 4:
            let statuses = [204, 200, 200, 410, 204, 404, 409, 502, 401]
            let status = statuses[Int(argument >> 1) % statuses.count]
            try client.answer(lane, status, type: argument == 15 ? "text/html" : nil)
        case 5: try client.take(input.record(), on: lane)
        case 6, 13:
            let text = what & 15 == 6
            var part = StreamEvent.bytes(input.take(Int(argument)))
            if text { part = .text(input.take(Int(argument)).filter { $0 > 0x0d }) }
            // One offset in sixteen is wrong.
            try client.take(part, skew: argument == 15 ? 1 : 0)
        case 7: try client.complete(lane)
        case 8: try client.fail(lane, isStale: argument & 2 != 0)
        case 9: try client.append(input.record())
        case 10: try client.read(argument == 15 ? .max : Int(argument))
        case 11: if argument == 0 { try client.finish() }
        case 12: try client.wait(until: client.now + Int64(argument + 1) * 700_000_000)
        case 14: if let deadline = client.deadline { try client.wait(until: deadline) }
        default: try client.take(.end, skew: argument == 15 ? 1 : 0)
        }
    }
}

/// A session, driven as its channel drives it. What it requests is checked against what was written and read.
private struct SessionClient: ~Copyable {
    private(set) var session: HTTPClientSession
    private(set) var now: Int64 = 0
    /// The bytes that the app has written, and those that it has read.
    private(set) var written: [UInt8] = []
    private(set) var readBytes: [UInt8] = []
    /// The requests in progress, and the statuses of their answers.
    private(set) var requests: [HTTPClientSession.Lane: HTTPClientSession.Request] = [:]
    private(set) var statuses: [HTTPClientSession.Lane: Int] = [:]
    private(set) var error: TransportError?
    /// How many bytes of the app the server has confirmed.
    private var confirmed = 0
    private(set) var isFinished = false
    private var isEndConfirmed = false
    /// What the server has sent, as far as it is known: not if anything else than whole events came over an event stream.
    private var sent: [UInt8]? = []
    private var hasEnded = false
    /// How many bytes of the stream had come before the request that receives, and the size of its answer so far.
    private var (start, taken) = (0, 0)
    /// The size of the largest answer so far.
    private var largestAnswer = 1

    init(_ terms: HTTPClientSession.Terms) {
        session = HTTPClientSession(terms)
    }

    /// How many bytes of the server's stream the session has taken.
    var received: Int { readBytes.count + session.unreadBytes }

    /// When the session wants to be called again.
    var deadline: Int64? {
        var earliest: Int64?
        for lane in HTTPClientSession.Lane.allCases {
            if let deadline = session.deadline(lane) { earliest = min(earliest ?? .max, deadline) }
        }
        return earliest
    }

    // MARK: The app

    mutating func append(_ bytes: [UInt8]) throws {
        guard !isFinished else { return }
        let count = bytes.withUnsafeBytes { session.append($0) }
        written += bytes.prefix(count)
        try ensure(count == bytes.count || !session.hasRoom, "\(count) of \(bytes.count) bytes are taken, with room")
        try check()
    }

    mutating func finish() throws {
        isFinished = true
        session.finish()
        try check()
    }

    mutating func read(_ most: Int) throws {
        var room = [UInt8](repeating: 0, count: min(most, session.unreadBytes + 1))
        let count = room.withUnsafeMutableBytes { session.read(into: $0) }
        readBytes += room.prefix(count)
        if let sent { try ensure(sent.starts(with: readBytes), "\(readBytes) are read of \(sent)") }
        try check()
    }

    // MARK: Requests

    /// Makes a request if one is wanted.
    mutating func begin(_ lane: HTTPClientSession.Lane) throws -> HTTPClientSession.Request? {
        guard session.wants(lane, at: now) else { return nil }
        let request = session.begin(lane, at: now)
        guard let query = FormQuery(request.query) else { throw FuzzFailure(description: request.query) }
        try ensure(query["im-session"] == session.terms.token, "another session: \(request.query)")
        switch lane {
        case .receive:
            try ensure(request.method == "GET" && request.body.isEmpty, "\(request)")
            try ensure(query.number("im-from") == UInt64(received), "\(request.query) after \(received) bytes")
            (start, taken) = (received, 0)
        case .send:
            let (end, isLast) = (confirmed + request.body.count, query["im-end"] == "1")
            try ensure(request.method == "POST" && request.body.count <= session.terms.window, "\(request)")
            try ensure(query.number("im-at") == UInt64(confirmed), "\(request.query) after \(confirmed) bytes")
            try ensure(query.number("im-received") == UInt64(received), "\(request.query) after \(received) bytes")
            try ensure(end <= written.count && Array(written[confirmed..<end]) == request.body, "\(request.body)")
            let mayEnd = isFinished && end == written.count
            try ensure(isLast ? mayEnd : !mayEnd || isEndConfirmed, "\(request.query) of \(written.count) bytes")
        }
        (requests[lane], statuses[lane]) = (request, nil)
        try check()
        return request
    }

    /// - Parameter type: the media type; `nil` for the one that was requested.
    mutating func answer(_ lane: HTTPClientSession.Lane, _ status: Int, type: String? = nil) throws {
        guard let request = requests[lane], statuses[lane] == nil else { return }
        statuses[lane] = status
        do throws(HTTPSessionFailure) {
            try session.answered(lane, status, type: type ?? request.accept ?? "application/octet-stream", at: now)
        } catch {
            try handle(error, lane)
        }
        try check()
    }

    mutating func take(_ bytes: [UInt8], on lane: HTTPClientSession.Lane) throws {
        let isStream = lane == .receive && statuses[lane] == 200 && session.mode == .eventStream
        try take(bytes, on: lane, standingFor: isStream ? nil : bytes)
    }

    /// Takes an event whose id is wrong by this much.
    mutating func take(_ event: StreamEvent, skew: Int) throws {
        guard session.mode == .eventStream, canTake(.receive), statuses[.receive] == 200 else { return }
        var output = ByteBuffer()
        var stream = ByteBuffer()
        event.write(offset: UInt64(received + event.count + skew), to: &output)
        event.append(to: &stream)
        let bytes = stream.bytes(at: 0, count: stream.count) ?? []
        let isRefused = skew != 0 && !hasEnded && sent != nil
        let written = output.bytes(at: 0, count: output.count) ?? []
        try take(written, on: .receive, standingFor: skew == 0 ? bytes : [])
        if isRefused { try ensure(requests[.receive] == nil, "an event of another offset is taken") }
    }

    /// Whether a channel passes bytes of an answer to the session now.
    func canTake(_ lane: HTTPClientSession.Lane) -> Bool {
        requests[lane] != nil && statuses[lane] != nil && (lane == .send || !session.isFull)
    }

    /// Takes bytes of an answer.
    ///
    /// - Parameter meaning: the bytes of the server's stream for which they stand; `nil` if that is unknown.
    mutating func take(_ bytes: [UInt8], on lane: HTTPClientSession.Lane, standingFor meaning: [UInt8]?) throws {
        guard canTake(lane) else { return }
        let before = received
        if lane == .receive {
            taken += bytes.count
            largestAnswer = max(largestAnswer, taken)
            if statuses[lane] == 200, !session.hasEnded { if let meaning { sent? += meaning } else { sent = nil } }
        }
        do throws(HTTPSessionFailure) {
            try session.take(bytes, on: lane, at: now)
        } catch {
            try handle(error, lane)
        }
        try ensure(!hasEnded || received == before, "\(received - before) bytes after the end")
        try ensure(received - start <= taken, "\(taken) bytes stand for \(received - start)")
        try check()
    }

    mutating func complete(_ lane: HTTPClientSession.Lane) throws {
        guard let request = requests[lane], statuses[lane] != nil else { return }
        if lane == .send {
            confirmed += request.body.count
            if request.query.hasSuffix("&im-end=1") { isEndConfirmed = true }
        }
        session.completed(lane, at: now)
        requests[lane] = nil
        try check()
    }

    /// Ends a request, or an attempt to connect for one.
    mutating func fail(_ lane: HTTPClientSession.Lane, isStale: Bool = false) throws {
        let isStale = isStale && requests[lane] != nil
        requests[lane] = nil
        if let error = session.failed(lane, "failed", isStale: isStale, at: now) {
            try ensure(error.code == .connectionLost && !error.reason.isEmpty, "\(error)")
            self.error = error
        } else if !isStale {
            try ensure(!session.wants(lane, at: now), "a request is repeated without a pause")
        }
        try check()
    }

    private mutating func handle(_ failure: HTTPSessionFailure, _ lane: HTTPClientSession.Lane) throws {
        switch failure {
        case .final(let error):
            requests[lane] = nil
            self.error = error
        case .passing(let reason):
            try ensure(!reason.isEmpty, "a failure without a reason")
            try fail(lane)
        }
    }

    /// Lets time pass, and aborts the requests that are late.
    mutating func wait(until time: Int64) throws {
        now = max(now, time)
        let late = session.late(at: now)
        for (lane, reason) in late where error == nil {
            try ensure(requests[lane] != nil && !reason.isEmpty, "a lane is late without a request")
            try fail(lane)
        }
        if error == nil { try ensure(session.late(at: now).isEmpty, "a request is late twice") }
    }

    // MARK: The rules

    private mutating func check() throws {
        let window = session.terms.window
        try ensure(session.unconfirmedBytes == written.count - confirmed, "\(session.unconfirmedBytes) are unconfirmed")
        try ensure(session.unconfirmedBytes <= window, "\(session.unconfirmedBytes) bytes are kept")
        try ensure(session.unreadBytes < window + largestAnswer, "\(session.unreadBytes) bytes are unread")
        try ensure(session.hasEnded || !hasEnded, "an end is taken back")
        hasEnded = session.hasEnded
        if let sent { try ensure(received <= sent.count, "\(received) bytes are taken of \(sent.count)") }
        for lane in HTTPClientSession.Lane.allCases where requests[lane] == nil && error == nil {
            // The timer is set for the deadline, so a request must be wanted then, and never without one.
            let deadline = session.deadline(lane)
            try ensure(
                session.wants(lane, at: deadline ?? .max) == (deadline != nil),
                "\(lane) is due at \(deadline ?? -1)"
            )
        }
    }
}

// MARK: A path with faults

/// Sends a stream in each direction over a path with faults, until nothing is left of the input. After that the path has
/// none, and everything must arrive.
private func meetFaultyPath(_ terms: HTTPClientSession.Terms, _ input: inout FuzzInput) throws {
    // With a small window, each byte takes a request.
    let most = 100 * terms.window
    let (upload, download) = (Array(input.framedStream().prefix(most)), Array(input.framedStream().prefix(most)))
    var client = SessionClient(terms)
    var server = SessionServer(terms, stream: download, roomy: input.flag())
    var steps = 0
    while client.error == nil, !(server.input.isFinished && client.session.hasEnded && !client.session.holdsOutput) {
        steps += 1
        try ensure(steps < 20_000, "the streams do not end")
        let before = (client.received, server.received.count, client.written.count)
        if client.written.count < upload.count {
            try client.append(Array(upload[client.written.count...]))
        } else if !client.isFinished {
            try client.finish()
        }
        try client.read(.max)
        server.work()
        var isIdle = true
        for lane in HTTPClientSession.Lane.allCases where client.error == nil {
            if try exchange(lane, &client, &server, PathFault(input.next() ?? 0)) { isIdle = false }
        }
        guard client.error == nil, isIdle, before == (client.received, server.received.count, client.written.count)
        else { continue }
        guard let next = [client.deadline, server.due].compactMap(\.self).min() else {
            throw FuzzFailure(description: "nothing is due, and the streams have not ended")
        }
        try client.wait(until: next)
    }
    try client.read(.max)
    server.work()
    // A session that has ended is forgotten, so a last request may come too late.
    try ensure(client.error == nil || server.isRemoved, "\(String(describing: client.error))")
    try ensure(client.readBytes == download, "\(client.readBytes.count) of \(download.count) bytes came to the client")
    try ensure(server.received == upload, "\(server.received.count) of \(upload.count) bytes came to the server")
}

/// What the path does to a request, or to a part of its answer.
private enum PathFault {
    case none
    /// The request does not arrive, or its answer does not.
    case requestLost, answerLost
    /// The connection breaks within the answer.
    case cut
    /// Nothing comes any more, and nothing breaks.
    case silence
    /// Something else answers.
    case otherAnswer(Int)
    /// The answer is ended early, as if it were whole.
    case ended

    init(_ byte: UInt8) {
        switch byte & 15 {
        case 1: self = .requestLost
        case 2: self = .answerLost
        case 3: self = .cut
        case 4: self = .silence
        case 5: self = .otherAnswer([200, 502, 409, 503][Int(byte >> 4) % 4])
        case 6: self = .ended
        default: self = .none
        }
    }
}

/// Makes the next step of a lane. Returns whether there was one.
private func exchange(
    _ lane: HTTPClientSession.Lane,
    _ client: inout SessionClient,
    _ server: inout SessionServer,
    _ fault: PathFault
) throws -> Bool {
    if client.requests[lane] == nil {
        server.hangUp(lane)
        guard let request = try client.begin(lane) else { return false }
        switch fault {
        case .requestLost:
            try client.fail(lane)
            return true
        case .otherAnswer(let status):
            try client.answer(lane, status, type: "text/html")
            return true
        case .silence:
            return true
        default: break
        }
        try server.handle(request, at: client.now)
        if case .answerLost = fault { try client.fail(lane) }
        return true
    }
    // The client does not read while its app does not.
    guard lane == .send || !client.session.isFull, let answer = server.answer(lane, at: client.now) else {
        return false
    }
    switch fault {
    case .silence, .requestLost: return false
    case .answerLost: try client.fail(lane)
    case .none, .cut, .ended, .otherAnswer:
        if client.statuses[lane] == nil { try client.answer(lane, answer.status) }
        var bytes = answer.body
        if case .cut = fault { bytes = Array(bytes.prefix(bytes.count / 2)) }
        let isStream = client.requests[lane]?.accept != nil
        if !bytes.isEmpty { try client.take(bytes, on: lane, standingFor: isStream ? nil : bytes) }
        if case .cut = fault { try client.fail(lane) }
        if case .ended = fault, isStream { try client.complete(lane) }
        if answer.isWhole { try client.complete(lane) }
    }
    if client.requests[lane] == nil { server.hangUp(lane) }
    return true
}

/// The streams of a server, and the requests that it has not answered.
private struct SessionServer: ~Copyable {
    struct Answer {
        var status: Int
        var body: [UInt8] = []
        var isWhole = true
    }

    private enum Receiving {
        case none
        case events(EventCursor)
        case poll(from: UInt64, until: Int64)
        case answer(Answer)
    }

    private(set) var input = ResumedInput(window: 1 << 10)
    /// The bytes that the app has read.
    private(set) var received: [UInt8] = []
    private(set) var isRemoved = false
    private var output: RetainedStream
    private var stream: ArraySlice<UInt8>
    private var receiving = Receiving.none
    private var sending: Answer?
    private let hold: Int64
    private let token: String

    /// - Parameter roomy: whether the server retains more than the client takes.
    init(_ terms: HTTPClientSession.Terms, stream: [UInt8], roomy: Bool) {
        output = RetainedStream(window: roomy ? 2 * terms.window : terms.window)
        (self.stream, hold, token) = (stream[...], terms.hold, terms.token)
    }

    /// When a poll is answered.
    var due: Int64? {
        guard case .poll(_, let time) = receiving else { return nil }
        return time
    }

    /// Lets the app read and write.
    mutating func work() {
        let count = stream.withUnsafeBytes { output.write($0) }
        stream = stream.dropFirst(count)
        if stream.isEmpty { output.finish() }
        var room = [UInt8](repeating: 0, count: input.count)
        let read = room.withUnsafeMutableBytes { input.read(into: $0) }
        received += room.prefix(read)
    }

    /// The connection of a request has ended, or is free for the next one.
    mutating func hangUp(_ lane: HTTPClientSession.Lane) {
        if lane == .receive { receiving = .none } else { sending = nil }
    }

    mutating func handle(_ request: HTTPClientSession.Request, at now: Int64) throws {
        var whole = HTTPRequest(method: request.method, path: "/", query: request.query)
        whole.body = request.body
        switch try SessionRequest(whole) {
        case .open: throw FuzzFailure(description: "a second session is opened")
        case .receive(let name, let delivery, let offset):
            guard !isRemoved else { return receiving = .answer(Answer(status: 404)) }
            try ensure(name?.text == token && output.acknowledge(before: offset) != .beyond, "\(request.query)")
            try ensure(offset == output.start, "\(offset) was requested, and is before \(output.start)")
            switch delivery {
            case .events: receiving = .events(EventCursor(output))
            case .longPoll: receiving = .poll(from: offset, until: now + hold)
            case .poll: receiving = .poll(from: offset, until: now)
            }
            if output.isEnded, offset == output.end { receiving = .answer(Answer(status: 410)) }
        case .send(let name, let offset, let received, let isLast):
            guard !isRemoved else { return sending = Answer(status: 404) }
            try ensure(name?.text == token && output.acknowledge(before: received) != .beyond, "\(request.query)")
            guard case .taken = input.take(request.body, at: offset, isLast: isLast) else {
                throw FuzzFailure(description: "\(request.query) after \(input.received) bytes")
            }
            sending = Answer(status: 204)
        }
        work()
        if input.isFinished, output.isEnded, output.count == 0, case .none = receiving { isRemoved = true }
    }

    /// Returns the next part of an answer; `nil` if there is none yet.
    mutating func answer(_ lane: HTTPClientSession.Lane, at now: Int64) -> Answer? {
        if lane == .send {
            defer { sending = nil }
            return sending
        }
        switch receiving {
        case .none: return nil
        case .answer(let answer):
            receiving = .none
            return answer
        case .events(var cursor):
            var part = ByteBuffer()
            cursor.write(output, until: 4096, to: &part)
            guard !part.isEmpty else { return nil }
            receiving = cursor.hasEnded ? .none : .events(cursor)
            let bytes = part.bytes(at: 0, count: part.count) ?? []
            return Answer(status: 200, body: bytes, isWhole: cursor.hasEnded)
        case .poll(let offset, let time):
            let bytes = output.withBytes(from: offset) { Array($0) } ?? []
            guard !bytes.isEmpty || time <= now else { return nil }
            receiving = .none
            return Answer(status: bytes.isEmpty ? 204 : 200, body: bytes)
        }
    }
}

extension FuzzInput {
    /// Up to seven messages of framed TCP: texts, and others.
    fileprivate mutating func framedStream() -> [UInt8] {
        (0..<choice() & 7).flatMap { _ -> [UInt8] in
            let choice = choice()
            let message = [UInt8](repeating: choice | 0x20, count: Int(choice) * (choice & 1 == 1 ? 20 : 1))
            let mark = choice & 0x80 == 0 ? FramedTCPCore.textBit : 0
            return withUnsafeBytes(of: (UInt32(message.count) | mark).bigEndian) { Array($0) } + message
        }
    }
}
