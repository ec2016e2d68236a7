import CommandSupport
import Primitives
import Simulation
import SocketIO
import TransportAPI

/// An app that uses one connection. It sends, receives, pings and closes by its plan, and records the results.
final class ConnectionUser: @unchecked Sendable {
    // Unchecked, because only the thread of the simulation uses it.

    private let run: StackRun
    private let connection: any Connection
    private let app: StackPlan.App
    private let loop: EventLoop
    private let number: Int
    private let isServer: Bool
    private let process: SimulatedProcess
    /// The largest message that its connection accepts.
    private let limit: Int
    /// Whether its process ends once the connection is closed.
    private let exits: Bool
    private var answers = 0
    private var isClosing = false
    /// When its first close began.
    private var closeBegan: Int64?
    /// The messages whose sends have returned `written`.
    private var written: [StackMessage] = []

    init(
        _ run: StackRun,
        _ connection: any Connection,
        _ app: StackPlan.App,
        on loop: EventLoop,
        isServer: Bool,
        _ process: SimulatedProcess,
        limit: Int,
        exits: Bool = false
    ) {
        (self.run, self.connection, self.app, self.loop, self.isServer, self.process) = (
            run, connection, app, loop, isServer, process
        )
        (self.limit, self.exits) = (limit, exits)
        number = run.newUser()
    }

    private var name: String { "\(isServer ? "server" : "client") \(number)" }

    func live() async {
        if isSubscriber { run.checker.subscribes(name) }
        let box = EnderBox()
        box.id = run.whenOver {
            await self.close(); self.run.isDone(box.id)
        }
        let preference: EventLoop? = app.isOnLoop ? loop : nil
        let receiver = Task(executorPreference: preference) { await self.receiveAll() }
        let ended = Task(executorPreference: preference) { await self.waitForEnd() }
        var senders: [Task<Void, Never>] = []
        for sender in 0..<app.senders {
            senders.append(Task(executorPreference: preference) { await self.sendAll(sender) })
        }
        let pinger = Task(executorPreference: preference) { await self.pingAll() }
        if let delay = app.closesAfter {
            let closer = Task(executorPreference: preference) {
                await self.run.world.pause(delay)
                await self.close()
            }
            await closer.value
        }
        for sender in senders { await sender.value }
        await pinger.value
        // A server waits for its client to close.
        if isServer { await ended.value }
        await waitForArrivals()
        await close()
        await ended.value
        await receiver.value
        run.isDone(box.id)
    }

    /// Whether it receives all messages of a broker.
    private var isSubscriber: Bool { run.plan.carrier.isAcknowledged && app.appetite != .never }

    /// Waits until every acknowledged message has reached all subscribers.
    private func waitForArrivals() async {
        run.hasSent()
        guard run.plan.carrier.isAcknowledged, run.plan.isCalm else { return }
        // If that takes too long, the schedule ends and fails. Clients that share a topic wait for each other.
        while !run.isOver, !isClosing,
            run.checker.lacking(ofUser: run.plan.isShared ? nil : number) != nil || run.mustWait
        {
            await run.world.pause(1_000_000_000)
        }
    }

    private func close() async {
        isClosing = true
        // Messages that arrive while it closes are dropped.
        if isServer { run.stopsWatching() }
        run.checker.leaves(name)
        let operation = run.checker.begin("\(name): close")
        let before = written
        let began = closeBegan ?? run.world.now
        closeBegan = began
        let undelivered = await connection.close()
        // Without an answer in time, `close` only reports that the other host has all bytes. A reset may still destroy them
        // there.
        let closeTook = run.world.now - began
        let isAnswered = closeTook < 5_000_000_000
        run.checker.end(operation)
        let hasEnded = connection.encryption.map { run.tls.hasEnded($0) } ?? true
        if exits, !run.isOver { run.world.kill(process) }
        let reason = await connection.closed()
        // An open connection that reads everything receives all written messages.
        guard undelivered == 0, isAnswered, reason.error == nil, !isServer, !run.isOver, !run.wasKilled else { return }
        // A server resets a client that takes its last bytes slowly.
        if !hasEnded, run.plan.isCalm, closeTook < 2_000_000_000, mustEndTLS {
            run.checker.fail("\(name) has closed, and the server has sent no close_notify")
        }
        let server = run.plan.server
        guard run.plan.carrier.isStream, server.closesAfter == nil, server.appetite != .never,
            server.appetite != .answering, run.plan.maximumBuffered == 0
        else { return }
        run.checker.expect(before)
    }

    /// Whether the server ends TLS after the client has closed in time. A server over its limit resets clients. A broker
    /// drops messages for a client that leaves, within a record if one is incomplete.
    private var mustEndTLS: Bool {
        // The datagram of close_notify may come after the socket is closed. The connections of requests end on their own.
        if run.plan.carrier.isDatagram || run.plan.carrier.isRequests || run.plan.fallsBack { return false }
        guard run.plan.carrier.isBroker else { return run.plan.maximumBuffered == 0 }
        return isSubscriber && app.appetite != .answering && app.closesAfter == nil && app.cancelled == 0
            && run.plan.clients == 1 && run.checker.bytesSent < 500_000
    }

    private func waitForEnd() async {
        let operation = run.checker.begin("\(name): closed")
        let reason = await connection.closed()
        run.checker.leaves(name)
        run.world.trace.note(32, number, 0, "\(name) ended: \(reason)")
        if !process.isDead, !run.isOver { check(reason) }
        run.checker.end(operation)
    }

