import Codecs
import CommandSupport
import EmbeddedServers
import Protocols
import Simulation
import SocketIO
import Transfers
import TransportAPI
import Transports

/// An app that uses a supervisor, or a session at a server.
final class SessionUser: @unchecked Sendable {
    // Unchecked, because only the thread of the simulation uses it.

    private let run: StackRun
    private let app: StackPlan.App
    private let loop: EventLoop
    private let process: SimulatedProcess
    private let client: String
    private let name: String
    private let number: Int
    private var isClosing = false
    private var isServer = false
    /// The subscriptions of an `MQTTClient`, if the plan has some.
    private var subscriptions: StackSubscriptions?
    /// The store of this process of a client, and what is promised to the client; `nil` if there is none.
    private(set) var store: StackStore?
    private var outbox: StackOutbox?
    /// How many failures of the store the supervisor has told.
    private var toldFailures = 0

    init(_ run: StackRun, _ app: StackPlan.App, on loop: EventLoop, _ process: SimulatedProcess, _ name: String) {
        (self.run, self.app, self.loop, self.process) = (run, app, loop, process)
        number = run.newUser()
        client = name
        self.name = "\(name)/\(number)"
    }

    /// Opens the store of a client. Call this before the supervisor is made.
    func opens(_ outbox: StackOutbox) {
        self.outbox = outbox
        store = StackStore(run, outbox, process)
        run.belongs(number, to: outbox)
    }

    /// Uses a client until its end.
    ///
    /// - Parameter isFirst: whether it is the first process of its client.
    func live(_ supervisor: Supervisor, isFirst: Bool) async {
        let box = EnderBox()
        box.id = run.whenOver(of: process) {
            await self.close(supervisor); self.run.isDone(box.id)
        }
        let preference: EventLoop? = app.isOnLoop ? loop : nil
        if isAcknowledging { _ = supervisor.deliveries }
        let subscriptions =
            run.plan.filters > 0 ? StackSubscriptions(run, client, supervisor, forgets: !isFirst) : nil
        self.subscriptions = subscriptions
        let receiver = Task(executorPreference: preference) {
            if let subscriptions {
                await subscriptions.live(on: preference) { await self.take($0, at: $1) { await supervisor.send($0) } }
            } else {
                await self.takeAll({ supervisor.deliveries }, { supervisor.messages }) { await supervisor.send($0) }
            }
        }
        let returned = Task(executorPreference: preference) {
            guard let outbox = self.outbox else { return }
            for await message in supervisor.undelivered where !self.process.isDead {
                if let sent = StackMessage(message.payload.bytes) { outbox.returns(sent, message.outcome) }
            }
        }
        let requests = makeRequests(run.plan.requests.client) {
            supervisor.onRequest(on: $0, $1)
        } _: { payload, timeout in
            do throws(RequestError) {
                return .success(try await supervisor.request(payload, timeout: timeout))
            } catch {
                return .failure(error)
            }
        }
        let transfers = makeTransfers(run.plan.transfers.client) { Transfers(over: supervisor) }
        let ended = Task(executorPreference: preference) {
            let operation = self.run.checker.begin("\(self.name): closed")
            await supervisor.closed()
            self.run.checker.end(operation)
        }
        supervisor.connect()
        if run.plan.style == .room { await enterRoom(supervisor) }
        await sendAll(through: supervisor) { await supervisor.send($0) }
        await requests?.value
        await transfers?.value
        await run.world.pause(app.closesAfter ?? 1_000_000_000)
        await waitForArrivals()
        await close(supervisor)
        await ended.value
        await receiver.value
        await returned.value
        if let store, !process.isDead, toldFailures < store.failures.all - store.failures.first {
            run.checker.fail("\(name): its store failed \(store.failures) times, and it was told \(toldFailures) times")
        }
        run.isDone(box.id)
    }

