import CommandSupport
import EmbeddedServers
import Primitives
import Protocols
import Reporting
import SocketIO
import TransportAPI
import Transports
import Workloads

/// One row of `imbench outage`: a supervisor sends numbered messages through a fault.
struct OutageRun: Sendable {
    let transport: TransportDescriptor
    let fault: OutageFault
    let timing: OutageTiming
    let seed: UInt64
    /// The address of the server and of the proxy before it.
    let host: String
    /// The loop of the supervisor. It is not that of the server if a network is between them.
    let clientLoop: EventLoop
    /// The loop of the server, of the proxy and of the measurement.
    let loop: EventLoop

    /// Runs the row.
    func measure() async -> OutageRow {
        var row = OutageRow(transport: transport.name, fault: fault)
        row.skipped = fault.isMeaningless(for: transport)
        guard row.skipped == nil else { return row }
        do throws(TransportError) {
            try await measure(&row)
        } catch {
            row.failure = sentence(of: error)
        }
        return row
    }

    private func measure(_ row: inout OutageRow) async throws(TransportError) {
        let record = LoopBound(OutageRecord(), to: loop)
        let server = try await OutageServer.start(transport, timing.configuration, record, host: host, on: loop)
        let proxy = try await FaultProxy.start(
            to: server.endpoint,
            on: loop,
            seed: seed,
            registry: .measured,
            host: host
        )
        let refusing = try await refusingServer()
        let watch = OutageWatch()
        let supervisor = try supervisor(proxy, refusing?.endpoint.port, watch)
        let sender = OutageSender(supervisor, timing.pace, on: clientLoop)

        if fault == .refused { try await proxy.refuse(true) }
        watch.mark()
        supervisor.connect()
        if fault.isMidway {
            await waitUntil { watch.now.isOpen }
            watch.mark()
        }
        let sending = Task(executorPreference: clientLoop) { await sender.run() }
        // A broker sends each message back. A connection whose messages are not read stops reading, and then receives no
        // acknowledgements either.
        let messages = supervisor.messages
        Task(executorPreference: clientLoop) { for await _ in messages {} }
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
            let outcomes = await sender.finish(within: timing.longestRecovery)
            let times = await settled(watch)
            let taken = await loop.perform { (record.value.taken, record.value.reordered) }
            fill(&row, times, healedAt, outcomes, taken)
        }
        await supervisor.close()
        await proxy.stop()
        await server.close()
        await refusing?.stop()
        _ = try healed.get()
    }

    // MARK: The fault

    /// Applies the fault and ends it. Returns the time at which the path is good again.
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
            await loop.perform { server.record.value.beSlow(true) }
            await proxy.set(PathFaults(bytesPerSecond: 6000))
            await wait(timing.outage)
            await proxy.set(.none)
            await loop.perform { server.record.value.beSlow(false) }
        case .refused:
            await wait(timing.outage)
            try await proxy.refuse(false)
        case .badName, .badCredentials: break
        // A row of processes, which is a KillRun.
        case .clientKilled, .serverKilled: break
        }
        return MonotonicClock.now()
    }

    /// Drops packets until both sides have had the time to detect the loss.
    private func darken(_ proxy: FaultProxy, _ faults: PathFaults) async {
        await proxy.set(faults)
        await wait(timeToDetect + timing.outage)
        await proxy.set(.none)
    }

    /// The longest time to detect that packets are dropped. While the client waits for a pong, the server's own ping may
    /// still arrive, and any received byte is a sign of life. The proxy's system still acknowledges a stream. So the time
    /// limit of the pong begins again when the acknowledgement of the output before the ping is seen: after a round trip,
    /// and after a quarter of the limit at the latest.
    private var timeToDetect: Duration {
        let most = (fault == .blackHoleToServer ? timing.interval : .zero) + timing.interval + timing.timeout
        return most + timing.inTransit + (transport.isDatagram ? .zero : timing.inTransit * 2 + timing.timeout / 4)
    }

    // MARK: The parts

    private func supervisor(
        _ proxy: FaultProxy,
        _ refusingPort: UInt16?,
        _ watch: OutageWatch
    ) throws(TransportError) -> Supervisor {
        var endpoint = proxy.endpoint
        endpoint.options += transport.loopback("outage")
        endpoint.options += TransportRegistry.acknowledging(endpoint.scheme)
        var endpoints = [endpoint]
        if fault == .badName {
            // A label has at most 63 bytes (RFC 1035, section 2.3.4), so this name fails without a query.
            var nowhere = endpoint
            nowhere.host = String(repeating: "x", count: 64) + ".invalid"
            endpoints = [nowhere, endpoint]
        }
        let configuration = TransportConfiguration(endpoints: endpoints, supervisor: timing.configuration)
        return try Supervisor(configuration, registry: .measured, on: clientLoop) { setup in
            setup.observer = watch
            guard let refusingPort else { return }
            // Renewed credentials are kept, as in an app.
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

    /// Starts the server that rejects the credentials of all clients, if the fault needs one.
    private func refusingServer() async throws(TransportError) -> EmbeddedServer? {
        guard fault == .badCredentials else { return nil }
        let url = "\(transport.name)://\(host):0"
        if transport.broker != nil {
            return try await EmbeddedServer.startBroker(
                url,
                on: loop,
                registry: .measured,
                authenticate: { _ in .wrongCredentials }
            )
        }
        return try await EmbeddedServer.start(url, on: loop, registry: .measured, decide: { _ in .refuse(status: 401) })
    }

    /// Waits for a time, or until the program is interrupted.
    private func wait(_ duration: Duration) async {
        let end = MonotonicClock.now() + duration.wholeNanoseconds
        while case let now = MonotonicClock.now(), now < end, !Interruption.isRequested {
            await loop.pause(min(.nanoseconds(end - now), .milliseconds(100)))
        }
    }

    /// Polls every few milliseconds, for at most ``OutageTiming/longestRecovery``.
    private func waitUntil(_ condition: @Sendable () -> Bool) async {
        let end = MonotonicClock.now() + timing.longestRecovery.wholeNanoseconds
        while !condition(), MonotonicClock.now() < end, !Interruption.isRequested { await loop.pause(.milliseconds(2)) }
    }

    /// The times at a moment when the supervisor has a connection or has ended. On a busy machine a good connection may time
    /// out and open again at any moment, which is not part of the result.
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
        _ record: (taken: [Int: Int], reordered: Int)
    ) {
        row.sent = outcomes.count
        row.reordered = record.reordered
        for (number, outcome) in outcomes {
            guard let outcome else { continue }
            row.outcomes[outcome.name, default: 0] += 1
            guard outcome == .acknowledged else { continue }
            let taken = record.taken[number, default: 0]
            if taken == 0 { row.lost += 1 }
            if taken > 1 { row.duplicated += 1 }
        }
        if let faultAt = times.faultAt, let detectedAt = times.detectedAt {
            row.detect = .nanoseconds(detectedAt - faultAt)
            // After a fault without a duration, the path is good immediately.
            let goodAt =
                fault == .reset || fault == .finish || !fault.isMidway && fault != .refused ? faultAt : healedAt
            row.broken = .nanoseconds(goodAt - faultAt)
            if times.isOpen, let openAt = times.openAt { row.recover = .nanoseconds(max(0, openAt - goodAt)) }
        }
        row.failure = failure(row, times)
    }

    /// Why the row is a failure; `nil` if it is none.
    private func failure(_ row: OutageRow, _ times: OutageWatch.Times) -> String? {
        if let end = times.end { return "gave up: \(end)" }
        if !times.isOpen { return "did not recover" }
        if row.inFlight > 0 { return "\(row.inFlight) messages have no outcome" }
        if row.lost > 0 { return "\(row.lost) acknowledged messages are lost" }
        if row.duplicated > 0 { return "\(row.duplicated) acknowledged messages arrived twice" }
        if row.reordered > 0 { return "\(row.reordered) messages arrived out of order" }
        if row.acked == 0 { return "nothing was acknowledged" }
        if fault.isBearable, row.detect != nil {
            return "the connection did not survive" + (times.detection.map { ": \($0)" } ?? "")
        }
        // The latency of the loop itself.
        let slack = Duration.milliseconds(100)
        if fault.isSilent, let detect = row.detect, detect > timeToDetect + slack {
            return "detected only after \(detect)"
        }
        return nil
    }
}

