import Protocols
import TransportAPI

// The output of hostile clients over HTTP (RFC 9112; Docs/reference/wire-formats.md, "Messages over HTTP").
extension HostileScript {
    /// The scripts of a kind over HTTP, between which its clients alternate; empty if there is no such kind.
    static func http(_ kind: HostileKind) -> [HostileScript] {
        switch kind {
        case .halfOpen: [answered()]
        case .slowHeaders: [answered("GET / HTTP/1.1\r\nX: ", load: [65], pace: 100_000_000)]
        case .slowBody: [answered(opening("Content-Length: 100000\r\n"), load: [65], pace: 100_000_000)]
        case .giantLength: giantLengths
        case .chunkOverflow: chunks.map { answered(opening("Transfer-Encoding: chunked\r\n") + $0) }
        case .requestSmuggling: smuggled.map { answered($0, forbidden: "HTTP/1.1 20") }
        case .responseSplitting:
            split.map { answered(load: Array($0.utf8), pace: 10_000_000, forbidden: "\r\nX-Injected") }
        case .foreignOrigin: [answered(opening("Origin: http://evil.example\r\nConnection: close\r\n"))]
        case .tokenGuessing: [guessing]
        case .abandonedSessions: [answered(load: repeated(Array(opening().utf8)))]
        case .heldPolls:
            [
                inSession(pace: 1_000_000_000) { (token, _) in poll("long-poll", token, from: 0) },
                inSession { (token, _) in repeated(poll("long-poll", token, from: 0)) },
            ]
        case .messageFlood: [inSession(flooding)]
        case .pingFlood:
            [inSession { (token, number) in post(token, at: number * pings.count, pings) }]
        case .neverReading: [neverPolling]
        case .neverAcknowledging: [inSession(pace: 200_000_000, forgetting), deaf, deafInSession]
        default: []
        }
    }

    /// A client whose answers are looked at.
    ///
    /// - Parameter forbidden: what no answer may contain; `nil` if that does not matter.
    private static func answered(
        _ opening: String = "",
        load: [UInt8] = [],
        pace: Int64 = 0,
        forbidden: String? = nil
    ) -> HostileScript {
        var script = HostileScript(opening: Array(opening.utf8), load: load, pace: pace)
        script.readsAnswers = true
        script.forbidden = forbidden
        return script
    }

    /// A client that opens a session over its connection, and makes the loads from its token and their number. It connects
    /// again once the session has ended.
    private static func inSession(
        pace: Int64 = 0,
        _ load: @escaping @Sendable (_ token: String, _ number: Int) -> [UInt8]
    ) -> HostileScript {
        var script = answered(opening(), pace: pace)
        script.sessionLoad = load
        return script
    }

    // MARK: Requests

    /// The request that opens a session, with further headers.
    private static func opening(_ headers: String = "") -> String {
        "POST /?im-open=1 HTTP/1.1\r\nHost: localhost\r\n\(headers)\r\n"
    }