    /// Waits until it has entered the room. In calm schedules it also waits for all other members.
    private func enterRoom(_ supervisor: Supervisor) async {
        for await state in supervisor.states {
            if case .open = state { break }
        }
        if !isClosing { run.checker.subscribes(name) }
        for _ in 0..<60 where run.plan.isCalm && !run.isOver && run.checker.members < run.plan.clients {
            await run.world.pause(1_000_000_000)
        }
    }

    private func close(_ supervisor: Supervisor) async {
        if let store, !isClosing, !process.isDead, toldFailures + 1 < store.failures.all {
            // One call may be in progress.
            run.checker.fail("\(name): its store failed \(store.failures) times, and it was told \(toldFailures) times")
        }
        isClosing = true
        if !process.isDead {
            run.requests.closes()
            run.transfers.closes()
        }
        run.checker.leaves(name)
        let operation = run.checker.begin("\(name): close")
        await supervisor.close()
        run.checker.end(operation)
    }

    /// Whether the app acknowledges what it has processed.
    private var isAcknowledging: Bool { run.plan.acknowledges }

    /// Waits until the app has processed all messages that the broker has acknowledged for the client's kept session.
    /// A schedule that waits too long fails.
    private func waitForArrivals() async {
        if run.plan.style == .room { return await waitForMembers() }
        if run.plan.filters > 0 {
            guard app.closesAfter == nil else { return }
            while !run.isOver, !process.isDead, run.checker.bytesSent < 500_000, run.checker.owed(to: client) != nil {
                await run.world.pause(1_000_000_000)
            }
            return
        }
        if let outbox, app.closesAfter == nil {
            while !run.isOver, !process.isDead, outbox.lacking != nil { await run.world.pause(1_000_000_000) }
        }
        guard run.plan.style == .kept, run.plan.acknowledges, app.closesAfter == nil else { return }
        while !run.isOver, !run.wasServerKilled, !process.isDead, run.checker.owed(to: client) != nil {
            await run.world.pause(1_000_000_000)
        }
    }

    /// Waits until all members of the room have received the written messages, or a report of the missed ones. A schedule
    /// that waits too long fails.
    private func waitForMembers() async {
        guard run.plan.isCalm, app.closesAfter == nil else { return }
        while !run.isOver, run.checker.lackingInRoom() != nil { await run.world.pause(1_000_000_000) }
    }

    /// Uses a session at the server, which the session server ends. Call it in the handler of the session.
    func live(_ session: Session) {
        if isAcknowledging { _ = session.deliveries }
        isServer = true
        let events = session.events
        _ = makeRequests(run.plan.requests.server) {
            session.onRequest(on: $0, $1)
        } _: { payload, timeout in
            do throws(RequestError) {
                return .success(try await session.request(payload, timeout: timeout))
            } catch {
                return .failure(error)
            }
        }
        _ = makeTransfers(run.plan.transfers.server) { Transfers(over: session) }
        _ = Task(executorPreference: loop) {
            for await event in events where event == .unexpectedReply {
                self.run.requests.isUnexpected(at: self.name)
            }
            self.run.stopsWatching()
        }
        _ = Task(executorPreference: loop) {
            let receiver = Task(executorPreference: self.loop) {
                await self.takeAll({ session.deliveries }, { session.messages }) { await session.send($0) }
            }
            await self.sendAll { await session.send($0) }
            await receiver.value
        }
    }

    private func takeAll(
        _ deliveries: () -> Subscription<ReceivedMessage>,
        _ messages: () -> Subscription<Payload>,
        _ send: @escaping @Sendable (Payload) async -> SendOutcome
    ) async {
        guard isAcknowledging else { return await iterate(messages) { await take($0, send) } }
        await iterate(deliveries) { message in
            if !isServer, !process.isDead { outbox?.gives(message) }
            await take(message.payload, of: message, send)
            if !isServer, !process.isDead { outbox?.acknowledges(message) }
            message.acknowledge()
        }
    }

