import Primitives
import Protocols
import SocketIO
import TransportAPI

/// The sessions of a server over HTTP. It decides about each request and passes it to its session. Lives on its loop.
final class HTTPSessions: DriverOwner, BufferKeeper {
    /// What all sessions of a server have in common.
    struct Setup {
        var limits: HTTPSessionLimits
        /// The limits of their connections.
        var connection: ConnectionLimits
        /// The core of a new session.
        var core: FramedTCPCore
        /// The rules for requests: paths, origins, hosts, and the app's decision.
        var admission: WebSocketConfiguration
        /// The largest number of sessions of one address.
        var maximumPerAddress: Int?
        /// How long a client may acknowledge nothing while output waits for it.
        var stallTimeout: Duration
    }

    /// The answer to a request for a session that does not exist, or has ended.
    static let unknown = "there is no such session"

    let setup: Setup
    let loop: EventLoop
    private let queue: AcceptQueue
    private let handler: any ConnectionHandler
    /// All sessions, also those whose driver has ended and whose clients may still fetch what it has written.
    private var table: [SessionToken: HTTPSession] = [:]
    /// The sessions of which a request waits for its answer, by the number of its connection.
    var waiting: [UInt64: HTTPSession] = [:]
    /// The drivers of the sessions.
    private var drivers: [UInt64: ConnectionDriver] = [:]
    /// The clients that have only opened a session.
    private var silentClients = ClientQueue { ($0.channel as? HTTPServerChannel)?.session?.isSilent ?? false }
    /// The sessions whose driver has ended, in this order. Those that were removed since are among them.
    private var ended = Deque<SessionToken>()
    /// How many sessions each network has, if that is limited.
    private var perAddress: [SocketAddress.Network: Int] = [:]
    /// The memory of all sessions, in bytes.
    private var bufferedBytes = 0
    private var total: BufferedTotal?
    private var random = RandomSource.system()
    private var isSweeping = false
    /// When the sessions were last checked so late that the process was stopped before, in nanoseconds.
    private(set) var continuedAt = Int64.min
    private(set) var isClosed = false
    /// Called when no session has a driver any more.
    var onEmpty: (() -> Void)?

    init(_ setup: Setup, _ queue: AcceptQueue, on loop: EventLoop, handler: any ConnectionHandler) {
        (self.setup, self.queue, self.loop, self.handler) = (setup, queue, loop, handler)
    }

    /// Whether no session has a driver.
    var isEmpty: Bool { drivers.isEmpty }

    // MARK: Requests

    /// Handles a request that came over a connection.
    func respond(_ request: HTTPRequest, on connection: ConnectionDriver) {
        let admission = setup.admission
        guard admission.allowedPaths?.contains(request.path) ?? true else {
            return HTTPExchange(connection: connection, headers: Self.headers)
                .answer(404, "nothing is served at this path")
        }
        do throws(HTTPRefusal) {
            try request.checkOrigin(admission)
        } catch {
            return refuse(HTTPExchange(connection: connection, headers: Self.headers), error)
        }
        let exchange = HTTPExchange(connection: connection, headers: Self.headers(for: request))
        guard request.method != "OPTIONS" else { return exchange.answer(204, "", Self.preflight) }
        do throws(HTTPRefusal) {
            switch try SessionRequest(request) {
            case .open(let interval): try open(request, interval, exchange)
            case .receive(let token, let delivery, let offset):
                find(token, request, exchange)?.receive(delivery, from: offset, exchange)
            case .send(let token, let offset, let received, let isLast):
                find(token, request, exchange)?
                    .send(request.body, at: offset, received: received, isLast: isLast, exchange)
            }
        } catch {
            refuse(exchange, error)
        }
    }

    /// Notes that a part of the body of a request has come over a connection, which may take long on a slow path.
    ///
    /// - Parameter count: how many bytes of it are there.
    func arrives(_ request: HTTPRequest, _ count: Int, on connection: ConnectionDriver) {
        guard case .send(let token?, _, _, _)? = try? SessionRequest(request), let session = table[token],
            session.admits(request, from: connection.channel.peer)
        else { return }
        session.arrives(count, over: connection.number)
    }

    /// Answers a request that is refused, and tells the server's owner.
    func refuse(_ exchange: HTTPExchange, _ refusal: HTTPRefusal) {
        exchange.answer(refusal.response)
        queue.note(exchange.connection.channel.peer, CloseReason(refusal.error), wasOpen: false)
    }

