import Protocols
import SocketIO
import TransportAPI
import Transports

/// `imbench open`: opens connections over each network, and measures what happens before the first message has its answer.
func openConnections(_ options: Options) throws -> Int32 {
    let target = try options.reportTarget()
    let seed = options.runSeed
    var results = OpenResults(run: RunResults(of: options, seed: seed))
    let (placement, remark) = ThreadPlacement.resolve(options.placement, cores: CoreMask.ofThisThread()?.cores)
    if let remark { results.run.remarks.append("--placement \(options.placement.rawValue): \(remark)") }
    results.run.placement = placement
    let lab = options.networks.isEmpty ? nil : try NetworkLab()
    defer { lab?.stop() }
    let stage = try Stage(registry: .measured, outside: [], seed: seed, placement: placement, lab: lab)
    let networks: [Network?] = options.networks.isEmpty ? [nil] : options.networks
    let kinds = OpenKind.all(of: options.transports)
    var progress = Progress(total: networks.count * kinds.count, isQuiet: options.quiet)
    for network in networks where !Interruption.isRequested {
        if let network { lab?.use(network, seed: seed) }
        for kind in kinds where !Interruption.isRequested {
            progress.step("\(network.map { $0.name + " " } ?? "")\(kind.transport) \(kind.security)")
            results.rows.append(OpenRow.measure(kind, network, lab, stage, options.repeats))
        }
        if let network, let lab { results.run.networks.append(NetworkUse(network, seed, lab)) }
    }
    progress.finish()
    results.run.wasCutShort = Interruption.isRequested
    try target.write(results.report, options)
    stage.close()
    return results.rows.contains { $0.failure != nil } ? ExitStatus.failed : ExitStatus.good
}

/// A transport, and how its connections are encrypted.
struct OpenKind: Sendable, Hashable {
    var transport: String
    /// For people.
    var security: String
    /// The options of the URL.
    var options: [Endpoint.Option] = []
    /// Whether each connection continues the TLS session of the one before.
    var isResumed = false

    /// For charts and sentences.
    var name: String { security == "none" ? transport : "\(transport) \(security)" }

    /// Plain transports once; encrypted ones with each version, and with a session that is continued.
    static func all(of transports: [String]) -> [OpenKind] {
        transports.flatMap { name -> [OpenKind] in
            let descriptor = TransportRegistry.measured.transports.first { $0.name == name }
            guard let descriptor, descriptor.isEncrypted else { return [OpenKind(transport: name, security: "none")] }
            let versions = descriptor.isDatagram ? [("DTLS 1.2", "1.2")] : [("TLS 1.2", "1.2"), ("TLS 1.3", "1.3")]
            let fresh = versions.map { title, version in
                OpenKind(
                    transport: name,
                    security: title,
                    options: [.init(name: "max-tls", value: version), .init(name: "resumption", value: "off")]
                )
            }
            let last = versions[versions.count - 1].0
            return fresh + [OpenKind(transport: name, security: last + ", resumed", isResumed: true)]
        }
    }
}

/// The connections of one kind over one network.
struct OpenRow: Sendable {
    var network: String?
    var kind: OpenKind
    /// Round trips until a message may leave, TCP's own included.
    var roundTrips: Int?
    /// Bytes of the handshakes in both directions, without TCP and IP headers.
    var bytes: Double?
    /// The time until the connection is open, in milliseconds.
    var opened: RepeatStatistics?
    /// The time until the first message has its answer, in milliseconds.
    var answered: RepeatStatistics?
    /// The packets of one connection until the answer, if there is a network.
    var packets: [LinkRecord] = []
    var failure: String?

    /// The text of the messages.
    private static let message = Payload(Array("A first message, as long as many in a chat.".utf8))