    private static func poll(_ kind: String, _ token: String, from offset: Int) -> [UInt8] {
        let query = "im-session=\(token)&im-receive=\(kind)&im-from=\(offset)"
        return Array("GET /?\(query) HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8)
    }

    /// A request that brings bytes of the client's stream. It acknowledges nothing.
    private static func post(_ token: String, at offset: Int, _ body: [UInt8]) -> [UInt8] {
        let query = "im-session=\(token)&im-at=\(offset)&im-received=0"
        let head = "POST /?\(query) HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(body.count)\r\n\r\n"
        return Array(head.utf8) + body
    }

    /// A message of framed TCP, of 68 bytes.
    private static let message = [0, 0, 0, 64] + [UInt8](repeating: 65, count: 64)
    /// As many of them as fit the window of the attacked server, and a half of them.
    private static let window = Array(repeatElement(message, count: (64 << 10) / message.count).joined())
    private static let halfWindow = Array(window.prefix(window.count / message.count / 2 * message.count))
    private static let batchOfMessages = Array(repeatElement(message, count: 240).joined())
    private static let pings = repeated([0x80, 0, 0, 9, 1, 0, 0, 0, 0, 0, 0, 0, 1])

    /// Sends messages, and takes the echoes. It acknowledges what it has sent two requests before, because later echoes may
    /// not be written yet.
    @Sendable
    private static func flooding(_ token: String, _ number: Int) -> [UInt8] {
        post(token, at: number * batchOfMessages.count, batchOfMessages)
            + poll("poll", token, from: max(0, number - 2) * batchOfMessages.count)
    }

    /// Sends what fills more than the window with echoes, and then polls the first ones again and again.
    @Sendable
    private static func forgetting(_ token: String, _ number: Int) -> [UInt8] {
        switch number {
        case 0: post(token, at: 0, window)
        case 1: post(token, at: window.count, halfWindow)
        default: poll("poll", token, from: 0)
        }
    }

    /// Sends messages, one request after the other, and never asks for the echoes.
    private static let neverPolling: HostileScript = {
        var script = inSession { (token, number) in post(token, at: number * window.count, window) }
        script.awaitsAnswers = true
        return script
    }()

    /// Never reads the answers of its requests.
    private static let deaf = HostileScript(load: repeated(poll("poll", "none", from: 0)), reads: false)

    /// Polls the same bytes again and again, and reads no answer. Each answer is as large as the window.
    private static let deafInSession: HostileScript = {
        var script = inSession { (token, number) in
            number == 0 ? post(token, at: 0, window) : repeated(poll("poll", token, from: 0))
        }
        script.isDeafInSession = true
        return script
    }()

    /// Guesses tokens, twenty in each load.
    private static let guessing: HostileScript = {
        var script = answered(forbidden: "HTTP/1.1 20")
        script.freshLoad = { (_, _) in
            var random = RandomSource.system()
            return (0..<20).flatMap { _ in poll("poll", SessionToken(&random).text, from: 0) }
        }
        return script
    }()

    /// The length of a request's body, beyond every limit and beyond 64 bits, and of a message in a session.
    private static let giantLengths =
        ["4611686018427387904", "99999999999999999999999"].map { answered(opening("Content-Length: \($0)\r\n")) }
        + [inSession { (token, _) in post(token, at: 0, [0x3f, 0xff, 0xff, 0xff]) }]

    /// Bodies in chunks: lengths beyond 64 bits and beyond the limit, and extensions and trailers beyond all limits.
    private static let chunks = [
        "fffffffffffffffff\r\n", "7fffffffffffffff\r\n", "-1\r\n", "1;" + String(repeating: "a", count: 8000),
        "0\r\n" + String(repeating: "a: b\r\n", count: 5000),
        String(repeating: "1;" + String(repeating: "a", count: 1000) + "\r\n.\r\n", count: 10),
    ]

    /// Requests whose end two parsers see at different places, so that one of them sees a second request within. The server
    /// must refuse them (RFC 9112, section 11.2).
    private static let smuggled: [String] = {
        let inner = "OPTIONS /?im-smuggled=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
        let chunked = String(inner.utf8.count, radix: 16) + "\r\n\(inner)\r\n0\r\n\r\n"
        let headers = [
            // Content-Length before Transfer-Encoding, after it, and twice.
            "Content-Length: \(inner.utf8.count + 5)\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "Content-Length: 0\r\nContent-Length: 5\r\n",
            "Content-Length: 0, 5\r\n", "Content-Length: +0\r\n", "Content-Length: 0x0\r\n",
            // A line that continues the one before, and one that only some parsers see.
            "X: a\r\n Transfer-Encoding: chunked\r\n", "X: a\rTransfer-Encoding: chunked\r\n",
            "X: a\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding : chunked\r\n",
            // Codings that only some parsers understand.
            "Transfer-Encoding: xchunked\r\n", "Transfer-Encoding: chunked, identity\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        ]
        return headers.flatMap { [opening($0) + "0\r\n\r\n" + inner, opening($0) + chunked] }
    }()

    /// Requests with the end of a line in every value that a client chooses, percent-encoded or as it is.
    private static let split: [String] = {
        let (encoded, token) = ("%0d%0aX-Injected:%201%0d%0a%0d%0a", "AAAAAAAAAAAAAAAAAAAAAA")
        let targets = [
            "POST /?im-open=\(encoded)", "POST /?im-open=1&im-interval=\(encoded)",
            "GET /?im-session=\(encoded)&im-receive=sse&im-from=0",
            "GET /?im-session=\(token)&im-receive=\(encoded)&im-from=0",
            "GET /?im-session=\(token)&im-receive=sse&im-from=\(encoded)",
            "POST /?im-session=\(token)&im-at=\(encoded)&im-received=0", "GET /\(encoded)?im-open=1",
        ]
        let host = "Host: localhost\r\n"
        return targets.map { "\($0) HTTP/1.1\r\n\(host)\r\n" } + [
            "GET /?im-open=1\r\nX-Injected: 1\r\n\r\n HTTP/1.1\r\n\(host)\r\n",
            "POST /?im-open=1 HTTP/1.1\r\n\(host)Origin: http://localhost\(encoded)\r\n\r\n",
            "POST /?im-open=1 HTTP/1.1\r\n\(host)Origin: http://localhost\rX-Injected: 1\r\n\r\n",
            "GET /?im-session=\(token)&im-receive=sse HTTP/1.1\r\n\(host)Last-Event-ID: \(encoded)\r\n\r\n",
        ]
    }()
}

/// What a hostile client has found in the answers to its requests over HTTP.
struct HostileAnswers: Sendable, Equatable {
    /// How many answers each status has that refuses a request.
    private(set) var refusals: [Int: Int] = [:]
    /// What no answer may contain, if one did.
    private(set) var leak: String?

    var isEmpty: Bool { refusals.isEmpty && leak == nil }

    /// Looks at received bytes. An answer that is divided between two reads may be missed.
    mutating func add(_ received: some Collection<UInt8>, forbidden: String?) {
        let text = Array(received)
        for status in Self.statuses(text) where status >= 400 { refusals[status, default: 0] += 1 }
        if let forbidden, Self.contains(text, Array(forbidden.utf8)) { leak = forbidden }
    }

    mutating func add(_ other: HostileAnswers) {
        refusals.merge(other.refusals, uniquingKeysWith: +)
        leak = leak ?? other.leak
    }

    /// The statuses of the answers whose beginnings are in these bytes.
    private static func statuses(_ bytes: [UInt8]) -> [Int] {
        let start = Array("HTTP/1.1 ".utf8)
        return bytes.indices.dropLast(start.count + 2).compactMap { index in
            guard bytes[index] == start[0], bytes[index...].starts(with: start) else { return nil }
            return Int(String(decoding: bytes[index + start.count..<index + start.count + 3], as: UTF8.self))
        }
    }

    private static func contains(_ bytes: [UInt8], _ part: [UInt8]) -> Bool {
        bytes.indices.contains { bytes[$0] == part[0] && bytes[$0...].starts(with: part) }
    }

    /// Returns the token in the answer to the request that opens a session; `nil` if it is not there.
    static func token(_ received: some Collection<UInt8>) -> String? {
        let (bytes, name) = (Array(received), Array("session=".utf8))
        guard let start = bytes.indices.first(where: { bytes[$0...].starts(with: name) }) else { return nil }
        let text = String(decoding: bytes[(start + name.count)...].prefix(SessionToken.length), as: UTF8.self)
        return SessionToken(text)?.text
    }
}
