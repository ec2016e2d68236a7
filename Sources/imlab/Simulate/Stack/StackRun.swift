import CommandSupport
import EmbeddedServers
import Protocols
import Simulation
import SocketIO
import TransportAPI
import Transports

/// One schedule: real transports, supervisors and servers in a simulated world, and the checks after it.
final class StackRun: @unchecked Sendable {
    // Unchecked, because only the thread of the simulation uses it.

    struct Outcome {
        var violation: String?
        var digest: UInt64
        var steps: Int
        var plan: StackPlan
    }

    let world: SimulatedWorld
    let plan: StackPlan
    let checker = StackChecker()
    let tls: ToyTLS
    let registry: TransportRegistry
    private(set) var server: SimulatedProcess
    private(set) var serverLoop: EventLoop
    private var clients: [(process: SimulatedProcess, loop: EventLoop)] = []
    private(set) var random: SimulationRandom
    /// The stores of the clients, if they have some, and the clients by their users.
    private(set) var outboxes: [StackOutbox] = []
    private var outboxOfUser: [Int: StackOutbox] = [:]
    private(set) lazy var requests = StackRequests(self)
    private(set) lazy var transfers = StackTransfers(self)
    private var users = 0
    /// The number of apps at servers whose connections have not ended.
    private var serving = 0
    private var served = 0
    /// The bytes of messages that the apps at the server have received, and those that their connections have accepted.
    private var taken = 0
    private var accepted = 0
    private var watchesMemory = true
    /// How many bytes of messages session servers have acknowledged.
    private var acknowledged = 0
    /// How many clients have sent all, or could not connect.
    private var silent = 0
    /// A reset may destroy bytes that had reached a host, also those that a connection there had read and not delivered.
    /// Damage does the same, and breaks records. Requests over HTTP are repeated.
    private var wasReset = false
    private(set) var wasDamaged = false
    private var intrusion = false
    /// The number of clients that have not ended.
    private var living = 0
    /// Whether all operations must end now.
    private(set) var isOver = false
    /// Whether a process was killed, so that messages it had acknowledged may be lost or arrive again, and whether it was a
    /// server.
    private(set) var wasKilled = false
    private(set) var wasServerKilled = false
    private var enders: [Int: Ender] = [:]
    private var enderCount = 0
    private var endpoint = ""
    private var port: UInt16 = 0
    private var decoy: StackDecoy?
    private var middlebox: StackMiddlebox?
    /// The host that clients connect to: the server, or the middlebox before it.
    private var gate: UInt32 = 0
    private var serverStart = 0
    private var clientStarts = 0
    /// How many processes of each client have used a supervisor.
    private var starts: [Int: Int] = [:]
    /// How many servers have started or been killed. A client's connection belongs to the server of this number.
    private(set) var serverAge = 0

    init(seed: UInt64, print: ((String) -> Void)? = nil) {
        world = SimulatedWorld(seed: seed)
        world.trace.print = print
        plan = StackPlan(seed: seed)
        tls = ToyTLS(seed: seed)
        registry = plan.isEncrypted ? .encrypted(by: TLSContexts(tls)) : .standard
        random = SimulationRandom(seed: seed, stream: 5)
        world.kernel.conditions = plan.conditions
        if plan.isEncrypted, plan.carrier.isDatagram {
            world.kernel.onDatagram = { [checker] in checker.travels($0) }
        }
        server = world.startProcess("server")
        serverLoop = world.makeLoop(in: server, hasEdges: plan.hasEdges)
        gate = server.host
        for number in 0..<plan.clients {
            let process = world.startProcess("client\(number)")
            world.kernel.setPath(process.host, server.host, plan.path)
            clients.append((process, world.makeLoop(in: process, hasEdges: plan.hasEdges)))
            guard let failures = plan.diskFailures else { continue }
            let disk = StackDisk(failures: failures, kills: plan.killsAfterWrite, seed: seed &+ UInt64(number) << 32)
            outboxes.append(StackOutbox(self, "client\(number)", disk))
        }
    }

