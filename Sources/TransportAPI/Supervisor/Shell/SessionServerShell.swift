/// Runs the sessions of a server. Lives on its runtime.
final class SessionServerShell {
    private let runtime: any SupervisorRuntime
    private let configuration: SessionServer.Configuration
    private let onSession: @Sendable (Session) -> Void
    private var registry: SessionRegistry<SessionShell>
    private var sessions: [ObjectIdentifier: SessionShell] = [:]
    private var random: RandomSource
    private var lastLink = 0
    /// Links that have not said whose they are.
    private var newcomers: [Int: any Link] = [:]
    /// Links of clients that try how long the path bears them idle.
    private var spares: [Int: (link: any Link, timer: UInt64)] = [:]
    private var isClosed = false
    /// What all sessions keep, together with the connections of the listeners.
    private let total = BufferedTotal()
    /// What sessions keep that have ended, until the app has taken it.
    private var ended: [EndedSession] = []

    init(
        _ configuration: SessionServer.Configuration,
        on runtime: any SupervisorRuntime,
        _ onSession: @escaping @Sendable (Session) -> Void
    ) {
        self.runtime = runtime
        self.configuration = configuration
        self.onSession = onSession
        registry = SessionRegistry(capacity: configuration.maximumSessions)
        random = runtime.makeRandomSource()
        total.add(self, keeping: 0, limit: configuration.maximumBuffered)
    }

    /// Counts what the connections of a listener keep.
    func count(_ listener: any BufferingListener) {
        listener.join(RuntimeConfined(total, to: runtime))
    }

    /// A client has connected.
    func take(_ link: any Link) {
        guard !isClosed else {
            hangUp(link, .user)
            return
        }
        lastLink += 1
        let number = lastLink
        switch Delivery.style(configuration.supervisor.delivery, link.capabilities) {
        case .plain, .origin:
            guard sessions.count < configuration.maximumSessions else {
                hangUp(link, CloseReason(SessionFrame.Refusal.full.error))
                return
            }
            attach(link, number, to: begin(nil), nil)
        case .session:
            guard newcomers.count < configuration.maximumSessions else { return turnAway(link, .full) }
            newcomers[number] = link
            let shell = RuntimeConfined(self, to: runtime)
            let timer = runtime.schedule(at: runtime.clock.advanced(by: configuration.helloTimeout)) { [self] in
                guard let link = newcomers.removeValue(forKey: number) else { return }
                hangUp(link, CloseReason(.timedOut(.handshake)))
            }
            Task(executorPreference: runtime.taskExecutor) {
                var first: Payload?
                do throws(TransportError) { first = try await link.receive() } catch {}
                shell.value.runtime.cancel(timer: timer)
                shell.value.introduced(link, number, first)
            }
        }
    }

    /// The link's first frame says whose session it is.
    private func introduced(_ link: any Link, _ number: Int, _ first: Payload?) {
        guard newcomers.removeValue(forKey: number) != nil, let first else { return }
        do throws(TransportError) {
            let frame = try SessionFrame(first)
            if frame == .spare { return keep(link, number) }
            guard case .hello(let client, let incarnation, let received, let attempt) = frame else {
                return turnAway(link, .broken)
            }
            let hello = ClientHello(incarnation: incarnation, received: received, attempt: attempt)
            switch registry.decide(client, isMeant: { $0.isMeant(by: hello) }) {
            case .resume(let session): attach(link, number, to: session, hello)
            case .begin: attach(link, number, to: begin(client), hello)
            case .replace(let former):
                former.run { $0.supersede(&$2) }
                attach(link, number, to: begin(client), hello)
            case .refuse(let refusal): turnAway(link, refusal)
            }
        } catch {
            turnAway(link, error.code == .handshakeFailed ? .version : .broken)
        }
    }

    private func begin(_ client: SessionID?) -> SessionShell {
        let machine = ServedSession(
            configuration.supervisor,
            incarnation: random.next() | 1,
            lifetime: configuration.sessionLifetime,
            at: runtime.clock
        )
        let session = SessionShell(machine, on: runtime, counting: total)
        sessions[ObjectIdentifier(session)] = session
        if let client { registry.insert(client, session) }
        session.onOver = { [self] session in
            sessions[ObjectIdentifier(session)] = nil
            keepCounting(session)
            if let client { registry.remove(client) }
        }
        onSession(Session(session))
        return session
    }

    private func attach(
        _ link: any Link,
        _ number: Int,
        to session: SessionShell,
        _ hello: ClientHello?
    ) {
        let port = LinkPort(link, number, session)
        session.ports[number] = port
        session.run { $0.attach(number, link.capabilities, hello: hello, at: $1, &$2) }
        let confined = RuntimeConfined(port, to: runtime)
        Task(executorPreference: runtime.taskExecutor) { await LinkPort.read(confined, isGreeted: true) }
    }

    /// A link without a session is left alone until its client ends it, or has forgotten it.
    private func keep(_ link: any Link, _ number: Int) {
        if spares.count >= configuration.maximumSpares, let oldest = spares.keys.min() { endSpare(oldest) }
        let timer = runtime.schedule(at: runtime.clock.advanced(by: configuration.spareLifetime)) { [self] in
            endSpare(number)
        }
        spares[number] = (link, timer)
        let shell = RuntimeConfined(self, to: runtime)
        Task(executorPreference: runtime.taskExecutor) {
            _ = await link.closed()
            shell.value.endSpare(number)
        }
    }

    private func endSpare(_ number: Int) {
        guard let (link, timer) = spares.removeValue(forKey: number) else { return }
        runtime.cancel(timer: timer)
        hangUp(link, .user)
    }

    private func turnAway(_ link: any Link, _ refusal: SessionFrame.Refusal) {
        Task(executorPreference: runtime.taskExecutor) {
            _ = await link.send(SessionFrame.refused(refusal).payload)
            await link.close(CloseReason(refusal.error))
        }
    }

    @discardableResult
    private func hangUp(_ link: any Link, _ reason: CloseReason) -> Task<Int, Never> {
        Task(executorPreference: runtime.taskExecutor) { await link.close(reason) }
    }

    /// Ends all links.
    ///
    /// - Returns: tasks that end when the links are closed.
    func dropLinks() -> [Task<Int, Never>] {
        dropNewcomers() + sessions.values.flatMap { $0.dropLinks() }
    }

    /// Ends all sessions, with a word to those that have a link.
    func close() -> [Task<Int, Never>] {
        isClosed = true
        return dropNewcomers()
            + sessions.values.compactMap { session in
                session.run { $0.close(.user, &$2) }
                return session.goodbye
            }
    }

    private func dropNewcomers() -> [Task<Int, Never>] {
        let links = Array(newcomers.values) + spares.values.map(\.link)
        for spare in spares.values { runtime.cancel(timer: spare.timer) }
        (newcomers, spares) = ([:], [:])
        return links.map { hangUp($0, .user) }
    }
}

// MARK: Memory

private struct EndedSession {
    weak var buffer: SessionBuffer?
}

extension SessionServerShell: BufferKeeper {
    /// The app may let the session go, or take what it keeps.
    private func keepCounting(_ session: SessionShell) {
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
            "the server keeps more than \(limit) bytes, and for this session most: \(largest.buffer.bytes)"
        largest.discard(CloseReason(TransportError(.resourcesExhausted, .open, sentence)))
    }
}
