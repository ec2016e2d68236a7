import Primitives

/// Runs the sessions of a server. Lives on its runtime.
final class SessionServerDriver {
    private let runtime: any SupervisorRuntime
    private let configuration: SessionServer.Configuration
    private let login: SessionLogin?
    private let onSession: @Sendable (Session) -> Void
    private var registry: SessionRegistry<SessionDriver>
    /// The sessions by number.
    private var sessions: [UInt64: SessionDriver] = [:]
    private var lastSession: UInt64 = 0
    private var random: RandomSource
    private var lastConnection = 0
    /// All sessions, in the order in which they make room for others.
    private var order: EvictionQueue<UInt64, UInt64>
    /// Connections that have not identified their session.
    private var unidentified: [Int: any Connection] = [:]
    private var unidentifiedOrder: EvictionQueue<Int, UInt64>
    private var isClosed = false
    /// The memory of all sessions and of the connections of the listeners.
    private let total = BufferedTotal()
    /// The buffers of ended sessions, until the app has taken their messages.
    private var ended: [EndedSession] = []

    init(
        _ configuration: SessionServer.Configuration,
        on runtime: any SupervisorRuntime,
        login: SessionLogin?,
        _ onSession: @escaping @Sendable (Session) -> Void
    ) {
        self.runtime = runtime
        self.configuration = configuration
        self.login = login
        self.onSession = onSession
        registry = SessionRegistry(capacity: configuration.maximumSessions)
        order = EvictionQueue(lines: Line.count, limit: configuration.maximumSessions)
        unidentifiedOrder = EvictionQueue(lines: 2, limit: configuration.maximumUnidentifiedConnections)
        random = runtime.makeRandomSource()
        total.add(self, keeping: 0, limit: configuration.maximumBuffered)
    }

    /// Counts the memory of a listener's connections.
    func count(_ listener: any LocalListener) {
        listener.join(RuntimeBound(total, to: runtime))
    }

    /// Handles a new connection of a client.
    func take(_ connection: any Connection) {
        guard !isClosed else {
            hangUp(connection, .user)
            return
        }
        lastConnection += 1
        let number = lastConnection
        switch Delivery.style(configuration.supervisor.delivery, connection.capabilities) {
        case .plain, .origin:
            guard sessions.count < configuration.maximumSessions || makeRoom() else {
                hangUp(connection, CloseReason(SessionFrame.Refusal.full.error))
                return
            }
            attach(connection, number, to: begin(nil, connection, connection.identity), nil)
        case .session:
            if unidentified.count >= configuration.maximumUnidentifiedConnections { endOldestUnidentified() }
            unidentified[number] = connection
            unidentifiedOrder.insert(number, from: connection.network, at: runtime.clock) { $0 ? 0 : 1 }
            let driver = RuntimeBound(self, to: runtime)
            let timer = runtime.schedule(at: runtime.clock.advanced(by: configuration.helloTimeout)) { [self] in
                if let connection = removeUnidentified(number) { turnAwayWithoutHello(connection) }
            }
            Task(executorPreference: runtime.taskExecutor) {
                await SessionServerDriver.introduce(connection, number, driver)
                driver.value.runtime.cancel(timer: timer)
            }
        }
    }

    /// Receives the first frame of a connection, and decides about the login.
    private static func introduce(
        _ connection: any Connection,
        _ number: Int,
        _ driver: RuntimeBound<SessionServerDriver>
    ) async {
        var first: Payload?
        do throws(TransportError) { first = try await connection.receive() } catch {}
        guard let first else {
            _ = driver.value.removeUnidentified(number)
            return
        }
        let frame: SessionFrame
        do throws(TransportError) {
            frame = try SessionFrame(first)
        } catch {
            let refusal = error.code == .handshakeFailed ? SessionFrame.Refusal.version : .helloExpected
            return driver.value.introduced(connection, number, refused: refusal)
        }
        guard case .hello(let client, let hello) = frame else {
            return driver.value.introduced(connection, number, refused: .helloExpected)
        }
        var identity = connection.identity
        if let login = driver.value.login {
            switch await login(hello.token, connection) {
            case .admitted(let other): identity = other ?? identity
            case .refused(let refusal): return driver.value.introduced(connection, number, refused: refusal)
            }
        }
        driver.value.introduced(connection, number, client, hello, identity)
    }