    /// Runs the schedule of `seed`, and checks it.
    static func run(seed: UInt64, print: ((String) -> Void)? = nil) -> Outcome {
        let run = StackRun(seed: seed, print: print)
        print?(run.plan.summary)
        run.live()
        return Outcome(
            violation: run.checker.violation,
            digest: run.world.trace.digest,
            steps: run.world.steps,
            plan: run.plan
        )
    }

    // MARK: The course of a schedule

    private static let second: Int64 = 1_000_000_000
    private static let stepLimit = 400_000
    /// The most system calls of one step.
    private static let callLimit = 1_000_000

    private func live() {
        startServer()
        guard runs(60, { !self.endpoint.isEmpty && (self.plan.middlebox == nil || self.middlebox != nil) }),
            !endpoint.isEmpty
        else {
            return checker.fail("the server did not start")
        }
        for (at, fault) in plan.faults { world.after(at) { [unowned self] in happen(fault) } }
        let start = world.now
        if let intruder = plan.intruder { intrude(intruder) }
        for number in clients.indices { startClient(number) }
        // Operations that can succeed end by themselves. All others are ended.
        var isDone = false
        var progress = -1
        // Some operation must end in each period, or some message arrive, however slow the path is.
        while !isDone, checker.violation == nil, progress != checker.progress, world.now < start + 3_600 * Self.second {
            progress = checker.progress
            isDone = runs(patience) { self.living == 0 && !self.intrusion }
        }
        if !isDone { checkArrivals() }
        if !isDone, mustProgress, progress == checker.progress { stuck("did not end by itself") }
        // Servers first process the bytes that have arrived.
        if isDone, plan.style == .plain, serving > 0 { isDone = runs(120) { self.serving == 0 } }
        if !isDone { checker.expectNothing() }
        heal()
        isOver = true
        for (_, ender) in enders.sorted(by: { $0.key < $1.key }) { spawnEnding(ender.end) }
        if !runs(600, { self.living == 0 && self.enders.isEmpty }) { stuck("did not end after close") }
        guard checker.violation == nil else { return }
        finish()
    }

    /// The longest time in seconds without any progress. An app that sends in the loop in which it receives may wait for a
    /// client whose process was killed and could not write its session to the store, until the session of that process has
    /// expired.
    private var patience: Int64 {
        outboxes.isEmpty ? 120 : 120 + SessionServer.Configuration().sessionLifetime.components.seconds
    }

    /// Fails if an acknowledged message is missing. Call it when there was no progress for ``patience``.
    private func checkArrivals() {
        switch plan.style {
        case .plain where plan.isCalm:
            guard let lacking = checker.lacking() else { return }
            checker.fail("the broker has acknowledged messages that do not arrive: \(lacking)")
        case .room where plan.isCalm && plan.client.closesAfter == nil:
            guard let lacking = checker.lackingInRoom() else { return }
            checker.fail("in the room \(lacking)")
        case .session where plan.client.closesAfter == nil && !mayWaitForEachOther:
            for outbox in outboxes {
                guard let message = outbox.lacking else { continue }
                checker.fail("\(outbox.name): \(message) was accepted with a store, and does not arrive")
            }
        // A broker may drop messages for slow subscribers.
        case .kept
        where plan.acknowledges && plan.client.closesAfter == nil && !wasServerKilled && checker.bytesSent < 500_000:
            for number in clients.indices {
                guard let message = checker.owed(to: "client\(number)") else { continue }
                checker.fail("the broker has acknowledged \(message), and client\(number) has not processed it")
            }
        case .kept where plan.filters > 0 && checker.bytesSent < 500_000 && plan.client.closesAfter == nil:
            for number in clients.indices {
                guard let message = checker.owed(to: "client\(number)") else { continue }
                checker.fail("the broker has acknowledged \(message), and client\(number) did not receive it")
            }
        default: break
        }
    }

    /// Whether both apps send inside the loops in which they receive, so that each may wait for the other.
    private var mayWaitForEachOther: Bool {
        plan.client.appetite == .answering && plan.server.appetite == .answering
    }

