import CommandSupport
import EmulatedNetworks
import Measuring
import Reporting
import TransportAPI
import Workloads

/// The measurements of one run.
struct RunResults: Sendable {
    var record: RunRecord
    var rows: [ResultRow] = []
    var floors: [FloorResult] = []
    /// The cores of client and server; `nil` if the scheduler chose them.
    var placement: ThreadPlacement?
    /// Whether spinning threads kept the cores from sleeping.
    var wereCoresAwake = false
    /// The networks of the run, with what became of their packets.
    var networks: [NetworkUse] = []
    /// The size of the picture beside the messages; `nil` without one.
    var pictureBytes: Int?
    /// Open loop: messages per second of one client.
    var rate: Double?
    /// The requests that were recorded, if there is a network and the rate is low.
    var timelines: [RequestTimeline] = []

    init(_ record: RunRecord) { self.record = record }

    /// The results of a run with these options, still without rows.
    init(of options: some RunnableCommand, seed: UInt64) {
        self.init(RunRecord(of: options, .measured, seed: seed))
    }

    var environment: Environment { record.environment }
    /// Whether the run was interrupted, so that rows are shorter or missing.
    var wasCutShort: Bool {
        get { record.wasCutShort }
        set { record.wasCutShort = newValue }
    }
    /// Notes what the machine did during the measurements, which have ended.
    mutating func end() { record.end() }

    /// Whether the times can be trusted.
    var trust: Trust {
        let unsteady = floors.filter { $0.heavyTail != nil }.count
        let doubt =
            "the p90 of \(unsteady) of \(counted(floors.count, "floor")) is over \(FloorResult.tailLimitText) times its p50"
        return record.trust(doubts: unsteady > 0 ? [doubt] : [])
    }

    /// Sentences for the report, such as that the cores could not be kept awake.
    var remarks: [String] {
        get { record.remarks }
        set { record.remarks = newValue }
    }

    /// A line for each error, with the first row that has failed with it. In a table, errors are broken into lines.
    var failures: [String] {
        var known: Set<String> = []
        return rows.compactMap { row in
            guard let failure = row.failure, known.insert(failure).inserted else { return nil }
            let place = [row.network, row.transport, row.codec, "\(row.size)"].compactMap { $0 }
            return "\(place.joined(separator: ", ")): \(failure)"
        }
    }

    /// Writes the errors to standard error.
    func writeFailures() {
        for failure in failures { remark(failure) }
    }

    /// What became of each row.
    var outcomes: [RowOutcome] {
        rows.map { row in
            let place = row.picture.map { $0.place == .none ? "no picture" : "picture on the \($0.place.words)" }
            let names = [row.network, row.transport, row.codec, "\(row.size)", place].compactMap { $0 }
            return RowOutcome(names.joined(separator: " "), failure: row.failedBecause)
        }
    }

    /// Whether any row failed, or its accounts do not close.
    var hasFailed: Bool { rows.contains(where: \.hasFailed) }
}

/// One row: one transport, codec and size.
struct ResultRow: Sendable {
    enum Loop: String, Sendable, Hashable { case closed, open }

    /// How the row ended.
    enum Outcome: Sendable, Hashable {
        case measured
        /// It does not apply, for instance because a message is larger than the transport's limit. This is no failure.
        case skipped(String)
        /// It should have run and did not.
        case failed(String)

        /// For JSON and CSV.
        var name: String {
            switch self {
            case .measured: "measured"
            case .skipped: "skipped"
            case .failed: "failed"
            }
        }

        /// Why there are no numbers.
        var reason: String? {
            switch self {
            case .measured: nil
            case .skipped(let reason), .failed(let reason): reason
            }
        }

        /// The reason if it should have run.
        var failure: String? {
            guard case .failed(let reason) = self else { return nil }
            return reason
        }
    }

