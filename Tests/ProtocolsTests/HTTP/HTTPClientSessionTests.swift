import Primitives
import Testing
import TransportAPI

@testable import Protocols

@Suite("The client's session over HTTP")
struct HTTPClientSessionTests {
    private static let second: Int64 = 1_000_000_000

    private static func session(
        _ mode: HTTPClientSession.Mode,
        window: Int = 1 << 16
    ) -> HTTPClientSession {
        HTTPClientSession(.init(token: "t", window: window, hold: 25 * second, mode: mode))
    }

    @Test("The answer that opens a session is read, and its window is limited by what the client keeps")
    func terms() {
        func read(_ text: String, largestWindow: Int = 1 << 20) -> HTTPClientSession.Terms? {
            .init(answer: Array(text.utf8), largestWindow: largestWindow, mode: .longPoll, patience: 5)
        }
        let token = "abcdefghijklmnop-_WXYZ"
        let answer = "session=\(token)&window=262144&hold=25000"
        let terms = HTTPClientSession.Terms(
            token: token,
            window: 262_144,
            hold: 25 * Self.second,
            mode: .longPoll,
            patience: 5
        )
        #expect(read(answer) == terms && read("x=y&\(answer)") == terms)
        #expect(read(answer, largestWindow: 1000)?.window == 1000)
        let wrong = [
            "", "<html>", "session=\(token)&window=262144", "session=\(token)&window=0&hold=1",
            "session=\(token)&window=99999999999999999999&hold=1", "session=\(token)&window=1&hold=0",
            "session=\(token)&window=1&hold=600001", "session=short&window=1&hold=1",
            "session=\(token)&session=\(token)&window=1&hold=1",
        ]
        for text in wrong { #expect(read(text) == nil) }
        // What the server says goes into the target of requests.
        for text in ["%26im-open=1", "%0d%0aHost:%20b", "%23", "%20", "%C3%A9", "="] {
            #expect(read("session=\(token)\(text)&window=1&hold=1") == nil)
        }
    }

    /// A session cannot be copied, so `#expect` cannot look into its expression.
    private func check(_ holds: Bool, at location: SourceLocation = #_sourceLocation) {
        #expect(holds, sourceLocation: location)
    }

    private static func append(_ bytes: [UInt8], to session: inout HTTPClientSession) -> Int {
        bytes.withUnsafeBytes { session.append($0) }
    }

    private static func read(_ session: inout HTTPClientSession) -> [UInt8] {
        var room = [UInt8](repeating: 0, count: 1 << 17)
        let count = room.withUnsafeMutableBytes { session.read(into: $0) }
        return Array(room[..<count])
    }

    @Test("Everything that was written while a request was in progress goes into the next one")
    func batches() throws {
        var session = Self.session(.longPoll)
        check(!session.wants(.send, at: 0) && session.wants(.receive, at: 0))
        #expect(Self.append([1], to: &session) == 1)
        let first = session.begin(.send, at: 0)
        #expect(first.method == "POST" && first.body == [1])
        #expect(first.query == "im-session=t&im-at=0&im-received=0")
        for byte in 2...4 as ClosedRange<UInt8> { _ = Self.append([byte], to: &session) }
        check(!session.wants(.send, at: 0))
        try session.answered(.send, 204, type: "application/octet-stream", at: 0)
        session.completed(.send, at: 0)
        let second = session.begin(.send, at: 0)
        #expect(second.body == [2, 3, 4] && second.query.contains("im-at=1&"))
    }

    @Test("A request that has failed is repeated from the same offset, after a pause")
    func repetition() throws {
        var session = Self.session(.longPoll)
        _ = Self.append([1, 2], to: &session)
        _ = session.begin(.send, at: 0)
        check(session.failed(.send, "reset", at: 0) == nil)
        check(!session.wants(.send, at: 0) && session.wants(.send, at: Self.second))
        _ = Self.append([3], to: &session)
        let again = session.begin(.send, at: Self.second)
        #expect(again.body == [1, 2, 3] && again.query.contains("im-at=0&"))
    }

    @Test("A connection that the server ended while it was idle costs no pause")
    func stale() {
        var session = Self.session(.longPoll)
        _ = Self.append([1], to: &session)
        _ = session.begin(.send, at: 0)
        check(session.failed(.send, "reset", isStale: true, at: 0) == nil)
        check(session.wants(.send, at: 0))
    }

    @Test("A connection for sending that fails while there is nothing to send is not missed")
    func unneeded() {
        var session = Self.session(.longPoll)
        check(session.failed(.send, "refused", at: 0) == nil)
        _ = Self.append([1], to: &session)
        check(session.wants(.send, at: 60 * Self.second))
        _ = session.begin(.send, at: 60 * Self.second)
        check(session.failed(.send, "refused", at: 60 * Self.second) == nil)
    }

    @Test("A lane that fails for longer than its patience ends the connection, and one success starts the time again")
    func patience() throws {
        var session = Self.session(.longPoll)
        _ = session.begin(.receive, at: 0)
        check(session.failed(.receive, "reset", at: 0) == nil)
        _ = session.begin(.receive, at: 14 * Self.second)
        check(session.failed(.receive, "reset", at: 14 * Self.second) == nil)
        _ = session.begin(.receive, at: 14 * Self.second + Self.second / 2)
        try session.answered(.receive, 204, type: "application/octet-stream", at: 14 * Self.second + Self.second / 2)
        session.completed(.receive, at: 14 * Self.second + Self.second / 2)
        _ = session.begin(.receive, at: 20 * Self.second)
        check(session.failed(.receive, "reset", at: 20 * Self.second) == nil)
        _ = session.begin(.receive, at: 36 * Self.second)
        let error = session.failed(.receive, "reset", at: 36 * Self.second)
        #expect(error?.code == .connectionLost && error?.reason.contains("reset") == true)
    }

    @Test("Events bring whole texts and other bytes, numbered by their end")
    func events() throws {
        var session = Self.session(.eventStream)
        let request = session.begin(.receive, at: 0)
        #expect(request.query == "im-session=t&im-receive=sse&im-from=0" && request.accept == "text/event-stream")
        try session.answered(.receive, 200, type: "text/event-stream", at: 0)
        let stream = ": stream\n\nid: 6\ndata: hi\n\nid: 8\nevent: bytes\ndata: AQI=\n\n"
        for byte in stream.utf8 { try session.take([byte], on: .receive, at: 0) }
        #expect(Self.read(&session) == [0x40, 0, 0, 2] + Array("hi".utf8) + [1, 2])
        // The stream breaks, and goes on from there.
        check(session.failed(.receive, "reset", at: 0) == nil)
        check(session.begin(.receive, at: Self.second).query.hasSuffix("im-from=8"))
        try session.answered(.receive, 200, type: "text/event-stream", at: 0)
        try session.take(Array("id: 8\nevent: end\ndata:\n\n".utf8), on: .receive, at: 0)
        check(session.hasEnded && !session.wants(.receive, at: 100 * Self.second))
    }

    @Test("An event that is missing, or comes twice, is not taken", arguments: ["id: 7", "id: 5", "id: x", "id: 0"])
    func gap(id: String) throws {
        var session = Self.session(.eventStream)
        _ = session.begin(.receive, at: 0)
        try session.answered(.receive, 200, type: "text/event-stream", at: 0)
        let event = Array("\(id)\ndata: hi\n\n".utf8)
        do throws(HTTPSessionFailure) {
            try session.take(event, on: .receive, at: 0)
            Issue.record("the event was taken")
        } catch {
            guard case .passing = error else { return check(false) }
        }
        check(session.unreadBytes == 0)
    }

    @Test("An end before which bytes are missing is not taken, and the stream is requested again from there")
    func earlyEnd() throws {
        var session = Self.session(.eventStream)
        _ = session.begin(.receive, at: 0)
        try session.answered(.receive, 200, type: "text/event-stream", at: 0)
        // Something on the path has swallowed the event before.
        do throws(HTTPSessionFailure) {
            try session.take(Array("id: 6\nevent: end\ndata:\n\n".utf8), on: .receive, at: 0)
            Issue.record("the end was taken")
        } catch {
            guard case .passing = error else { return check(false) }
        }
        check(!session.hasEnded && session.failed(.receive, "malformed", at: 0) == nil)
        check(session.begin(.receive, at: Self.second).query.hasSuffix("im-receive=long-poll&im-from=0"))
    }

    @Test("Nothing is taken after the end of the server's stream, in the same piece or in a later one")
    func afterEnd() throws {
        var session = Self.session(.eventStream)
        _ = session.begin(.receive, at: 0)
        try session.answered(.receive, 200, type: "text/event-stream", at: 0)
        let more = Array("id: 6\ndata: hi\n\n".utf8)
        try session.take(Array("id: 0\nevent: end\ndata:\n\n".utf8) + more, on: .receive, at: 0)
        try session.take(more, on: .receive, at: 0)
        check(session.hasEnded && session.unreadBytes == 0)
    }

    @Test("A stream whose first byte is late is replaced by polling, which is no failure of the network")
    func buffered() {
        var session = Self.session(.eventStream)
        _ = session.begin(.receive, at: 0)
        check(session.deadline(.receive) == 2 * Self.second)
        check(session.late(at: 2 * Self.second).map(\.lane) == [.receive])
        check(session.failed(.receive, "late", at: 2 * Self.second) == nil)
        check(session.mode == .longPoll)
        check(session.begin(.receive, at: 3 * Self.second).query.contains("im-receive=long-poll"))
    }

    @Test("A poll begins at its interval, and a long poll at once")
    func intervals() throws {
        for (mode, next) in [(HTTPClientSession.Mode.poll(5 * Self.second), 5 * Self.second), (.longPoll, Self.second)]
        {
            var session = Self.session(mode)
            _ = session.begin(.receive, at: 0)
            try session.answered(.receive, 200, type: "application/octet-stream", at: Self.second)
            try session.take([1], on: .receive, at: Self.second)
            session.completed(.receive, at: Self.second)
            check(session.wants(.receive, at: next) && !session.wants(.receive, at: next - 1))
            check(session.deadline(.receive) == next)
            check(session.begin(.receive, at: next).query.hasSuffix("im-from=1"))
        }
    }

    @Test("A reader that takes nothing stops the requests, and what was sent is limited by the window")
    func backpressure() throws {
        var session = Self.session(.longPoll, window: 8)
        check(Self.append([UInt8](repeating: 1, count: 20), to: &session) == 8 && !session.hasRoom)
        _ = session.begin(.receive, at: 0)
        try session.answered(.receive, 200, type: "application/octet-stream", at: 0)
        try session.take([UInt8](repeating: 2, count: 8), on: .receive, at: 0)
        session.completed(.receive, at: 0)
        check(session.isFull && !session.wants(.receive, at: Self.second))
        check(Self.read(&session).count == 8 && session.wants(.receive, at: Self.second))
    }

    @Test("Over a stream of events, the server learns of half a window by an empty request")
    func acknowledgement() throws {
        var session = Self.session(.eventStream, window: 8)
        _ = session.begin(.receive, at: 0)
        try session.answered(.receive, 200, type: "text/event-stream", at: 0)
        try session.take(Array("id: 3\nevent: bytes\ndata: AQIB\n\n".utf8), on: .receive, at: 0)
        check(!session.wants(.send, at: 0))
        try session.take(Array("id: 4\nevent: bytes\ndata: AQ==\n\n".utf8), on: .receive, at: 0)
        let request = session.begin(.send, at: 0)
        #expect(request.body.isEmpty && request.query.hasSuffix("im-received=4"))
        try session.answered(.send, 204, type: "application/octet-stream", at: 0)
        session.completed(.send, at: 0)
        check(!session.wants(.send, at: 0))
    }

    @Test("A request that is held while the server waits for a confirmation is repeated soon, with the confirmation")
    func owedConfirmation() throws {
        var session = Self.session(.eventStream, window: 4)
        _ = session.begin(.receive, at: 0)
        try session.answered(.receive, 200, type: "text/event-stream", at: 0)
        _ = Self.append([1, 2], to: &session)
        _ = session.begin(.send, at: 0)
        check(session.deadline(.send) == 15 * Self.second)
        try session.take(Array("id: 3\nevent: bytes\ndata: AQIB\n\n".utf8), on: .receive, at: 0)
        check(session.deadline(.send) == 15 * Self.second)
        try session.take(Array("id: 4\nevent: bytes\ndata: AQ==\n\n".utf8), on: .receive, at: 0)
        check(session.deadline(.send) == 3 * Self.second && Self.read(&session).count == 4)
        for round in 1...10 as ClosedRange<Int64> {
            let now = 20 * round * Self.second
            session.moved(.receive, at: now)
            check(session.late(at: now).map(\.lane) == [.send] && session.failed(.send, "late", at: now) == nil)
            #expect(session.begin(.send, at: now + 2 * Self.second).query.hasSuffix("im-at=0&im-received=4"))
            // It was told once, and the server holds the request for another reason now.
            check(session.deadline(.send) == now + 17 * Self.second)
        }
    }

    @Test("The end goes with the last bytes, and is confirmed")
    func end() throws {
        var session = Self.session(.longPoll)
        _ = Self.append([1], to: &session)
        session.finish()
        check(session.holdsOutput)
        check(session.begin(.send, at: 0).query.hasSuffix("&im-end=1"))
        try session.answered(.send, 204, type: "application/octet-stream", at: 0)
        session.completed(.send, at: 0)
        check(!session.holdsOutput && !session.wants(.send, at: Self.second))
    }

    @Test("A client that polls does not wait for its interval once it has ended its stream")
    func endOfPolling() throws {
        var session = Self.session(.poll(60 * Self.second))
        func poll(at now: Int64) throws {
            _ = session.begin(.receive, at: now)
            try session.answered(.receive, 204, type: "", at: now)
            session.completed(.receive, at: now)
        }
        try poll(at: 0)
        check(!session.wants(.receive, at: Self.second))
        session.finish()
        _ = session.begin(.send, at: Self.second)
        try session.answered(.send, 204, type: "", at: Self.second)
        session.completed(.send, at: Self.second)
        check(session.wants(.receive, at: Self.second))
        // Nor does it ask without a pause.
        try poll(at: Self.second)
        check(!session.wants(.receive, at: Self.second) && session.wants(.receive, at: 2 * Self.second))
        // After a failure, the pause counts.
        _ = session.begin(.receive, at: 2 * Self.second)
        check(session.failed(.receive, "reset", at: 2 * Self.second) == nil)
        check(!session.wants(.receive, at: 2 * Self.second))
    }

    @Test(
        "Answers say whether the connection can go on",
        arguments: [
            (404, TransportError.Code.connectionLost), (401, .authenticationFailed), (403, .forbidden),
        ]
    )
    func final(status: Int, code: TransportError.Code) {
        var session = Self.session(.longPoll)
        _ = session.begin(.receive, at: 0)
        do throws(HTTPSessionFailure) {
            try session.answered(.receive, status, type: "application/octet-stream", at: 0)
            Issue.record("the answer was taken")
        } catch {
            guard case .final(let error) = error else { return #expect(Bool(false), "\(error)") }
            #expect(error.code == code && error.phase == .open)
        }
    }

    @Test("Other answers are failures that may pass", arguments: [302, 400, 409, 429, 500, 502, 503, 504])
    func passing(status: Int) {
        var session = Self.session(.longPoll)
        _ = session.begin(.receive, at: 0)
        do throws(HTTPSessionFailure) {
            try session.answered(.receive, status, type: "application/octet-stream", at: 0)
            Issue.record("the answer was taken")
        } catch {
            guard case .passing = error else { return #expect(Bool(false), "\(error)") }
        }
    }

    @Test("An answer that is not of the server's type is not taken: 200 to a POST, or a page to a poll")
    func foreign() {
        var session = Self.session(.longPoll)
        _ = Self.append([1], to: &session)
        _ = session.begin(.send, at: 0)
        _ = session.begin(.receive, at: 0)
        for (lane, type) in [(HTTPClientSession.Lane.send, "application/octet-stream"), (.receive, "text/html")] {
            do throws(HTTPSessionFailure) {
                try session.answered(lane, 200, type: type, at: 0)
                Issue.record("the answer was taken")
            } catch {
                guard case .passing = error else { return check(false) }
            }
        }
        check(session.unconfirmedBytes == 1)
    }

    @Test("A server that holds a request of the client does not end the connection while its own bytes come")
    func held() {
        var session = Self.session(.longPoll)
        _ = Self.append([1], to: &session)
        for round in 0..<10 as Range<Int64> {
            let now = 20 * round * Self.second
            _ = session.begin(.send, at: now)
            check(session.late(at: now + 16 * Self.second).map(\.lane) == [.send])
            check(session.failed(.send, "late", at: now + 16 * Self.second) == nil)
        }
    }

    @Test("A silent answer is given up, but not while this side does not read")
    func silence() throws {
        var session = Self.session(.longPoll, window: 4)
        _ = session.begin(.receive, at: 0)
        check(session.late(at: 39 * Self.second).isEmpty)
        check(session.late(at: 41 * Self.second).map(\.lane) == [.receive])
        try session.answered(.receive, 200, type: "application/octet-stream", at: 0)
        try session.take([1, 2, 3, 4], on: .receive, at: 0)
        check(session.late(at: 100 * Self.second).isEmpty && session.deadline(.receive) == nil)
    }
}
