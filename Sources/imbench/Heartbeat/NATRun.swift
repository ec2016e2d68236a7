import CommandSupport
import EmbeddedServers
import EmulatedNetworks
import Protocols
import Reporting
import SocketIO
import TransportAPI
import Transports
import Workloads

/// Measures all rows behind one NAT at the same time, because they wait most of it.
///
/// - Parameter lab: the network between client and server.
func measureBehindNAT(_ options: HeartbeatCommand, _ lab: NetworkLab, seed: UInt64) throws -> (
    rows: [NATRow], use: NetworkUse
) {
    let timing = options.heartbeat.trial
    let stage = try Stage(registry: .measured, outside: [], seed: seed, placement: nil, lab: lab)
    let network = Network.translated(forgettingAfter: timing.memory)
    lab.use(network, seed: seed)
    let (host, clientLoop, serverLoop) = (stage.host, stage.clientLoop, stage.serverLoop)
    let transports = TransportRegistry.measured.transports.filter {
        options.transports.contains($0.name) && $0.defaultPort != nil
    }
    var runs: [NATRun] = []
    for transport in transports {
        let isBroker = TransportRegistry.hasBroker(transport.name)
        for pings in timing.pings(isBroker: isBroker) {
            for delivery in [DeliveryConfiguration.Mode.plain, .session] {
                let row = NATRow(
                    transport: transport.name,
                    pings: pings,
                    delivery: delivery,
                    survivesRebinding: HeartbeatOptions.survivesRebinding(transport),
                    timing: timing
                )
                runs.append(
                    NATRun(
                        transport: transport,
                        row: row,
                        isBroker: isBroker,
                        topic: TransportRegistry.keptTopic(transport.name, "nat-\(runs.count)"),
                        host: host,
                        clientLoop: clientLoop,
                        loop: serverLoop,
                        lab: lab
                    )
                )
            }
        }
    }
    let rows = runBlocking(on: serverLoop) { [runs] in
        await withTaskGroup(of: (Int, NATRow).self) { group in
            for (index, run) in runs.enumerated() { group.addTask { (index, await run.measure()) } }
            var rows: [(Int, NATRow)] = []
            for await row in group { rows.append(row) }
            return rows.sorted { $0.0 < $1.0 }.map(\.1)
        }
    }
    return (rows, NetworkUse(network, seed, lab, over: transports.map(\.name)))
}

/// One client behind the NAT, and its server. After the handshakes, only pings and the server's message use the link.
private struct NATRun: Sendable {
    let transport: TransportDescriptor
    let row: NATRow
    let isBroker: Bool
    /// The topic of the row's messages, if there is a broker.
    let topic: String
    let host: String
    let clientLoop: EventLoop
    /// The loop of the server and of the measurement.
    let loop: EventLoop
    let lab: NetworkLab

    private static let first = "sent while the mapping is forgotten"
    private static let second = "sent at the end"

    func measure() async -> NATRow {
        var row = row
        do throws(TransportError) {
            row.record(try await observation())
        } catch {
            row.failure = Interruption.isRequested ? Interruption.sentence : sentence(of: error)
        }
        return row
    }

    private func observation() async throws(TransportError) -> NATObservation {
        let server = try await NATServer.start(
            at: "\(transport.name)://\(host):0",
            topic: isBroker ? topic : nil,
            configuration(row.pings.server.map { .fixed($0) } ?? .off),
            on: loop
        )
        let watch = NATWatch()
        let supervisor = try client(of: server.endpoint, watch)
        // The server ends with the process. A close handshake through forgotten mappings would only take time.
        defer { Task(executorPreference: clientLoop) { await supervisor.close() } }
        let messages = supervisor.messages
        Task(executorPreference: clientLoop) {
            for await message in messages { watch.receive(String(decoding: message.bytes, as: UTF8.self)) }
        }
        supervisor.connect()
        guard await wait(atMost: row.timing.connectTimeout, until: { watch.now.opened != nil && server.isReady }),
            let start = watch.now.opened
        else {
            throw TransportError(.timedOut, .connect, "the client did not connect through the NAT")
        }
        await wait(until: start + row.timing.message.wholeNanoseconds)
        server.send(Self.first)
        await wait(until: start + row.timing.effect.wholeNanoseconds)
        // A busy machine may be late.
        await wait(atMost: row.timing.connectTimeout) { [isDying = row.calculated == .dies] in
            let now = watch.now
            return now.isOpen && (now.lost != nil || !isDying)
        }
        server.send(Self.second)
        await wait(atMost: row.timing.delivery) {
            let arrivals = watch.now.arrivals
            return arrivals[Self.first] != nil && arrivals[Self.second] != nil
        }
        guard !Interruption.isRequested else { throw TransportError(.cancelled, .open, "interrupted") }
        return observation(of: watch.now, from: start, server.endpoint.port ?? 0)
    }

    private func observation(of times: NATWatch.Times, from start: Int64, _ port: UInt16) -> NATObservation {
        func after(_ time: Int64?) -> Duration? { time.map { .nanoseconds($0 - start) } }
        let server = AddressTranslation.Server(isTCP: !transport.isDatagram, port: port)
        let end = start + row.timing.memory.wholeNanoseconds
        return NATObservation(
            forgotten: lab.counts.forgottenByServer[server, default: 0],
            lost: after(times.lost),
            reopened: after(times.reopened),
            answered: after(times.answers.first { $0 > end }),
            message: after(times.arrivals[Self.first]),
            isReachable: times.arrivals[Self.second] != nil
        )
    }