    private func introduced(_ connection: any Connection, _ number: Int, refused refusal: SessionFrame.Refusal) {
        if removeUnidentified(number) != nil { turnAway(connection, refusal) }
    }

    /// Handles the hello of a connection, which identifies its session.
    private func introduced(
        _ connection: any Connection,
        _ number: Int,
        _ client: SessionID,
        _ hello: ClientHello,
        _ identity: Identity?
    ) {
        guard removeUnidentified(number) != nil else { return }
        if let session = registry.sessions[client], session.identity?.name != identity?.name {
            // The identifier of a session is a secret, but it must not be enough to read the messages of another user.
            return turnAway(connection, .otherIdentity)
        }
        switch registry.decide(client, isMeant: { $0.isMeant(by: hello) }) {
        case .resume(let session): attach(connection, number, to: session, hello)
        case .begin: attach(connection, number, to: begin(client, connection, identity), hello)
        case .replace(let former):
            former.handle(.supersede)
            attach(connection, number, to: begin(client, connection, identity), hello)
        case .refuse(.full) where makeRoom():
            attach(connection, number, to: begin(client, connection, identity), hello)
        case .refuse(let refusal): turnAway(connection, refusal)
        }
    }

    private func begin(_ client: SessionID?, _ connection: any Connection, _ identity: Identity?) -> SessionDriver {
        let machine = ServerSessionStateMachine(
            configuration.supervisor,
            incarnation: random.next() | 1,
            sender: random.next(),
            lifetime: configuration.sessionLifetime,
            at: runtime.clock
        )
        let session = SessionDriver(machine, identity, on: runtime, counting: total)
        lastSession += 1
        let id = lastSession
        sessions[id] = session
        order.insert(id, from: connection.network, at: runtime.clock) { Line.place(session, isOfCrowd: $0) }
        session.onUse = { [self] session in
            order.move(id, at: runtime.clock) { Line.place(session, isOfCrowd: $0) }
        }
        if let client { registry.insert(client, session) }
        session.onOver = { [self] session in
            sessions[id] = nil
            order.remove(id)
            keepCounting(session)
            if let client { registry.remove(client) }
        }
        onSession(Session(session))
        return session
    }

    private func attach(
        _ connection: any Connection,
        _ number: Int,
        to session: SessionDriver,
        _ hello: ClientHello?
    ) {
        let handle = ConnectionHandle(connection, number, session)
        session.attach(handle, hello: hello)
        let confined = RuntimeBound(handle, to: runtime)
        Task(executorPreference: runtime.taskExecutor) { await ConnectionHandle.read(confined, isWelcomed: true) }
    }

    // MARK: Room

    private func removeUnidentified(_ number: Int) -> (any Connection)? {
        unidentifiedOrder.remove(number)
        return unidentified.removeValue(forKey: number)
    }

    private func endOldestUnidentified() {
        guard let oldest = unidentifiedOrder.first, let connection = removeUnidentified(oldest) else { return }
        let limit = configuration.maximumUnidentifiedConnections
        let sentence = "more than \(limit) connections have not identified their session; this is the oldest"
        abandon(connection, CloseReason(TransportError(.tooManyRequests, .handshake, sentence)))
    }

    /// Ends the session that is the next to make room for another. Returns `false` if there is none.
    private func makeRoom() -> Bool {
        for line in 0..<Line.linked.rawValue {
            guard let (id, _) = order.first(in: line), let session = sessions[id] else { continue }
            let sentence = "the server has its maximum number of sessions, and another client needed the place"
            session.handle(.close(CloseReason(TransportError(.tooManyRequests, .open, sentence))))
            return true
        }
        return false
    }

    /// Ends a connection, if possible without waiting for an answer to the close frame.
    private func abandon(_ connection: any Connection, _ reason: CloseReason) {
        if let here = connection.here {
            here.abandon(reason)
        } else {
            hangUp(connection, reason)
        }
    }