    /// Fails if a connection ended in a way that no fault and no app explains.
    private func check(_ reason: CloseReason) {
        if run.plan.endurance != nil, !isClosing { run.checker.fail("\(name) did not endure: \(reason)") }
        guard let error = reason.error else { return checkNotice() }
        if error.detail == TLSProblem.brokenRecord.rawValue, !run.wasDamaged {
            run.checker.fail("\(name) ended without damage: \(error)")
        }
        if run.plan.isCalm { check(error) }
    }

    /// Fails if the end of an encrypted stream counts as the broker's without its close_notify. A broker has no other way
    /// to say that it closes the connection.
    private func checkNotice() {
        guard run.plan.carrier.isBroker, !isClosing, let encryption = connection.encryption,
            !run.plan.carrier.isInsideWebSocket, !run.tls.hasEnded(encryption)
        else { return }
        run.checker.fail("\(name) ended without close_notify, and without an error")
    }

    /// Fails if a connection ended in a calm schedule with an error that no app explains.
    private func check(_ error: TransportError) {
        // A server ends a client that reads nothing. An app that closes ends both peers.
        let isSilent = [run.plan.client, run.plan.server, app].contains {
            $0.appetite == .never || $0.appetite == .answering
        }
        // A side resets its peer if the peer takes no bytes while it closes, and a server also if it buffers too much.
        if error.detail == TLSProblem.truncated.rawValue, !isSilent, run.plan.maximumBuffered == 0 {
            run.checker.fail("\(name) ended without close_notify")
        }
        let mayLose = run.plan.isLossy
        // A message over the limit of a subscriber ends its connection.
        if run.plan.isShared, error.code == .messageTooLarge { return }
        if !isSilent, !mayLose, run.plan.carrier != .datagrams,
            [.protocolViolation, .messageTooLarge].contains(error.code)
        {
            run.checker.fail("\(name) ended without a fault: \(error)")
        }
    }

    private func sendAll(_ sender: Int) async {
        for index in 0..<app.messages where !isClosing && !run.isOver {
            if app.pause > 0 { await run.world.pause(Int64(run.draw(0...app.pause))) }
            let message = StackMessage(user: number, sender: sender, number: index)
            guard await send(message) else { return }
        }
    }

    /// Sends one message. Returns `false` if the connection has ended.
    private func send(_ message: StackMessage) async -> Bool {
        let size = run.drawSize(limit)
        let payload = Payload(message.bytes(size))
        run.checker.sends(message, size: size, audience: run.plan.isShared ? nil : name)
        let operation = run.checker.begin("\(name): send \(message.number) of \(size) bytes")
        let outcome: SendOutcome
        if app.cancelled > 0, run.chance(app.cancelled) {
            let task = Task(executorPreference: app.isOnLoop ? loop : nil) { await self.connection.send(payload) }
            run.world.after(Int64(run.draw(0...2_000_000))) { task.cancel() }
            outcome = await task.value
        } else {
            outcome = await connection.send(payload)
        }
        run.checker.end(operation)
        run.world.trace.note(33, message.number, outcome.isSuccess ? 1 : 0, "\(name): \(message.number) \(outcome)")
        process.isDead ? run.checker.loses(message) : run.checker.settled(message, outcome)
        switch outcome {
        case .acknowledged, .written:
            if size > limit {
                run.checker.fail("\(name) sent \(size) bytes, more than \(limit)")
            }
            written.append(message)
            if isServer { run.accepts(size) }
            return true
        case .expired: return true
        case .rejected(let error):
            return error.code == .messageTooLarge || error.code == .bufferFull || error.code == .cancelled
        case .unknown(let error): return error.code == .cancelled
        }
    }

    private func receiveAll() async {
        guard app.appetite != .never else { return }
        var count = 0
        while true {
            let operation = run.checker.begin("\(name): receive")
            let payload: Payload?
            do {
                payload = try await connection.receive()
            } catch {
                payload = nil
            }
            run.checker.end(operation)
            guard let payload else { return }
            if isServer { run.takes(payload.bytes.count) }
            count += 1
            if !process.isDead {
                run.checker.arrives(
                    payload.bytes,
                    at: name,
                    isOrdered: run.plan.carrier.isOrdered,
                    isOnce: run.plan.carrier.isOnce
                )
            }
            await digest(payload, count)
        }
    }

    private func digest(_ payload: Payload, _ count: Int) async {
        switch app.appetite {
        case .atOnce, .never: break
        case .slowly: await run.world.pause(Int64(run.draw(0...20_000_000)))
        case .bursts: if count % 8 == 0 { await run.world.pause(Int64(run.draw(0...3_000_000_000))) }
        case .answering:
            guard let message = StackMessage(payload.bytes), !message.isAnswer else { return }
            answers += 1
            _ = await send(StackMessage(user: number, sender: 0, number: answers, isAnswer: true))
        }
    }

    private func pingAll() async {
        for _ in 0..<app.pings where !isClosing {
            let operation = run.checker.begin("\(name): ping")
            if run.plan.carrier == .datagrams {
                // The ping or the answer may be lost, and neither is repeated.
                let ping = Task(executorPreference: app.isOnLoop ? loop : nil) { _ = try? await self.connection.ping() }
                run.world.after(5_000_000_000) { ping.cancel() }
                await ping.value
            } else {
                do { _ = try await connection.ping() } catch {}
            }
            run.checker.end(operation)
            await run.world.pause(Int64(run.draw(0...100_000_000)))
        }
    }
}