    private func client(of server: Endpoint, _ watch: NATWatch) throws(TransportError) -> Supervisor {
        var endpoint = server
        if isBroker {
            endpoint.options += ["publish", "subscribe"].map { .init(name: $0, value: topic) }
            if row.delivery == .session { endpoint.options += TransportRegistry.keeping(server.scheme, for: topic) }
        }
        let whole = TransportConfiguration(
            endpoints: [endpoint],
            supervisor: configuration(.fixed(row.pings.client))
        )
        return try Supervisor(whole, registry: .measured, on: clientLoop) { $0.observer = watch }
    }

    private func configuration(_ interval: KeepaliveConfiguration.Interval) -> SupervisorConfiguration {
        var timing = OutageTiming()
        timing.timeout = row.timing.timeout
        timing.connectTimeout = .seconds(5)
        var configuration = timing.configuration
        configuration.keepalive.interval = interval
        configuration.delivery.mode = row.delivery
        return configuration
    }

    /// Waits until a time, or until the program is interrupted.
    private func wait(until end: Int64) async {
        while case let now = MonotonicClock.now(), now < end, !Interruption.isRequested {
            await loop.pause(min(.nanoseconds(end - now), .milliseconds(100)))
        }
    }

    /// Polls every few milliseconds. Returns `false` after `limit`.
    @discardableResult
    private func wait(atMost limit: Duration, until condition: @Sendable () -> Bool) async -> Bool {
        let end = MonotonicClock.now() + limit.wholeNanoseconds
        while !condition() {
            guard MonotonicClock.now() < end, !Interruption.isRequested else { return false }
            await loop.pause(.milliseconds(5))
        }
        return true
    }
}

/// The server of one row, which sends messages of its own to the client.
private final class NATServer: Sendable {
    private enum Kind: Sendable {
        case sessions(SessionServer, any Listener, latest: Locked<Session?>)
        /// A client beside the broker publishes the messages.
        case broker(EmbeddedServer, Supervisor, OutageWatch)
    }

    let endpoint: Endpoint
    private let kind: Kind
    private let loop: EventLoop

    private init(_ endpoint: Endpoint, _ kind: Kind, _ loop: EventLoop) {
        (self.endpoint, self.kind, self.loop) = (endpoint, kind, loop)
    }

    /// Starts a session server, or a broker if there is a topic.
    static func start(
        at url: String,
        topic: String?,
        _ configuration: SupervisorConfiguration,
        on loop: EventLoop
    ) async throws(TransportError) -> NATServer {
        guard let topic else {
            let latest = Locked<Session?>(nil)
            var settings = SessionServer.Configuration()
            settings.supervisor = configuration
            let server = SessionServer(settings, on: loop) { session in
                latest.withLock { $0 = session }
                let messages = session.messages
                Task(executorPreference: loop) { for await _ in messages {} }
            }
            let listener = try await TransportRegistry.measured.listen(url, on: loop)
            Task(executorPreference: loop) {
                // A listener ends with an error when it is closed.
                do throws(TransportError) { try await server.serve(listener) } catch {}
            }
            return NATServer(listener.endpoint, .sessions(server, listener, latest: latest), loop)
        }
        let broker = try await EmbeddedServer.start(url, on: loop, registry: .measured)
        var publisher = broker.endpoint
        publisher.options.append(.init(name: "publish", value: topic))
        if configuration.delivery.mode == .session {
            publisher.options += TransportRegistry.acknowledging(publisher.scheme)
        }
        let watch = OutageWatch()
        let whole = TransportConfiguration(endpoints: [publisher], supervisor: configuration)
        let supervisor = try Supervisor(whole, registry: .measured, on: loop) { $0.observer = watch }
        supervisor.connect()
        return NATServer(broker.endpoint, .broker(broker, supervisor, watch), loop)
    }

    /// Whether it can send a message.
    var isReady: Bool {
        switch kind {
        case .sessions(_, _, let latest): latest.withLock { $0 != nil }
        case .broker(_, _, let watch): watch.now.isOpen
        }
    }

    /// Sends a message to the client, over its newest connection or session.
    func send(_ text: String) {
        Task(executorPreference: loop) { [kind] in
            switch kind {
            case .sessions(_, _, let latest): _ = await latest.withLock { $0 }?.send(Payload(text: text))
            case .broker(_, let supervisor, _): _ = await supervisor.send(Payload(text: text))
            }
        }
    }
}

/// Records the times of one client.
private final class NATWatch: SupervisorObserver {
    struct Times: Sendable {
        var opened: Int64?
        var lost: Int64?
        var reopened: Int64?
        var isOpen = false
        /// When pings were answered.
        var answers: [Int64] = []
        /// When each message arrived first.
        var arrivals: [String: Int64] = [:]
    }

    private let times = Locked(Times())

    var now: Times { times.withLock { $0 } }

    func receive(_ text: String) {
        let now = MonotonicClock.now()
        times.withLock { times in
            if times.arrivals[text] == nil { times.arrivals[text] = now }
        }
    }

    func note(_ note: SupervisorEvent, at _: Instant) {
        let now = MonotonicClock.now()
        times.withLock { times in
            switch note {
            case .state(.open):
                times.isOpen = true
                if times.opened == nil { times.opened = now } else if times.reopened == nil { times.reopened = now }
            case .state: times.isOpen = false
            case .connectionEnded:
                if times.opened != nil, times.lost == nil { times.lost = now }
            case .roundTrip: times.answers.append(now)
            default: break
            }
        }
    }
}
