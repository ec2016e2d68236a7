import EmbeddedServers
import Primitives
import Protocols
import SocketIO
import TransportAPI
import Transports

/// One row of `imbench outage`: a supervisor sends numbered messages through a fault.
struct OutageRun: Sendable {
    let transport: TransportDescriptor
    let fault: OutageFault
    let timing: OutageTiming
    let seed: UInt64
    let loop: EventLoop

    /// Runs the row.
    func measure() async -> OutageRow {
        var row = OutageRow(transport: transport.name, fault: fault)
        row.skipped = fault.isMeaningless(for: transport)
        guard row.skipped == nil else { return row }
        do throws(TransportError) {
            try await measure(&row)
        } catch {
            row.failure = "\(error)"
        }
        return row
    }

    private func measure(_ row: inout OutageRow) async throws(TransportError) {
        let ledger = LoopBound(OutageLedger(), to: loop)
        let server = try await OutageServer.start(transport, timing.configuration, ledger, on: loop)
        let proxy = try await FaultProxy.start(to: server.endpoint, on: loop, seed: seed, registry: .measured)
        let refusing = try await refusingServer()
        let watch = OutageWatch()
        let supervisor = try supervisor(proxy, refusing?.port, watch)
        let sender = OutageSender(supervisor, timing.pace, on: loop)

        if fault == .refused { try await proxy.refuse(true) }
        watch.mark()
        supervisor.connect()
        if fault.isMidway {
            await waitUntil { watch.now.isOpen }
            watch.mark()
        }
        let sending = Task(executorPreference: loop) { await sender.run() }
        // A broker sends back what it takes. A connection whose messages nobody takes is not read any more after a
        // while, and what the peer confirms stays there with them.
        let messages = supervisor.messages
        Task(executorPreference: loop) { for await _ in messages {} }
        if fault.isMidway {
            await loop.pause(.milliseconds(300))
            watch.mark()
        }
        let healed: Result<Int64, TransportError>
        do throws(TransportError) {
            healed = .success(try await makeFault(proxy, server))
            await waitUntil {
                let now = watch.now
                return now.end != nil || now.isOpen && (fault.isBearable || now.detectedAt != nil)
            }
            await loop.pause(.milliseconds(300))
        } catch {
            healed = .failure(error)
        }
        sender.stop()
        await sending.value
        if case .success(let healedAt) = healed {
            let outcomes = await sender.finish(within: timing.patience)
            let times = await settled(watch)
            let taken = await loop.perform { (ledger.value.taken, ledger.value.reordered) }
            fill(&row, times, healedAt, outcomes, taken)
        }
        await supervisor.close()
        await proxy.stop()
        await server.close()
        await loop.perform { refusing?.server.value.close() }
        _ = try healed.get()
    }

    // MARK: The fault

    /// Lets it happen, and pass; gives the time from which the path is good again.
    private func makeFault(_ proxy: FaultProxy, _ server: OutageServer) async throws(TransportError) -> Int64 {
        switch fault {
        case .reset: await proxy.cut(.reset)
        case .finish: await proxy.cut(.finish)
        case .rebind:
            await proxy.rebindClients()
            await wait(timing.outage)
        case .blackHole: await darken(proxy, .dead)
        case .blackHoleToServer: await darken(proxy, PathFaults(blackHoleToServer: true))
        case .blackHoleToClient: await darken(proxy, PathFaults(blackHoleToClient: true))
        case .killed:
            try await proxy.refuse(true)
            await proxy.cut(.reset)
            await wait(timing.outage)
            try await proxy.refuse(false)
        case .restart:
            await server.stop()
            await wait(timing.outage)
            try await server.open()
        case .slowReader:
            await loop.perform { server.ledger.value.beSlow(true) }
            await proxy.set(PathFaults(bytesPerSecond: 2000))
            await wait(timing.outage)
            await proxy.set(.none)
            await loop.perform { server.ledger.value.beSlow(false) }
        case .refused:
            await wait(timing.outage)
            try await proxy.refuse(false)
        case .badName, .badCredentials: break
        }
        return MonotonicClock.now()
    }

    /// Nothing gets through until the loss can have been noticed by both sides.
    private func darken(_ proxy: FaultProxy, _ faults: PathFaults) async {
        await proxy.set(faults)
        await wait(timeToNotice + timing.outage)
        await proxy.set(.none)
    }

    /// How long it may take to notice that nothing gets through. The server's own question may still arrive while this
    /// side waits for its answer, and is a sign of life.
    private var timeToNotice: Duration {
        (fault == .blackHoleToServer ? timing.interval : .zero) + timing.interval + timing.timeout
    }

    // MARK: The parts