    /// Whether all operations must end without a close.
    private var mustProgress: Bool {
        guard plan.isCalm else { return false }
        // A refused message must not block those behind it.
        if plan.style == .kept, plan.refuses {
            return plan.client.appetite == .atOnce && !plan.acknowledges && plan.filters == 0
        }
        guard plan.style != .kept, plan.style != .room else { return false }
        if plan.style == .asking { return true }
        if plan.style == .session {
            // A server with a small limit may end every new connection or session of a client, because the client repeats
            // its messages.
            if plan.maximumBuffered > 0 { return false }
            let answering = [plan.client, plan.server].filter { $0.appetite == .answering }
            // With an intruder, the small buffer may hold less than one message.
            if plan.intruder != nil, !answering.isEmpty { return false }
            // Two apps that send inside their loops may each wait until the other one has room, or until it has
            // processed a message.
            let mayBeFull = max(plan.client.messageBuffer, plan.server.messageBuffer) < 1024
            return !plan.acknowledges && !mayBeFull || answering.count < 2
        }
        // A supervisor connects again for as long as its server closes.
        if plan.style == .greeted, plan.server.closesAfter != nil { return false }
        // The end of a connection may be lost, and is not repeated.
        if plan.carrier == .datagrams, plan.isLossy { return false }
        let apps = plan.carrier.isBroker ? [plan.client] : [plan.client, plan.server]
        // Over plain connections, two apps that answer may each wait until the other one reads. A broker always reads.
        // A receipt of STOMP may come after more messages than an app that waits for it lets arrive.
        let mayAnswer = plan.carrier.isAcknowledged && !plan.carrier.isSTOMP
        return apps.allSatisfy { $0.appetite != .never && ($0.appetite != .answering || mayAnswer) }
    }

    private func runs(_ seconds: Int64, _ condition: () -> Bool) -> Bool {
        let stop = world.run(until: world.now + seconds * Self.second, steps: world.steps + Self.stepLimit) {
            checkMemory()
            checkSum()
            if world.mostCalls > Self.callLimit { checker.fail("one step made \(world.mostCalls) system calls") }
            return condition() || checker.violation != nil
        }
        if stop == .stepsOver {
            checker.fail("\(Self.stepLimit) steps did not suffice: \(checker.pending.values.sorted().prefix(3))")
        }
        return stop == .met
    }

    /// Fails if the server's only connection buffers more between kernel and app than its limits.
    private func checkMemory() {
        guard watchesMemory, served == 1, serving == 1, !wasKilled, plan.bound.received > 0 else { return }
        let received = server.bytesReceived - tls.overhead.received - taken
        if received > plan.bound.received {
            checker.fail("the server buffers \(received) received bytes, above \(plan.bound.received)")
        }
        let unsent = accepted - (server.bytesSent - tls.overhead.sent)
        if unsent > plan.bound.unsent {
            checker.fail("the server buffers \(unsent) unsent bytes, above \(plan.bound.unsent)")
        }
    }

    /// Fails if the server keeps more for all clients together than its limit.
    private func checkSum() {
        guard watchesMemory, plan.maximumBuffered > 0, !wasKilled else { return }
        let kept =
            plan.style == .session
            ? acknowledged - taken
            : max(0, server.bytesReceived - tls.overhead.received - taken) + max(0, accepted - server.bytesSent)
        // The rest is two blocks of one read call, and for each client a message in transit to the app.
        let most = plan.maximumBuffered + 131_072 + plan.clients * (plan.maximumMessage + 14)
        if kept > most { checker.fail("the server buffers \(kept) bytes for all its clients, above \(most)") }
    }

    private func stuck(_ text: String) {
        checker.fail("\(text): \(checker.pending.sorted { $0.key < $1.key }.map(\.value).prefix(5))")
    }