    /// Returns the session of a request. Answers the request if there is none, or if it belongs to another client.
    private func find(_ token: SessionToken?, _ request: HTTPRequest, _ exchange: HTTPExchange) -> HTTPSession? {
        guard let session = token.flatMap({ table[$0] }) else {
            exchange.answer(404, Self.unknown)
            return nil
        }
        guard session.admits(request, from: exchange.connection.channel.peer) else {
            exchange.answer(403, "the session was opened with another Origin, Authorization or client certificate")
            return nil
        }
        return session
    }

    /// The connection of a request that waits for its answer has ended.
    func connectionEnded(_ number: UInt64) {
        waiting.removeValue(forKey: number)?.connectionEnded(number)
    }

    // MARK: Headers

    /// The headers of every answer.
    private static let headers = [
        HTTPHeader(parsed: "Cache-Control", "no-store"), HTTPHeader(parsed: "X-Content-Type-Options", "nosniff"),
    ]

    /// The answer to a browser that asks which requests a page of another origin may send (WHATWG Fetch, section 3.3).
    private static let preflight = [
        HTTPHeader(parsed: "Access-Control-Allow-Methods", "GET, POST"),
        HTTPHeader(parsed: "Access-Control-Allow-Headers", "Content-Type, Authorization, Last-Event-ID"),
        HTTPHeader(parsed: "Access-Control-Max-Age", "600"),
    ]

    /// The headers of an answer to a request whose origin is admitted.
    private static func headers(for request: HTTPRequest) -> [HTTPHeader] {
        guard let origin = request.header("Origin") else { return headers }
        return headers + [
            HTTPHeader(parsed: "Access-Control-Allow-Origin", origin),
            HTTPHeader(parsed: "Access-Control-Allow-Credentials", "true"), HTTPHeader(parsed: "Vary", "Origin"),
        ]
    }

    // MARK: The beginning of a session

    private func open(_ request: HTTPRequest, _ interval: Duration, _ exchange: HTTPExchange) throws(HTTPRefusal) {
        let prefix = HTTPServerCore.parameterPrefix
        let query = FormQuery.removing(prefix: prefix, from: request.query)
        let identity = try request.decide(setup.admission, query: query)
        guard !isClosed, queue.hasRoom, hasRoom(for: exchange.connection.channel.peer) else {
            return exchange.answer(503, "there is no room for a session", [HTTPHeader(parsed: "Retry-After", "2")])
        }
        var core = setup.core
        core.identity = identity
        let session = begin(core, request, interval, exchange.connection.channel)
        var answer = FormQuery()
        answer.append("session", session.token.text)
        answer.append("window", setup.limits.window)
        answer.append("hold", setup.limits.hold.wholeNanoseconds / 1_000_000)
        exchange.answer(201, type: "application/x-www-form-urlencoded", Array(answer.text.utf8))
    }

    private func begin(
        _ core: FramedTCPCore,
        _ request: HTTPRequest,
        _ interval: Duration,
        _ carrier: any ByteChannel
    ) -> HTTPSession {
        let channel = HTTPServerChannel(
            window: setup.limits.window,
            peer: carrier.peer,
            encryption: carrier.encryption
        )
        var limits = setup.connection
        limits.readsOnlyWhileRead = true
        // The answer of a client that polls comes that much later.
        limits.closeTimeout += interval
        limits.linger += interval
        limits.closeTotal = max(limits.closeTotal, limits.closeTimeout)
        let driver = ConnectionDriver(core, over: channel, on: loop, limits: limits)
        driver.handler = handler
        driver.owner = self
        let session = HTTPSession(
            SessionToken(&random),
            SessionBinding(request),
            channel,
            driver,
            timeout: setup.limits.timeout(interval: interval),
            stallTimeout: setup.stallTimeout + interval,
            of: self
        )
        table[session.token] = session
        drivers[driver.number] = driver
        silentClients.append(driver, among: drivers)
        if setup.maximumPerAddress != nil, let network = channel.peer?.network { perAddress[network, default: 0] += 1 }
        driver.start()
        if !isSweeping { sweepLater() }
        return session
    }

    /// Returns whether there is room for another session, after making some if possible.
    private func hasRoom(for peer: SocketAddress?) -> Bool {
        if let most = setup.maximumPerAddress, let network = peer?.network, perAddress[network, default: 0] >= most {
            return false
        }
        guard table.count >= setup.limits.maximumSessions else { return true }
        while let token = ended.popFirst() {
            guard let session = table[token] else { continue }
            remove(session)
            return true
        }
        guard let oldest = silentClients.oldest(among: drivers), oldest.started < loop.now - 1_000_000_000 else {
            return false
        }
        let sentence = "the server is full, and this client has made no request after it opened its session"
        oldest.abandonAtOnce(.tooMany(sentence, .open))
        return table.count < setup.limits.maximumSessions
    }