    /// Takes all elements, in one loop or in many.
    private func iterate<Element: Sendable>(
        _ sequence: () -> Subscription<Element>,
        _ take: (Element) async -> Void
    ) async {
        guard let leaving = app.leaving, run.plan.style != .plain else {
            for await element in sequence() { await take(element) }
            return
        }
        guard let pause = leaving.pause else {
            var (iterator, count) = (sequence().makeAsyncIterator(), 0)
            while let element = await iterator.next() {
                await take(element)
                count += 1
                // The next sequence is made before the last one is released.
                if count % leaving.after == 0 { iterator = sequence().makeAsyncIterator() }
            }
            return
        }
        while await leaves(sequence(), after: leaving.after, take) { await run.world.pause(pause) }
    }

    /// Takes elements in a loop, and returns whether it has left the loop before the end of the sequence.
    private func leaves<Element: Sendable>(
        _ sequence: Subscription<Element>,
        after limit: Int,
        _ take: (Element) async -> Void
    ) async -> Bool {
        var count = 0
        for await element in sequence {
            await take(element)
            count += 1
            if count == limit { return true }
        }
        return false
    }

    // MARK: Requests

    /// Answers the requests of the peer, and begins the own ones.
    ///
    /// - Returns: the task of the own ones; `nil` if the schedule has no requests.
    private func makeRequests(
        _ count: Int,
        _ onRequest: ((any TaskExecutor)?, @escaping RequestHandler) -> Void,
        _ ask: @escaping @Sendable (Payload, Duration) async -> Result<Payload, RequestError>
    ) -> Task<Void, Never>? {
        guard run.plan.requests.client > 0 else { return nil }
        onRequest(app.isOnLoop ? loop : nil) { [self] payload in
            if run.chance(30) { await run.world.pause(Int64(run.draw(0...20_000_000))) }
            if run.chance(5) { await run.world.pause(Int64(run.draw(0...10_000_000_000))) }
            // What a killed process does has no effect.
            guard !process.isDead else { return payload }
            return try run.requests.handle(payload, at: name, isServer: isServer)
        }
        return Task(executorPreference: app.isOnLoop ? loop : nil) {
            // A few at a time.
            var callers: [Task<Void, Never>] = []
            let width = min(count, self.run.draw(1...4))
            for first in 0..<width {
                callers.append(
                    Task(executorPreference: self.app.isOnLoop ? self.loop : nil) {
                        for index in stride(from: first, to: count, by: width) where !self.run.isOver {
                            await self.makeRequest(index, ask)
                        }
                    }
                )
            }
            for caller in callers { await caller.value }
        }
    }

    private func makeRequest(
        _ index: Int,
        _ ask: @escaping @Sendable (Payload, Duration) async -> Result<Payload, RequestError>
    ) async {
        if run.chance(50) { await run.world.pause(Int64(run.draw(0...500_000_000))) }
        let request = StackMessage(user: number, sender: StackRequests.sender, number: index)
        // Some are larger than any side accepts.
        let size = run.chance(3) ? run.plan.maximumMessage + 1 : run.draw(StackMessage.headSize...200)
        let timeout: Int64 = [10_000_000, 500_000_000, 5_000_000_000, 60_000_000_000][run.draw(0...3)]
        let operation = run.checker.begin("\(name): request \(index) within \(timeout / 1_000_000) ms")
        let start = run.world.now
        let task = Task(executorPreference: app.isOnLoop ? loop : nil) {
            await ask(Payload(request.bytes(size)), .nanoseconds(timeout))
        }
        let isCancelled = run.chance(10)
        if isCancelled { run.world.after(Int64(run.draw(0...200_000_000))) { task.cancel() } }
        let result = await task.value
        run.checker.end(operation)
        let time = run.world.now - start
        let end = if case .failure(let error) = result { "failed: \(error)" } else { "has its answer" }
        run.world.trace.note(37, index, Int(time), "\(name): request \(index) \(end)")
        guard !process.isDead else { return }
        run.requests.ended(request, result, of: name, after: time, timeout: timeout, wasCancelled: isCancelled)
    }