/// Sends numbered messages at a constant rate, independent of the connection's state, and records the outcome of each.
final class OutageSender: Sendable {
    private struct State {
        var outcomes: [Int: SendOutcome?] = [:]
        var isStopped = false
    }

    private let supervisor: Supervisor
    private let pace: Duration
    private let loop: EventLoop
    private let state = Locked(State())

    init(_ supervisor: Supervisor, _ pace: Duration, on loop: EventLoop) {
        self.supervisor = supervisor
        self.pace = pace
        self.loop = loop
    }

    /// Sends until it is stopped.
    func run() async {
        var number = 0
        while !state.withLock({ $0.isStopped }) {
            let message = number
            state.withLock { $0.outcomes[message] = .some(nil) }
            Task(executorPreference: loop) { [supervisor, self] in
                let outcome = await supervisor.send(Payload(Array(String(message).utf8)))
                state.withLock { $0.outcomes[message] = outcome }
            }
            number += 1
            await loop.pause(pace)
        }
    }

    func stop() {
        state.withLock { $0.isStopped = true }
    }

    /// Waits until every message has its outcome, or until `limit` has passed.
    func finish(within limit: Duration) async -> [Int: SendOutcome?] {
        let end = MonotonicClock.now() + limit.wholeNanoseconds
        while MonotonicClock.now() < end, !Interruption.isRequested {
            let outcomes = state.withLock { $0.outcomes }
            if !outcomes.values.contains(where: { $0 == nil }) { return outcomes }
            await loop.pause(.milliseconds(5))
        }
        return state.withLock { $0.outcomes }
    }
}