    static func measure(
        _ kind: OpenKind,
        _ network: Network?,
        _ lab: NetworkLab?,
        _ stage: Stage,
        _ repeats: Int
    ) -> OpenRow {
        var row = OpenRow(network: network?.name, kind: kind)
        let loop = stage.clientLoop
        do throws(TransportError) {
            let transport = try stage.transport(kind.transport, unique: "open", options: kind.options)
            let limit = Duration.seconds(20) + (network?.delay ?? .zero) * 20
            var (opened, answered): ([Double], [Double]) = ([], [])
            // The first connection fills caches, and gets the session that the next one continues.
            for index in -1..<repeats where !Interruption.isRequested {
                if index == repeats - 1 { lab?.startRecording() }
                let result: Result<Sample, TransportError> = runInterruptibly(on: loop) {
                    do throws(TransportError) {
                        return .success(try await connectAndSend(transport, lab, limit, on: loop))
                    } catch {
                        return .failure(error)
                    }
                }
                // An interruption keeps the samples before it.
                if Interruption.isRequested, !opened.isEmpty { break }
                let sample = try result.get()
                guard index >= 0 else { continue }
                guard sample.isResumed == kind.isResumed else {
                    row.failure = "the TLS session was \(sample.isResumed ? "" : "not ")continued"
                    return row
                }
                (row.roundTrips, row.bytes) = (sample.roundTrips, sample.bytes)
                row.packets = sample.packets
                opened.append(sample.opened)
                answered.append(sample.answered)
            }
            (row.opened, row.answered) = (RepeatStatistics(opened), RepeatStatistics(answered))
            if opened.isEmpty { row.failure = Interruption.sentence }
        } catch {
            row.failure = Interruption.isRequested ? Interruption.sentence : stage.failure(error, of: kind.transport)
        }
        return row
    }

    private struct Sample: Sendable {
        var roundTrips: Int
        var bytes: Double
        var opened: Double
        var answered: Double
        var isResumed: Bool
        var packets: [LinkRecord]
    }

    /// Opens a connection, sends one message, waits for its answer, and closes. A lost datagram is sent again.
    private static func connectAndSend(
        _ transport: any Transport,
        _ lab: NetworkLab?,
        _ limit: Duration,
        on loop: EventLoop
    ) async throws(TransportError) -> Sample {
        let start = Clocks.monotonic()
        let connection = try await transport.connect(timeout: limit)
        let opened = Clocks.monotonic()
        let statistics = await connection.statistics()
        do throws(TransportError) {
            let attempts = connection.capabilities.isReliable ? 1 : 10
            for attempt in 1...attempts {
                do throws(TransportError) {
                    try await exchange(over: connection, limit / attempts, of: limit, on: loop)
                    break
                } catch {
                    guard error.code == .timedOut, attempt < attempts else { throw error }
                }
            }
        } catch {
            await connection.close()
            throw error
        }
        let answered = Clocks.monotonic()
        let packets = lab?.stopRecording() ?? []
        let isResumed = connection.encryption?.isResumed == true
        await connection.close()
        return Sample(
            roundTrips: statistics.handshakeRoundTrips,
            bytes: Double(statistics.handshakeBytes),
            opened: Double(opened - start) / 1e6,
            answered: Double(answered - start) / 1e6,
            isResumed: isResumed,
            packets: packets
        )
    }

    /// Sends the message, and waits for its answer.
    private static func exchange(
        over connection: any Connection,
        _ time: Duration,
        of limit: Duration,
        on loop: EventLoop
    ) async throws(TransportError) {
        switch await connection.send(message) {
        case .written, .acknowledged: break
        case .rejected(let error), .unknown(let error): throw error
        case .expired: throw TransportError(.timedOut, .open, "the message expired")
        }
        let sentence = "the first message has had no answer for \(limit.settingText)"
        let answer = try await within(time, on: loop, else: sentence) { () async throws(TransportError) in
            try await connection.receive()
        }
        guard answer != nil else {
            throw TransportError(.connectionLost, .open, "the server has closed the connection without an answer")
        }
    }
}
