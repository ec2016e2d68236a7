import Protocols
import SocketIO
import TransportAPI

/// The transport of messages over HTTP. It opens a session by one request. The connection is a core of framed TCP over a
/// ``HTTPClientChannel``.
struct HTTPTransport: RedirectedTransport {
    let endpoint: Endpoint
    let dialer: StreamDialer
    let limits: ConnectionLimits
    let capabilities: Capabilities
    /// The cookies of the server; `nil` if none are kept.
    let cookies: CookieStore?
    let settings: HTTPClientSettings
    /// The headers of each request, without Host and cookies.
    let headers: [HTTPHeader]
    /// Makes a new core for each attempt.
    let makeCore: @Sendable () -> any PackageCore
    /// Makes the transport to the target of a redirect.
    let follow: @Sendable (Redirection) throws(TransportError) -> HTTPTransport

    private var loop: EventLoop { dialer.loop }
    private var isEncrypted: Bool { dialer.tls != nil }
    private var origin: CookieOrigin {
        CookieOrigin(host: endpoint.host, path: endpoint.path, isSecure: isEncrypted)
    }

    nonisolated(nonsending) func open(
        started: Int64,
        deadline: Int64
    ) async throws(TransportError) -> OpeningAnswer {
        try await running(on: loop) { () async throws(TransportError) in
            let addresses = try await addresses(deadline: deadline)
            while true {
                let stream = try await addresses.next()
                let share = addresses.share
                do throws(TransportError) {
                    let lane = HTTPLane(over: try await dialer.openChannel(over: stream, deadline: share), on: loop)
                    let second = SecondLane(on: loop) { () async throws(TransportError) in try await dial(share) }
                    defer { second.abandon() }
                    let answer = try await openSession(over: lane, deadline: share)
                    if let terms = terms(answer) {
                        let lanes = (lane, try await second.lane(beside: lane))
                        let connection = try await connection(terms, over: lanes, started: started, deadline: deadline)
                        addresses.succeeded()
                        return .connection(connection)
                    }
                    lane.close(abort: true)
                    if let redirection = redirection(answer.head, answer.status) {
                        return .elsewhere(redirection, .httpStatus(answer.status))
                    }
                    throw refusal(answer, isVerified: lane.encryption?.isVerified == true)
                } catch {
                    try addresses.failed(error)
                }
            }
        }
    }

    private nonisolated(nonsending) func addresses(deadline: Int64) async throws(TransportError) -> AddressAttempts {
        try await dialer.addresses(UnansweredHint(makeCore(), isEncrypted: isEncrypted), deadline: deadline)
    }

    // MARK: The session

    private nonisolated(nonsending) func openSession(
        over lane: HTTPLane,
        deadline: Int64
    ) async throws(TransportError) -> HTTPCall.Answer {
        var query = settings.handshake.query.map { "\($0)&" } ?? ""
        query += "im-open=1"
        if case .poll(let interval) = settings.sessionMode { query += "&im-interval=\(interval / 1_000_000)" }
        let request = HTTPClientSession.Request(method: "POST", query: query, body: [], accept: nil)
        do throws(TransportError) {
            let answer = try await HTTPCall.perform(
                bytes(of: request),
                on: lane,
                of: loop,
                deadline: deadline,
                late: TransportError(.timedOut, .handshake, "the server did not answer the request in time")
            )
            keepCookies(answer.head)
            return answer
        } catch {
            throw lane.hasAnswer ? error : UnansweredHint(makeCore(), isEncrypted: isEncrypted).added(to: error)
        }
    }

    /// What the server says about the session that it has opened; `nil` if it has refused.
    private func terms(_ answer: HTTPCall.Answer) -> HTTPClientSession.Terms? {
        guard answer.status == 201 else { return nil }
        return HTTPClientSession.Terms(
            answer: answer.body,
            // Less than a whole request would cost a round trip for each piece, and a socket buffers more too.
            largestWindow: max(limits.writeBuffer, HTTPClientSession.largestBody),
            mode: settings.sessionMode,
            patience: settings.patience.wholeNanoseconds
        )
    }