    // MARK: Transfers

    /// Takes the transfers of the peer, and begins the own ones.
    ///
    /// - Returns: the task of the own ones; `nil` if the schedule has no transfers.
    private func makeTransfers(_ count: Int, _ make: () -> Transfers) -> Task<Void, Never>? {
        guard run.plan.transfers.client > 0 else { return nil }
        let transfers = make()
        transfers.onOffer { [self] in try await run.transfers.take($0, at: name, process) }
        return Task(executorPreference: app.isOnLoop ? loop : nil) { [self] in
            await run.transfers.sendAll(count, through: transfers, of: number, name, process)
        }
    }

    // MARK: Messages

    private func sendAll(
        through supervisor: Supervisor? = nil,
        _ send: @escaping @Sendable (Payload) async -> SendOutcome
    ) async {
        var senders: [Task<Void, Never>] = []
        for sender in 0..<app.senders {
            senders.append(
                Task(executorPreference: app.isOnLoop ? loop : nil) {
                    for index in 0..<self.app.messages where !self.run.isOver {
                        if self.app.pause > 0 { await self.run.world.pause(Int64(self.run.draw(0...self.app.pause))) }
                        let message = StackMessage(user: self.number, sender: sender, number: index)
                        if let supervisor, let outbox = self.outbox, self.run.chance(70) {
                            await self.submit(message, to: outbox, supervisor)
                        } else {
                            await self.send(message, send)
                        }
                    }
                }
            )
        }
        for sender in senders { await sender.value }
    }

    /// Submits a message to a supervisor with a store. From its acceptance on it is never lost.
    private func submit(
        _ message: StackMessage,
        to outbox: StackOutbox,
        _ supervisor: Supervisor
    ) async {
        let size = run.drawSize(run.plan.maximumMessage)
        run.checker.sends(message, size: size, from: name)
        let operation = run.checker.begin("\(name): submit \(message.number) of \(size) bytes")
        let (payload, age) = (Payload(message.bytes(size)), run.serverAge)
        let task = Task(executorPreference: app.isOnLoop ? loop : nil) { () -> TransportError? in
            do throws(TransportError) {
                _ = try await supervisor.submit(payload)
                return nil
            } catch {
                return error
            }
        }
        if app.cancelled > 0, run.chance(app.cancelled) {
            run.world.after(Int64(run.draw(0...2_000_000))) { task.cancel() }
        }
        let error = await task.value
        run.checker.end(operation)
        let end = error.map { "failed: \($0)" } ?? "accepted"
        run.world.trace.note(38, message.number, error == nil ? 1 : 0, "\(name): submit \(message.number) \(end)")
        guard !process.isDead else { return run.checker.loses(message) }
        if let error { return run.checker.settled(message, .rejected(error)) }
        run.checker.settled(message, .written)
        // A server that was killed meanwhile may have acknowledged it before its app took it.
        if run.plan.acknowledges || age == run.serverAge { outbox.accepts(message) }
    }