    private func finish() {
        let stop = world.run(until: world.now + 7_200 * Self.second, steps: world.steps + Self.stepLimit)
        if stop != .idle { checker.fail("timers or work are left after close: \(stop)") }
        if !checker.pending.isEmpty { stuck("is pending") }
        if world.kernel.openDescriptors > 0 {
            checker.fail("\(world.kernel.openDescriptors) descriptors are left after close")
        }
        if plan.isCalm, tls.serversOfDatagrams > tls.clientsOfDatagrams {
            checker.fail(
                "the server has begun \(tls.serversOfDatagrams) handshakes, and \(tls.clientsOfDatagrams) clients have returned their cookies"
            )
        }
        for message in checker.expected
        where checker.arrived[message] == nil && !wasKilled && (!wasReset || plan.carrier.isRequests) {
            checker.fail(
                "\(message) was written, its connection was closed with nothing undelivered, and it did not arrive"
            )
        }
        // A server over its limit ends a session, and drops its messages.
        let mayForget = plan.maximumBuffered > 0
        for message in checker.acknowledged where checker.arrived[message] == nil && !wasKilled && !mayForget {
            checker.fail("\(message) was acknowledged in a session, and its app did not receive it")
        }
        if plan.acknowledges {
            for message in checker.acknowledged where !checker.processed.contains(message) {
                checker.fail("\(message) was acknowledged in a session, and its app had not processed it")
            }
        }
        for outbox in outboxes { outbox.checkEnd() }
        requests.checkEnd()
        for (message, record) in checker.sent where record.outcome == nil && !record.isLost {
            checker.fail("\(message) has no outcome")
        }
    }

    private func spawnEnding(_ end: @escaping @Sendable () async -> Void) {
        world.run(in: server) {
            _ = Task(executorPreference: serverLoop) { await end() }
        }
    }

    private func heal() {
        for (process, _) in clients {
            var path = plan.path
            (path.parameters.loss, path.parameters.duplication) = (0, 0)
            world.kernel.setPath(process.host, gate, path)
            process.pausedUntil = 0
            process.descriptorLimit = .max
        }
        server.pausedUntil = 0
        server.descriptorLimit = .max
    }

    private func happen(_ fault: StackPlan.Fault) {
        guard !isOver else { return }
        world.trace.note(30, 0, 0, "fault: \(fault)")
        let client = clients[random.int(0...clients.count - 1)].process
        switch fault {
        case .cut(let length):
            var path = world.kernel.path(client.host, gate)
            path.cutUntil = world.now + length
            world.kernel.setPath(client.host, gate, path)
        case .pause(let isServer, let length): (isServer ? server : client).pausedUntil = world.now + length
        case .reset:
            wasReset = true
            world.kernel.resetConnections(client.host, gate)
        case .damage:
            (wasReset, wasDamaged) = (true, true)
            var path = world.kernel.path(client.host, gate)
            path.isDamaging = true
            world.kernel.setPath(client.host, gate, path)
        case .descriptors(let isServer, let length):
            let process = isServer ? server : client
            process.descriptorLimit = process.openDescriptors
            world.after(length) { process.descriptorLimit = .max }
        case .kill(let isServer, let losesPower, let pause):
            guard isServer else { return killClient(client, losesPower: losesPower, for: pause) }
            guard !server.isDead else { return }
            wasKilled = true
            world.kill(server, losesPower: losesPower)
            wasServerKilled = true
            serverAge += 1
            checker.forgetOwed()
            // A server that acknowledges after processing has processed what it has acknowledged.
            if !plan.acknowledges { for outbox in outboxes { outbox.forgetOwed() } }
            world.after(pause) { [unowned self] in restartServer() }
        }
    }

    /// Kills a process of a client, unless it is dead. Another one starts in its place after a pause.
    func killClient(_ client: SimulatedProcess, losesPower: Bool = false, for pause: Int64 = 1_000_000) {
        guard !isOver, !client.isDead else { return }
        wasKilled = true
        world.kill(client, losesPower: losesPower)
        outbox(of: client)?.wasKilled()
        for (_, ender) in enders.sorted(by: { $0.key < $1.key }) where ender.process === client {
            spawnEnding(ender.end)
        }
        world.after(pause) { [unowned self] in restart(client) }
    }

    private func restartServer() {
        guard !isOver else { return }
        serverAge += 1
        server = world.startProcess("server\(world.processes.count)", host: server.host)
        serverLoop = world.makeLoop(in: server, hasEdges: plan.hasEdges)
        startServer()
    }