    /// The network between client and server; `nil` for loopback.
    var network: String?
    var transport: String
    var codec: String
    /// Bytes of text in the message.
    var size: Int
    var loop = Loop.closed
    var outcome = Outcome.measured
    /// The error of a row that has failed, if it is one of a transport.
    var error: TransportError?
    /// Round-trip times; in the open loop from the intended send time.
    var rtt: Latency?
    /// The distribution of ``rtt``, for the chart.
    var distribution: [DistributionPoint] = []
    /// Open loop: round-trip times from the actual send time.
    var service: Latency?
    /// The spread of the median over the repeats, in microseconds.
    var rttP50Spread: RepeatStatistics?
    /// Which floor the ratio refers to, and its median in microseconds.
    var floor: String?
    var floorP50: Double?
    var ratioToFloor: RepeatStatistics?
    /// Why there is no ratio although row and floor were measured.
    var ratioNote: String?
    /// Messages answered per second.
    var throughput: Double?
    /// Open loop: requested messages per second.
    var targetRate: Double?
    /// Open loop: messages sent per second.
    var sendRate: Double?
    /// Processor time of the client's thread, in microseconds.
    var cpuPerMessage: Double?
    /// The promise of the connection for each message.
    var guarantee: String?
    var bytesPerMessage: BytesPerMessage?
    /// Open loop: bytes of all layers and both directions that one client costs in a day at this rate.
    var bytesPerDay: Double?
    var handshake: Handshake?
    var keepaliveBytesPerDay: Double?
    /// The values of each repeat.
    var repeats: RepeatedValues = [:]
    var accounts = DeliveryCounts()
    var errors = 0
    /// The pictures beside the messages, in a run with `--mix`.
    var picture: PictureFigures?

    var hasFailed: Bool {
        if case .failed = outcome { return true }
        return !accountsClose
    }

    /// Notes that the row has failed.
    mutating func fail(_ sentence: String, _ error: TransportError?) {
        outcome = .failed(sentence)
        self.error = error
    }

    /// The pictures, unless the row is the one without.
    var sentPicture: PictureFigures? { picture.flatMap { $0.place == .none ? nil : $0 } }

    /// Whether the accounts of the messages close, and those of the pieces of pictures.
    var accountsClose: Bool { accounts.closes && picture?.pieces.closes != false }

    /// The whole error of a row that has failed.
    var failure: String? {
        guard case .failed(let reason) = outcome else { return nil }
        return error.map { "\($0)" } ?? reason
    }

    /// Why the row has failed, in the words of a table; `nil` if it has not.
    var failedBecause: String? { hasFailed ? reason ?? RowOutcome.openAccounts : nil }

    /// Why there are no numbers.
    var reason: String? { outcome.reason }
}

/// Bytes of one message in one direction, layer by layer.
struct BytesPerMessage: Sendable, Hashable {
    /// The text itself.
    var payload: Double
    /// Added by the codec.
    var codec: Double
    /// Added by the transport's framing, the topic included.
    var framing: Double
    /// The topic in it, which a transport to a broker has in each message.
    var topic = 0.0
    /// Added by the records of TLS.
    var tls = 0.0
    /// TCP or UDP and IP headers; `nil` if unknown.
    var transportIP: Double?

    /// The framing without the topic.
    var header: Double { framing - topic }
    /// All layers together.
    var wire: Double { payload + codec + framing + tls + (transportIP ?? 0) }
}

/// The cost of opening a connection.
struct Handshake: Sendable, Hashable {
    var milliseconds: Double
    /// Bytes in both directions, without TCP and IP headers.
    var bytes: Double
    /// How often one side waits for the other, including TCP's own handshake.
    var roundTrips: Int
}

/// Whether cores could sleep during the run. Waking a sleeping core can cost more than the compared code, so every report
/// names the regime of its numbers. Only `--awake` is certain, because a short wake-up can also mean that both threads shared
/// a core, or that the processor sleeps lightly.
struct WakeUpRegime: Sendable, Hashable {
    /// Median of a round trip between two threads over a pair of eventfds, which is two wake-ups, in microseconds.
    var roundTrip: Double
    /// Whether spinning threads kept the cores from sleeping.
    var isAwake: Bool

    /// `nil` if the wake-up floor was not measured.
    init?(_ results: RunResults) {
        guard let median = results.floors.first(where: { $0.kind == .wakeUp })?.rtt.p50 else { return nil }
        roundTrip = median
        isAwake = results.wereCoresAwake
    }

    /// For the JSON.
    var name: String { isAwake ? "awake" : "sleeping" }

    var sentence: String {
        let cost = "\(shown(roundTrip)) µs for two wake-ups"
        return isAwake
            ? "\(cost): cores were kept awake, so the times compare code"
            : "\(cost): cores may sleep between messages"
    }
}

extension AwakeSpinners {
    /// Starts the threads for `--awake`, and records in the results whether they run.
    static func start(_ options: MachineOptions, _ results: inout RunResults) -> AwakeSpinners? {
        guard options.isAwake else { return nil }
        do throws(SystemFailure) {
            let spinners = try AwakeSpinners()
            results.wereCoresAwake = true
            return spinners
        } catch {
            results.remarks.append(error.message)
            return nil
        }
    }
}
