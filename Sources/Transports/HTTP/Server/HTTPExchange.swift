import Protocols
import SocketIO
import TransportAPI

/// A request of a client, and the connection on which its answer is sent. A connection carries one at a time.
struct HTTPExchange {
    let connection: ConnectionDriver
    /// The headers of every answer to this request.
    let headers: [HTTPHeader]

    /// Identifies the connection.
    var number: UInt64 { connection.number }
    /// Whether an answer still reaches the client.
    var isOpen: Bool { connection.phase == .open }

    /// Answers with a status, and a sentence for people unless it is empty.
    func answer(_ status: Int, _ sentence: String = "", _ more: [HTTPHeader] = []) {
        guard !sentence.isEmpty else { return answer(HTTPResponse(status, headers: more)) }
        let type = HTTPHeader(parsed: "Content-Type", "text/plain; charset=us-ascii")
        answer(HTTPResponse(status, headers: more + [type], body: Array("\(sentence)\n".utf8)))
    }

    /// Answers with bytes of this media type.
    func answer(_ status: Int, type: String, _ body: [UInt8]) {
        answer(HTTPResponse(status, headers: [HTTPHeader(parsed: "Content-Type", type)], body: body))
    }

    /// Answers with a whole response.
    func answer(_ response: HTTPResponse) {
        var response = response
        response.headers = headers + response.headers
        connection.withHTTPCore { (core, context) in core.answer(response, &context) }
    }

    /// Begins a stream of events.
    func beginEvents() {
        var comment = ByteBuffer()
        EventStreamWriter.comment("stream", to: &comment)
        // Reverse proxies such as nginx would collect the events otherwise.
        let more = [
            HTTPHeader(parsed: "Content-Type", "text/event-stream"), HTTPHeader(parsed: "X-Accel-Buffering", "no"),
        ]
        let body = comment.withUnsafeReadableBytes { Array($0) }
        let response = HTTPResponse(200, headers: headers + more, body: body)
        connection.withHTTPCore { (core, context) in core.beginAnswer(response, &context) }
    }

    /// Continues the answer.
    func send(_ part: borrowing ByteBuffer) {
        part.withUnsafeReadableBytes { connection.sendEncoded($0) }
    }

    /// Ends the answer that was begun.
    func end() {
        connection.withHTTPCore { (core, context) in core.endAnswer(&context) }
    }
}

extension ConnectionDriver {
    /// Calls `body` with the core, unless the connection has ended and needs no answer. The next request, which may have
    /// arrived already, is processed after other connections: it may end the wait of a third connection, and so on.
    fileprivate func withHTTPCore(_ body: (inout HTTPServerCore, inout CoreContext) -> Void) {
        guard phase == .open, var http = core as? HTTPServerCore else { return }
        enterCore()
        body(&http, &context)
        core = http
        leaveCore()
        if !reading.isPumping { deferWork() }
    }
}