    private func restart(_ client: SimulatedProcess) {
        guard !isOver, let number = clients.firstIndex(where: { $0.process === client }) else { return }
        // The process had acknowledged messages that its app had not taken.
        if plan.filters > 0 { checker.forgetOwed(to: "client\(number)") }
        let process = world.startProcess("client\(world.processes.count)", host: client.host)
        clients[number] = (process, world.makeLoop(in: process, hasEdges: plan.hasEdges))
        startClient(number)
    }

    private func outbox(of client: SimulatedProcess) -> StackOutbox? {
        guard let number = clients.firstIndex(where: { $0.process === client }), number < outboxes.count else {
            return nil
        }
        return outboxes[number]
    }

    private func intrude(_ kind: StackIntruder.Kind) {
        let process = world.startProcess("intruder")
        let loop = world.makeLoop(in: process, hasEdges: plan.hasEdges)
        world.kernel.setPath(process.host, server.host, plan.path)
        let options = plan.carrier.options + ["max-message=\(plan.maximumMessage)"]
        let url =
            kind == .mute
            ? "tcp://\(server.hostName):\(port)?framing=u16" : "\(endpoint)?\(options.joined(separator: "&"))"
        intrusion = true
        world.run(in: process) {
            _ = Task(executorPreference: loop) {
                await StackIntruder(self, kind, url, on: loop, process).live()
                self.intrusion = false
            }
        }
    }

    // MARK: For users

    /// An app at the server has received a message of this size.
    func takes(_ bytes: Int) {
        taken += bytes
    }

    /// Whether some clients have not ended.
    var hasClients: Bool { living > 0 }

    /// A session server has acknowledged a message of this size, and buffers it until its app receives it.
    func acknowledges(_ bytes: Int) {
        acknowledged += bytes
    }

    /// The numeric address of the server.
    var serverAddress: (host: String, port: UInt16) {
        (Self.name(of: server.host), port)
    }

    private static func name(of host: UInt32) -> String {
        [24, 16, 8, 0].map { String(host >> $0 & 255) }.joined(separator: ".")
    }

    /// A client has sent its last message.
    func hasSent() {
        silent += 1
    }

    /// Whether others on the same topic have more to send.
    var mustWait: Bool { plan.isShared && silent < plan.clients }

    /// A connection of the server, or a session, has ended or is ending, so it may drop received messages.
    func stopsWatching() {
        watchesMemory = false
    }

    /// A connection at the server has accepted a message of this size.
    func accepts(_ bytes: Int) {
        accepted += bytes
    }

    func newUser() -> Int {
        users += 1
        return users
    }

    /// The user is a process of a client with a store.
    func belongs(_ user: Int, to outbox: StackOutbox) {
        outboxOfUser[user] = outbox
        outbox.begins()
    }

    /// The store of the client that has sent a message, if it has one.
    func outbox(of message: StackMessage) -> StackOutbox? { outboxOfUser[message.user] }

    func draw(_ range: ClosedRange<Int>) -> Int {
        random.int(range)
    }

    func chance(_ percent: Int) -> Bool {
        random.chance(percent)
    }

    private struct Ender {
        var process: SimulatedProcess?
        var end: @Sendable () async -> Void
    }

    /// Registers a closure that runs when the schedule is over, or when the process is killed. The result is its number,
    /// which removes it.
    func whenOver(of process: SimulatedProcess? = nil, _ end: @escaping @Sendable () async -> Void) -> Int {
        enderCount += 1
        if isOver || process?.isDead == true { spawnEnding(end) }
        enders[enderCount] = Ender(process: process, end: end)
        return enderCount
    }

    /// Registers a closure that ends a server when the schedule is over.
    private func endsWithSchedule(_ end: @escaping @Sendable () async -> Void) {
        let box = EnderBox()
        box.id = whenOver {
            await end()
            self.isDone(box.id)
        }
    }

    func isDone(_ ender: Int) {
        enders[ender] = nil
    }