    private func turnAway(_ connection: any Connection, _ refusal: SessionFrame.Refusal) {
        Task(executorPreference: runtime.taskExecutor) {
            _ = await connection.send(SessionFrame.refused(refusal).payload)
            await connection.close(CloseReason(refusal == .helloExpected ? .sessionsOnly : refusal.error))
        }
    }

    /// Ends a connection over which no hello was received. The client may have no sessions.
    private func turnAwayWithoutHello(_ connection: any Connection) {
        guard let here = connection.here else { return turnAway(connection, .helloExpected) }
        _ = here.sendUnlessWaiting(SessionFrame.refused(.helloExpected).payload)
        here.abandon(CloseReason(.sessionsOnly))
    }

    @discardableResult
    private func hangUp(_ connection: any Connection, _ reason: CloseReason) -> Task<Int, Never> {
        Task(executorPreference: runtime.taskExecutor) { await connection.close(reason) }
    }

    /// Ends all connections.
    ///
    /// - Returns: Tasks that end when the connections are closed.
    func dropConnections() -> [Task<Int, Never>] {
        dropUnidentified() + sessions.values.flatMap { $0.dropConnections() }
    }

    /// Ends all sessions, and notifies those that have a connection.
    func close() -> [Task<Int, Never>] {
        isClosed = true
        return dropUnidentified()
            + sessions.values.compactMap { session in
                session.handle(.close(.user))
                return session.runner.closing
            }
    }

    private func dropUnidentified() -> [Task<Int, Never>] {
        let connections = Array(unidentified.values)
        for number in unidentified.keys { unidentifiedOrder.remove(number) }
        unidentified = [:]
        return connections.map { hangUp($0, .user) }
    }
}

/// The lines of sessions, in the order in which they make room.
private enum Line: Int, CaseIterable {

    /// Sessions of crowds without a connection that their clients have never used.
    case unusedCrowd
    /// Sessions of crowds without a connection that their clients have used.
    case usedCrowd
    /// Sessions of crowds with a connection that their clients have never used.
    case unusedLinkedCrowd
    /// Other sessions without a connection that their clients have never used.
    case unused
    /// Other sessions without a connection that their clients have used.
    case used
    /// Sessions that have a connection and make no room.
    case linked

    static var count: Int { allCases.count }

    static func place(_ session: SessionDriver, isOfCrowd: Bool) -> Int {
        let line: Line =
            switch (session.hasConnection, session.isUsed) {
            case (true, true): .linked
            case (true, false): isOfCrowd ? .unusedLinkedCrowd : .linked
            case (false, true): isOfCrowd ? .usedCrowd : .used
            case (false, false): isOfCrowd ? .unusedCrowd : .unused
            }
        return line.rawValue
    }
}

extension EvictionQueue {
    /// The client that is ended first, if there are two lines and the first comes before the second.
    fileprivate var first: ID? { first(in: 0)?.id ?? first(in: 1)?.id }
}

extension Connection {
    /// The network of its peer, if that is known.
    fileprivate var network: UInt64? { (self as? any LocalConnection)?.peerNetwork }
}

// MARK: Memory

private struct EndedSession {
    weak var buffer: SessionBuffer?
}

extension SessionServerDriver: BufferKeeper {
    /// Counts an ended session until the app has released it or taken its messages.
    private func keepCounting(_ session: SessionDriver) {
        if ended.count > 2 * sessions.count + 64 { ended.removeAll { ($0.buffer?.bytes ?? 0) == 0 } }
        ended.append(EndedSession(buffer: session.buffer))
    }

    private var largestEnded: SessionBuffer? {
        ended.lazy.compactMap(\.buffer).max { $0.bytes < $1.bytes }
    }

    var largestBuffered: Int {
        sessions.values.reduce(largestEnded?.bytes ?? 0) { max($0, $1.buffer.bytes) }
    }

    func endLargest(_ limit: Int) {
        let largest = sessions.values.max { $0.buffer.bytes < $1.buffer.bytes }
        if let ended = largestEnded, ended.bytes > largest?.buffer.bytes ?? 0 { return ended.discard() }
        guard let largest else { return }
        let sentence =
            "the server buffers more than \(limit) bytes, and the most for this session: \(largest.buffer.bytes)"
        largest.discard(CloseReason(TransportError(.resourcesExhausted, .open, sentence)))
    }
}