    private func supervisor(
        _ proxy: FaultProxy,
        _ refusingPort: UInt16?,
        _ watch: OutageWatch
    ) throws(TransportError) -> Supervisor {
        var endpoint = proxy.endpoint
        endpoint.options += transport.loopback("outage")
        if try transport.make(endpoint, loop).capabilities.routesByTopic {
            endpoint.options.append(.init(name: "qos", value: "1"))
        }
        var endpoints = [endpoint]
        if fault == .badName {
            // No label is longer than 63 bytes (RFC 1035, section 2.3.4), so that nobody need be asked.
            var nowhere = endpoint
            nowhere.host = String(repeating: "x", count: 64) + ".invalid"
            endpoints = [nowhere, endpoint]
        }
        let configuration = TransportConfiguration(endpoints: endpoints, supervisor: timing.configuration)
        return try Supervisor(configuration, registry: .measured, on: loop) { setup in
            setup.observer = watch
            guard let refusingPort else { return }
            // Credentials that have been renewed are kept, as an app keeps them.
            let areRenewed = Locked(false)
            setup.preparation = { endpoint, isRefresh in
                var prepared = endpoint
                let isGood = areRenewed.withLock { areRenewed in
                    areRenewed = areRenewed || isRefresh
                    return areRenewed
                }
                if !isGood { prepared.port = refusingPort }
                return prepared
            }
        }
    }

    private func refusingServer() async throws(TransportError) -> (server: LoopBound<RefusingServer>, port: UInt16)? {
        guard fault == .badCredentials, let answer = RefusingServer.answers[transport.name] else { return nil }
        let made: Result<LoopBound<RefusingServer>, TransportError> = await loop.perform { [loop] in
            do throws(SystemError) {
                return .success(LoopBound(try RefusingServer(answer, on: loop), to: loop))
            } catch {
                return .failure(TransportError(error, .connect))
            }
        }
        let server = try made.get()
        return (server, await loop.perform { server.value.port } ?? 0)
    }

    /// Waits for a time, or until the program is interrupted.
    private func wait(_ duration: Duration) async {
        let end = MonotonicClock.now() + duration.wholeNanoseconds
        while case let now = MonotonicClock.now(), now < end, !Interruption.isRequested {
            await loop.pause(min(.nanoseconds(end - now), .milliseconds(100)))
        }
    }

    /// Looks every few milliseconds, and no longer than patience lasts.
    private func waitUntil(_ condition: @Sendable () -> Bool) async {
        let end = MonotonicClock.now() + timing.patience.wholeNanoseconds
        while !condition(), MonotonicClock.now() < end, !Interruption.isRequested { await loop.pause(.milliseconds(2)) }
    }

    /// What the supervisor has told when it has a connection or has ended. On a busy machine a good connection may be
    /// taken for dead at any time, and comes back; that is not what is asked here.
    private func settled(_ watch: OutageWatch) async -> OutageWatch.Times {
        let seen = Locked(watch.now)
        await waitUntil {
            let now = watch.now
            seen.withLock { $0 = now }
            return now.end != nil || now.isOpen
        }
        return seen.withLock { $0 }
    }

    // MARK: The result

    private func fill(
        _ row: inout OutageRow,
        _ times: OutageWatch.Times,
        _ healedAt: Int64,
        _ outcomes: [Int: SendOutcome?],
        _ ledger: (taken: [Int: Int], reordered: Int)
    ) {
        row.sent = outcomes.count
        row.reordered = ledger.reordered
        for (number, outcome) in outcomes {
            guard let outcome else { continue }
            row.outcomes[outcome.name, default: 0] += 1
            guard outcome == .acknowledged else { continue }
            let taken = ledger.taken[number, default: 0]
            if taken == 0 { row.lost += 1 }
            if taken > 1 { row.duplicated += 1 }
        }
        if let faultAt = times.faultAt, let detectedAt = times.detectedAt {
            row.detect = .nanoseconds(detectedAt - faultAt)
            // Of a fault that passes by itself, the path is good again at once.
            let goodAt =
                fault == .reset || fault == .finish || !fault.isMidway && fault != .refused ? faultAt : healedAt
            if times.isOpen, let openAt = times.openAt { row.recover = .nanoseconds(max(0, openAt - goodAt)) }
        }
        row.failure = failure(row, times)
    }

    /// What the row must show.
    private func failure(_ row: OutageRow, _ times: OutageWatch.Times) -> String? {
        if let end = times.end { return "gave up: \(end)" }
        if !times.isOpen { return "did not recover" }
        if row.inFlight > 0 { return "\(row.inFlight) messages have no outcome" }
        if row.lost > 0 { return "\(row.lost) acknowledged messages are lost" }
        if row.duplicated > 0 { return "\(row.duplicated) acknowledged messages came twice" }
        if row.reordered > 0 { return "\(row.reordered) messages came out of order" }
        if row.acked == 0 { return "nothing was acknowledged" }
        if fault.isBearable, row.detect != nil { return "the connection did not survive" }
        // What the loop itself takes to come round.
        let slack = Duration.milliseconds(100)
        if fault.isSilent, let detect = row.detect, detect > timeToNotice + slack {
            return "detected only after \(detect)"
        }
        return nil
    }
}