    /// A size of a message: small, around the limit, or anything between.
    func drawSize(_ limit: Int) -> Int {
        let most = max(StackMessage.headSize, limit - (plan.style == .plain ? 0 : 200))
        switch draw(0...9) {
        case 0...4: return draw(StackMessage.headSize...max(StackMessage.headSize, min(most, 256)))
        case 5, 6: return draw(StackMessage.headSize...most)
        case 7: return most
        case 8: return plan.style == .plain ? most + 1 : most
        default: return max(StackMessage.headSize, most - draw(0...16))
        }
    }

    // MARK: The server

    private func startServer() {
        serverStart += 1
        let (start, loop, process) = (serverStart, serverLoop, server)
        var options = plan.serverOptions
        if plan.style == .plain, plan.maximumBuffered > 0 {
            options.append("max-buffered=\(plan.maximumBuffered)")
        }
        let url = "\(plan.scheme)://\(process.hostName):\(port)?\(options.joined(separator: "&"))"
        world.run(in: process) {
            _ = Task(executorPreference: loop) {
                while !process.isDead {
                    do {
                        return try await self.serve(url, start, on: loop, process)
                    } catch let error as TransportError
                        where error.code == .resourcesExhausted && process.descriptorLimit < .max
                    {
                        // The server starts again, as under a service manager.
                        await self.world.pause(100_000_000)
                    } catch {
                        if !process.isDead { self.checker.fail("the server: \(error)") }
                        return
                    }
                }
            }
        }
    }

    private func serve(_ url: String, _ start: Int, on loop: EventLoop, _ process: SimulatedProcess) async throws {
        if plan.carrier.isBroker {
            let broker = try await EmbeddedServer.start(url, on: loop, registry: registry)
            opened(broker.endpoint)
            endsWithSchedule { await broker.stop() }
            return
        }
        switch plan.style {
        // The broker was served above.
        case .kept: break
        case .plain, .greeted:
            let listener = try await registry.listen(url, on: loop, observer: { _ in self.stopsWatching() })
            opened(listener.endpoint)
            endsWithSchedule { await listener.close() }
            while let connection = try await listener.accept() {
                let user = ConnectionUser(
                    self,
                    connection,
                    plan.server,
                    on: loop,
                    isServer: true,
                    process,
                    limit: plan.maximumMessage
                )
                serving += 1
                served += 1
                _ = Task(executorPreference: plan.server.isOnLoop ? loop : nil) {
                    let mustGreet = self.plan.style == .greeted
                    let isReady = mustGreet ? await StackGreeting.receive(self, connection) : true
                    if isReady { await user.live() } else { await connection.close() }
                    self.serving -= 1
                }
            }
        case .session, .asking:
            let listener = try await registry.listen(url, on: loop)
            opened(listener.endpoint)
            let sessions = SessionServer(sessionConfiguration, on: loop) { session in
                SessionUser(self, self.plan.server, on: loop, process, "server\(start)").live(session)
            }
            endsWithSchedule {
                await listener.close(); await sessions.close()
            }
            try await sessions.serve(listener)
        case .room:
            var limits = ChatRoom.Limits()
            limits.outboxCount = plan.roomOutbox
            let room = ChatRoom(limits, on: loop)
            let chat = try await ChatServer.start(url, room: room, registry: registry)
            opened(chat.endpoint)
            endsWithSchedule { await chat.stop() }
        }
    }

    private var sessionConfiguration: SessionServer.Configuration {
        var configuration = SessionServer.Configuration()
        configuration.supervisor.messageBuffer = plan.server.messageBuffer
        if plan.style == .asking { configuration.supervisor.delivery.mode = .plain }
        if let asking = plan.endurance?.server { asking.apply(to: &configuration.supervisor.keepalive) }
        if plan.maximumBuffered > 0 { configuration.maximumBuffered = plan.maximumBuffered }
        guard plan.intruder != nil else { return configuration }
        configuration.maximumSessions = StackIntruder.maximumSessions
        configuration.supervisor.messageBufferBytes = StackIntruder.maximumEarlyBytes
        return configuration
    }

    private func opened(_ endpoint: Endpoint) {
        port = endpoint.port ?? port
        if let kind = plan.decoy, decoy == nil { open(kind) }
        if let (kind, until) = plan.middlebox, gate == server.host { open(kind, until: until) }
        let host = plan.decoy == nil ? Self.name(of: gate) : Self.twofold
        self.endpoint = "\(plan.scheme)://\(host):\(port)"
    }