    // MARK: The end of a session

    /// Removes a session whose driver has ended.
    func remove(_ session: HTTPSession) {
        guard table.removeValue(forKey: session.token) != nil else { return }
        session.removed()
    }

    func ended(_ driver: ConnectionDriver, _ reason: CloseReason, wasOpen: Bool) {
        queue.note(driver.channel.peer, reason, wasOpen: wasOpen)
    }

    func closed(_ driver: ConnectionDriver) {
        drivers[driver.number] = nil
        if let session = (driver.channel as? HTTPServerChannel)?.session {
            leave(session.opener)
            if session.driverClosed() {
                if ended.count > 2 * table.count + 64 { ended = Deque(ended.filter { table[$0]?.driver == nil }) }
                ended.append(session.token)
            } else {
                remove(session)
            }
        }
        if drivers.isEmpty { onEmpty?() }
    }

    /// Counts one session of this network less.
    private func leave(_ network: SocketAddress.Network?) {
        guard let network, let count = perAddress[network] else { return }
        perAddress[network] = count > 1 ? count - 1 : nil
    }

    /// Opens no more sessions. With `endSessions`, also closes those that are open.
    func close(endSessions: Bool) {
        isClosed = true
        guard endSessions else { return }
        for driver in drivers.values { driver.beginClose(.user) }
    }

    /// Removes the sessions whose clients have not fetched everything, because the server stops.
    func removeAll() {
        for session in table.values where session.driver == nil { remove(session) }
    }

    // MARK: Memory

    func memoryChanged(by bytes: Int) {
        guard bytes != 0 else { return }
        bufferedBytes += bytes
        total?.changed(by: bytes)
    }

    func join(_ total: BufferedTotal) {
        self.total = total
        total.add(self, keeping: bufferedBytes, limit: nil)
    }

    var largestBuffered: Int { table.values.reduce(0) { max($0, $1.bufferedBytes) } }

    func endLargest(_ limit: Int) {
        guard let largest = table.values.max(by: { $0.bufferedBytes < $1.bufferedBytes }) else { return }
        guard let driver = largest.driver else { return remove(largest) }
        let sentence =
            "the server buffers more than \(limit) bytes, and the most for this session: \(largest.bufferedBytes)"
        driver.abandonAtOnce(TransportError(.resourcesExhausted, .open, sentence))
    }

    // MARK: The clock

    /// How often the sessions are checked, in nanoseconds.
    private var checkInterval: Int64 {
        max(min(commentInterval / 3, setup.stallTimeout.wholeNanoseconds / 4), 5_000_000)
    }

    /// How long an event stream may be silent, in nanoseconds. The acknowledgement of a comment shows that the client is
    /// there, so several are sent within the timeout of a session.
    private var commentInterval: Int64 {
        min(setup.limits.commentInterval.wholeNanoseconds, setup.limits.sessionTimeout.wholeNanoseconds / 3)
    }

    /// Checks all sessions after a while. They share one timer, because a timer for each would take too much memory.
    private func sweepLater() {
        isSweeping = true
        let due = loop.now + checkInterval
        _ = loop.schedule(at: due) { [self] in
            if loop.now - due >= Self.lateness { continuedAt = loop.now }
            loop.add(SessionSweep(self), to: .deferred)
        }
    }

    /// How late a check must be to show that the process was stopped, in nanoseconds.
    private static let lateness: Int64 = 1_000_000_000

    /// The sessions that a sweep checks.
    fileprivate var all: [HTTPSession] { Array(table.values) }

    fileprivate func check(_ session: HTTPSession) {
        session.check(commentAfter: max(commentInterval - checkInterval, 0))
    }

    fileprivate func swept() {
        isSweeping = false
        if !table.isEmpty { sweepLater() }
    }
}

/// One check of all sessions, within the time budgets of several ticks.
private final class SessionSweep: ScheduledHandler {
    /// The number of sessions after which the clock is read.
    private static let stretch = 64

    var schedule = ScheduleEntry()
    private let sessions: HTTPSessions
    /// The sessions that are still to be checked.
    private var left: [HTTPSession]

    init(_ sessions: HTTPSessions) {
        self.sessions = sessions
        left = sessions.all
    }

    func run(_: LoopQueue) {
        let end = sessions.loop.budgetEnd
        while let session = left.popLast() {
            sessions.check(session)
            guard left.count % Self.stretch == 0, MonotonicClock.now() >= end else { continue }
            return sessions.loop.add(self, to: .deferred)
        }
        sessions.swept()
    }
}
