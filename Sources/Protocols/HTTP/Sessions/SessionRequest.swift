import TransportAPI

/// What a request for a session over HTTP asks for (Docs/reference/wire-formats.md, "Messages over HTTP"). Its parameters
/// are in the query, because a browser's EventSource can set no headers.
package enum SessionRequest: Sendable, Hashable {
    /// How the server gives out its stream.
    package enum Delivery: String, Sendable, Hashable, CaseIterable {
        /// As events in one response that does not end.
        case events = "sse"
        /// In a response as soon as there are bytes.
        case longPoll = "long-poll"
        /// In a response at once, which may be empty.
        case poll
    }

    /// Open a session. A client that polls says how long it waits in between.
    case open(interval: Duration)
    /// Give out the server's stream from an offset on. The client has all before it.
    case receive(SessionToken?, Delivery, from: UInt64)
    /// Take bytes of the client's stream from an offset on. The client has the bytes of the server before the other one.
    case send(SessionToken?, at: UInt64, received: UInt64, isLast: Bool)

    /// The longest interval of a client that polls.
    package static let longestInterval = Duration.seconds(600)

    /// Reads the parameters. A token that is malformed becomes `nil`: no session has it.
    ///
    /// - Throws: the refusal with status 405 for another method than that of the request, and 400 for wrong parameters.
    package init(_ request: HTTPRequest) throws(HTTPRefusal) {
        guard let query = FormQuery(request.query) else { throw Self.bad("the query has too many items") }
        func number(_ name: String) throws(HTTPRefusal) -> UInt64 {
            guard let value = query.number(name) else { throw Self.bad("the parameter \(name) is not one number") }
            return value
        }
        func has(_ name: String) -> Bool { query.items.contains { $0.name == name } }
        let token = query["im-session"]
        if has("im-open") {
            guard !has("im-session"), query["im-open"] == "1" else {
                throw Self.bad("a session is opened by im-open=1 and without im-session, because the server chooses it")
            }
            try Self.require("POST", request)
            guard request.body.isEmpty else { throw Self.bad("the request that opens a session has a body") }
            let interval = has("im-interval") ? try number("im-interval") : 0
            guard interval <= Self.longestInterval.wholeNanoseconds / 1_000_000 else {
                throw Self.bad("im-interval is more than \(Self.longestInterval)")
            }
            self = .open(interval: .milliseconds(Int64(interval)))
        } else if let token {
            if has("im-receive") {
                try Self.require("GET", request)
                guard let delivery = query["im-receive"].flatMap({ Delivery(rawValue: $0) }) else {
                    throw Self.bad("im-receive is none of sse, long-poll and poll")
                }
                let resumed = try Self.lastEvent(request)
                let offset = if let resumed { resumed } else { try number("im-from") }
                self = .receive(SessionToken(token), delivery, from: offset)
            } else {
                try Self.require("POST", request)
                let isLast = has("im-end")
                guard !isLast || query["im-end"] == "1" else { throw Self.bad("im-end is not 1") }
                let (at, received) = (try number("im-at"), try number("im-received"))
                self = .send(SessionToken(token), at: at, received: received, isLast: isLast)
            }
        } else {
            throw Self.bad("the query has neither im-open nor one im-session")
        }
    }

    /// The offset in Last-Event-ID, which a browser sends when it resumes an event stream; `nil` without the header.
    private static func lastEvent(_ request: HTTPRequest) throws(HTTPRefusal) -> UInt64? {
        let values = request.headers.values("Last-Event-ID")
        guard let value = values.first else { return nil }
        guard values.count == 1, !value.isEmpty, value.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }),
            let offset = UInt64(value)
        else { throw bad("Last-Event-ID is not one number") }
        return offset
    }

    private static func require(_ method: String, _ request: HTTPRequest) throws(HTTPRefusal) {
        guard request.method != method else { return }
        throw HTTPRefusal(
            ServerHandshake.Refusal(
                status: 405,
                reason: "the method of this request is not \(method)",
                headers: [HTTPHeader(parsed: "Allow", "\(method), OPTIONS")],
                body: "the method of this request is \(method)\n"
            )
        )
    }

    private static func bad(_ reason: String) -> HTTPRefusal {
        HTTPRefusal(ServerHandshake.Refusal(status: 400, reason: reason, body: "\(reason)\n"))
    }
}