    private func send(_ message: StackMessage, _ send: @escaping @Sendable (Payload) async -> SendOutcome) async {
        // A broker that has acknowledged nothing may not work at all, and so the first messages are not refused.
        let isFirst = message.number == 0 && run.plan.style == .kept
        let size = run.drawSize(isFirst ? min(run.plan.maximumMessage, run.plan.serverLimit) : run.plan.maximumMessage)
        let topic = subscriptions?.topic(of: message.number)
        let payload = Payload(message.bytes(size), topic: topic)
        let isSubscribed = subscriptions?.isGranted(topic) != false
        run.checker.sends(message, size: size, from: name)
        let operation = run.checker.begin("\(name): send \(message.number) of \(size) bytes")
        let task = Task(executorPreference: app.isOnLoop ? loop : nil) { await send(payload) }
        if app.cancelled > 0, run.chance(app.cancelled) {
            run.world.after(Int64(run.draw(0...2_000_000))) { task.cancel() }
        }
        let outcome = await task.value
        run.checker.end(operation)
        run.world.trace.note(34, message.number, outcome.isSuccess ? 1 : 0, "\(name): \(message.number) \(outcome)")
        process.isDead ? run.checker.loses(message) : run.checker.settled(message, outcome)
        if !process.isDead, outcome == .acknowledged {
            if run.plan.style == .session {
                run.checker.acknowledges(message)
                if !isServer { run.acknowledges(size) }
            }
            // Over an earlier connection, a broker that was killed may have acknowledged it, and has lost it then.
            if run.plan.style == .kept, isSubscribed, subscriptions?.isAcknowledgedByCurrent != false {
                run.checker.owes(message, to: client)
            }
        }
        let isRefused = size > run.plan.serverLimit
        if isRefused, outcome == .acknowledged {
            run.checker.fail("\(name): message \(message.number) of \(size) bytes is too large, and was acknowledged")
        }
        // STOMP sends nothing again.
        let isRepeated = run.plan.style == .kept && !run.plan.carrier.isSTOMP
        let mustComplete = !isRefused && isRepeated && !run.wasServerKilled && !process.isDead && !isClosing
        if mustComplete, case .unknown(let error) = outcome, error.code != .cancelled {
            run.checker.fail(
                "\(name): message \(message.number), which the session keeps, has no known outcome: \(error)"
            )
        }
    }

    /// How many answers each loop of the app has sent. Two loops do not wait for each other, so each is a sender.
    private var answers: [Int: Int] = [:]
    /// The messages that the app has answered. It answers none again, because each answer that the peer refuses costs a
    /// connection, and the next one brings all unprocessed messages again.
    private var answered: Set<StackMessage> = []

    private func take(
        _ payload: Payload,
        at filter: String? = nil,
        of received: ReceivedMessage? = nil,
        _ send: @escaping @Sendable (Payload) async -> SendOutcome
    ) async {
        if run.plan.style == .room {
            // A room reports missed messages to its members.
            if let notice = ChatMessage.read(payload)?.message, notice.kind == .system {
                let words = notice.text.split(separator: " ")
                return run.checker.misses(
                    words.compactMap { Int($0) }.reduce(0, +),
                    at: name,
                    isCalm: run.plan.isCalm
                )
            }
        }
        if isServer { run.takes(payload.bytes.count) }
        if !process.isDead {
            // After a broken connection a broker repeats messages without an acknowledgement: at QoS 1 of the connection, at
            // QoS 2 of the app.
            let comesOnce = run.plan.style != .kept || run.plan.carrier == .mqtt2 && !run.plan.acknowledges
            let isOnce = !run.wasKilled && comesOnce
            let receiver = filter.map { "\(name)/\($0)" } ?? name
            run.checker.arrives(payload.bytes, at: receiver, isOrdered: isOnce, isOnce: isOnce)
            if isServer, let message = StackMessage(payload.bytes) {
                run.outbox(of: message)?.arrives(message, received, at: name)
            }
        }
        switch app.appetite {
        case .atOnce, .never: break
        case .slowly, .bursts: await run.world.pause(Int64(run.draw(0...20_000_000)))
        case .answering:
            guard let message = StackMessage(payload.bytes), !message.isAnswer, answered.insert(message).inserted
            else { break }
            let sender = subscriptions?.index(of: filter) ?? 0
            answers[sender, default: 0] += 1
            let answer = StackMessage(user: number, sender: sender, number: answers[sender] ?? 0, isAnswer: true)
            await self.send(answer, send)
        }
        if !process.isDead { run.checker.processes(payload.bytes) }
    }
}

extension SessionUser: SupervisorObserver {
    func note(_ note: SupervisorEvent, at _: Instant) {
        subscriptions?.note(note)
        switch note {
        case .storeFailed: toldFailures += 1
        case .unexpectedReply: run.requests.isUnexpected(at: name)
        default: break
        }
    }
}