extension SendOutcome {
    /// The outcome's name in reports.
    var name: String {
        switch self {
        case .acknowledged: "acknowledged"
        case .written: "written"
        case .expired: "expired"
        case .rejected: "rejected"
        case .unknown: "unknown"
        }
    }
}

/// Records when a supervisor loses its connection and when it opens the next one.
final class OutageWatch: SupervisorObserver {
    struct Times: Sendable {
        /// The time from which a loss counts.
        var faultAt: Int64?
        /// Why the connection ended.
        var detection: CloseReason?
        var detectedAt: Int64?
        /// When it last opened.
        var openAt: Int64?
        var isOpen = false
        var end: CloseReason?
    }

    private let times = Locked(Times())

    var now: Times { times.withLock { $0 } }

    /// Marks the current time as the time of the fault.
    func mark() {
        times.withLock {
            $0.faultAt = MonotonicClock.now()
            $0.detectedAt = nil
        }
    }

    func note(_ note: SupervisorEvent, at _: Instant) {
        let now = MonotonicClock.now()
        times.withLock { times in
            switch note {
            case .attemptFailed:
                if times.faultAt != nil, times.detectedAt == nil { times.detectedAt = now }
            case .connectionEnded(_, let reason):
                if times.faultAt != nil, times.detectedAt == nil {
                    times.detectedAt = now
                    times.detection = reason
                }
            case .state(.open):
                times.isOpen = true
                times.openAt = now
            case .state(.closed(let reason)):
                times.isOpen = false
                times.end = reason
            case .state: times.isOpen = false
            default: break
            }
        }
    }
}