    /// Returns the connection of a session that the server has opened.
    private nonisolated(nonsending) func connection(
        _ terms: HTTPClientSession.Terms,
        over lanes: (receive: HTTPLane, send: HTTPLane),
        started: Int64,
        deadline: Int64
    ) async throws(TransportError) -> CoreConnection {
        let channel = HTTPClientChannel(
            HTTPClientSession(terms),
            over: lanes,
            on: loop,
            dial: { (deadline) async throws(TransportError) in try await dial(deadline) },
            write: { bytes(of: $0) },
            keepCookies: { keepCookies($0) }
        )
        let driver = ConnectionDriver(makeCore(), over: channel, on: loop, limits: limits, started: started)
        return try await driver.openConnection(deadline: deadline)
    }

    /// Opens another connection for requests of the session. Call this on the loop.
    private nonisolated(nonsending) func dial(_ deadline: Int64) async throws(TransportError) -> LoopBound<HTTPLane> {
        let addresses = try await addresses(deadline: deadline)
        while true {
            let stream = try await addresses.next()
            do throws(TransportError) {
                let channel = try await dialer.openChannel(over: stream, deadline: addresses.share)
                return LoopBound(HTTPLane(over: channel, on: loop), to: loop)
            } catch {
                try addresses.failed(error)
            }
        }
    }

    // MARK: Requests

    private func bytes(of request: HTTPClientSession.Request) -> [UInt8] {
        var headers = [
            HTTPHeader(
                parsed: "Host",
                WebSocketConfiguration.hostHeader(
                    host: endpoint.host,
                    port: endpoint.port,
                    defaultPort: isEncrypted ? 443 : 80
                )
            )
        ]
        if let origin = settings.handshake.origin { headers.append(HTTPHeader(parsed: "Origin", origin)) }
        if let accept = request.accept { headers.append(HTTPHeader(parsed: "Accept", accept)) }
        headers += self.headers
        if self.headers.values("Cookie").isEmpty, let cookies = cookies?.header(for: origin, on: loop) {
            headers.append(HTTPHeader(parsed: "Cookie", cookies.value))
        }
        if request.method == "POST" { headers.append(HTTPHeader(parsed: "Content-Type", "application/octet-stream")) }
        var output = ByteBuffer()
        let path = endpoint.path.isEmpty ? "/" : endpoint.path
        HTTPRequestHead.write(
            method: request.method,
            target: "\(path)?\(request.query)",
            headers: headers,
            bodyLength: request.method == "POST" ? request.body.count : nil,
            to: &output
        )
        output.append(contentsOf: request.body)
        return output.bytes(at: 0, count: output.count) ?? []
    }

    private func keepCookies(_ head: HTTPHead) {
        cookies?.keep(ClientHandshake.cookies(head, unixTime: WallClock.unixTime()), from: origin, on: loop)
    }

    private func redirection(_ head: HTTPHead, _ status: Int) -> Redirection? {
        guard settings.redirects > 0, [301, 302, 303, 307, 308].contains(status),
            let location = head.headers.values("Location").first
        else { return nil }
        return Redirection(status: status, location: location)
    }

    /// The error for a server that has opened no session.
    private func refusal(_ answer: HTTPCall.Answer, isVerified: Bool) -> TransportError {
        var error = TransportError.refusedRequest(
            status: answer.status,
            retryAfter: answer.head.headers.retryAfter(at: WallClock.unixTime()),
            path: endpoint.path.isEmpty ? "/" : endpoint.path,
            headers: headers
        )
        switch answer.status {
        case 200..<300:
            error = TransportError(
                .handshakeFailed,
                .handshake,
                "the server has opened no session: HTTP \(answer.status)"
            )
            fallthrough
        case 400, 404, 405, 410, 426, 501:
            error.reason +=
                "; it may not offer messages over HTTP at this path: for WebSocket, write \(isEncrypted ? "wss" : "ws")://"
        default: break
        }
        error.origin = isVerified ? .peer : .path
        return error
    }
}