    /// A name with the addresses of the decoy and of the server.
    private static let twofold = "twofold.example"

    private func open(_ kind: StackDecoy.Kind) {
        let process = world.startProcess("decoy")
        let loop = world.makeLoop(in: process, hasEdges: plan.hasEdges)
        world.addresses[Self.twofold] = [process.hostName, server.hostName]
        guard let address = SocketAddress(numeric: process.hostName, port: port) else { return }
        let bound = LoopBound(self, to: loop)
        world.run(in: process) {
            loop.execute {
                do throws(SystemError) {
                    bound.value.decoy = try StackDecoy(kind, at: address, on: loop)
                } catch {
                    bound.value.checker.fail("the decoy: \(error)")
                }
            }
        }
        endsWithSchedule { loop.execute { bound.value.decoy?.close() } }
    }

    /// Puts a middlebox before the server, which lets WebSockets pass from a time on.
    private func open(_ kind: StackMiddlebox.Kind, until: Int64) {
        let process = world.startProcess("middlebox")
        let loop = world.makeLoop(in: process, hasEdges: plan.hasEdges)
        gate = process.host
        for (client, _) in clients { world.kernel.setPath(client.host, gate, plan.path) }
        guard let address = SocketAddress(numeric: process.hostName, port: port) else { return }
        let (bound, server) = (LoopBound(self, to: loop), (server.hostName, port))
        world.run(in: process) {
            loop.execute {
                do throws(SystemError) {
                    bound.value.middlebox = try StackMiddlebox(kind, at: address, to: server, on: loop)
                } catch {
                    bound.value.checker.fail("the middlebox: \(error)")
                }
            }
        }
        world.after(until) { loop.execute { bound.value.middlebox?.kind = nil } }
        endsWithSchedule { loop.execute { bound.value.middlebox?.close() } }
    }

    // MARK: Clients

    private func startClient(_ number: Int) {
        let (process, loop) = clients[number]
        clientStarts += 1
        // A bully does not end by itself.
        let mustEnd = !plan.hasBully || number > 0
        if mustEnd { living += 1 }
        world.run(in: process) {
            _ = Task(executorPreference: plan.client.isOnLoop ? loop : nil) {
                await self.client(number, process, on: loop)
                if mustEnd { self.living -= 1 }
            }
        }
    }

    private func client(_ number: Int, _ process: SimulatedProcess, on loop: EventLoop) async {
        // A squatter connects first.
        while intrusion, plan.intruder == .squatter, !isOver { await world.pause(100_000_000) }
        let limit = plan.limit(ofClient: number)
        var options = plan.options
        options.append("max-message=\(limit)")
        if plan.carrier.isBroker {
            let topic = plan.carrier.destination(plan.isShared ? "loop" : "loop/\(number)")
            options.append("publish=\(topic)")
            // The app says when its filters are complete.
            options.append(plan.filters > 0 ? "unclaimed-wait=1h" : "subscribe=\(topic)")
        }
        if plan.style == .kept, !plan.carrier.isSTOMP { options.append("client-id=client\(number)") }
        if plan.isDoubter(number) { options.append("ca=\(Self.otherAuthority)") }
        let url = "\(endpoint)?\(options.joined(separator: "&"))"
        do {
            if plan.style == .plain {
                for index in 0..<plan.connections where !isOver {
                    guard let connection = await connect(url, on: loop, isDoubter: plan.isDoubter(number)) else {
                        hasSent()
                        continue
                    }
                    let user = ConnectionUser(
                        self,
                        connection,
                        plan.client(number),
                        on: loop,
                        isServer: false,
                        process,
                        limit: limit,
                        exits: plan.exits && index == plan.connections - 1
                    )
                    await user.live()
                }
            } else {
                var configuration = SupervisorConfiguration()
                if plan.style == .session || plan.style == .room { configuration.delivery.mode = .session }
                configuration.keepalive.interval = .seconds(draw(1...60))
                // A broker ends several connections for each message that it refuses. A session server ends none for that.
                // If its clients returned as fast whenever it keeps too much for them, a schedule would never end.
                if plan.refuses, plan.carrier.isBroker { configuration.backoff = .fixed(.milliseconds(100)) }
                if let asking = plan.endurance?.client { asking.apply(to: &configuration.keepalive) }
                configuration.delivery.window = [1, 2, 64][draw(0...2)]
                configuration.messageBuffer = plan.client.messageBuffer
                let whole = TransportConfiguration(endpoints: [try Endpoint(url)], supervisor: configuration)
                let user = SessionUser(self, plan.client, on: loop, process, "client\(number)")
                if number < outboxes.count { user.opens(outboxes[number]) }
                let supervisor = try Supervisor(whole, registry: registry, on: loop) { setup in
                    if plan.filters > 0 || plan.requests.client > 0 || user.store != nil { setup.observer = user }
                    if plan.endurance != nil { setup.observer = EnduranceObserver(run: self, name: "client\(number)") }
                    if plan.style == .greeted { setup.greeting = StackGreeting.closure(self, on: loop) }
                    setup.store = user.store
                    guard plan.style == .session, plan.acknowledges, user.store == nil else { return }
                    // The client's next process resumes the same session.
                    let id = SessionID(high: 0x636c_6965_6e74, low: UInt64(number))
                    setup.client = SessionClient(id: id, launch: UInt16(clientStarts))
                }
                starts[number, default: 0] += 1
                await user.live(supervisor, isFirst: starts[number] == 1)
            }
        } catch {
            checker.fail("client \(number): \(error)")
        }
    }

    /// A text in PEM format, percent-encoded, that is not the certificate of the server.
    private static let otherAuthority = "-----BEGIN%20OTHER-----"

    /// - Parameter isDoubter: whether the client does not trust the server, so that every attempt must fail.
    private func connect(_ url: String, on loop: EventLoop, isDoubter: Bool) async -> (any Connection)? {
        for _ in 0..<3 where !isOver {
            let operation = checker.begin("connect to \(url)")
            let attempt = Task(executorPreference: loop) { () -> (any Connection)? in
                do throws(TransportError) {
                    let connection = try await self.registry.connect(url, on: loop)
                    if isDoubter { self.checker.fail("a client has connected to a server that it does not trust") }
                    return connection
                } catch {
                    self.world.trace.note(31, 0, 0, "connecting failed: \(error)")
                    if isDoubter, error.code == .certificateRejected { return nil }
                    // A server over its limit may end a client whose connection is not open yet.
                    // An app that closes at once does so before a WebSocket has proven that it works.
                    let mayBeEnded =
                        self.plan.path.parameters.loss > 0 || self.plan.maximumBuffered > 0
                        || self.plan.fallsBack && error.code == .closedByPeer
                    if self.plan.isCalm, !mayBeEnded, !self.isOver, error.code != .cancelled {
                        self.checker.fail("connecting failed: \(error)")
                    }
                    return nil
                }
            }
            if plan.client.cancelled > 0, chance(20) { world.after(Int64(draw(0...1_000_000))) { attempt.cancel() } }
            let connection = await attempt.value
            checker.end(operation)
            if let connection { return connection }
            await world.pause(Int64(draw(1_000_000...1_000_000_000)))
        }
        return nil
    }
}

/// The number of a registered closure, for the closure itself.
final class EnderBox: @unchecked Sendable {
    var id = 0
}

extension StackPlan.Endurance.Asking {
    func apply(to keepalive: inout KeepaliveConfiguration) {
        keepalive.interval = .seconds(interval)
        keepalive.timeout = .seconds(timeout)
    }
}

/// Fails a schedule whose connections must endure if one of them ends before an app closes it.
struct EnduranceObserver: SupervisorObserver {
    let run: StackRun
    let name: String

    func note(_ note: SupervisorEvent, at _: Instant) {
        guard case .connectionEnded(_, let reason) = note, !run.isOver else { return }
        run.checker.fail("a connection of \(name) did not endure: \(reason)")
    }
}
