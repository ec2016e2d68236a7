/// Everything that one run has measured. ``Report`` writes it in each format.
struct RunResults: Sendable {
    var environment: Environment
    /// The options as they could be typed, by name.
    var options: [(name: String, value: String)]
    var seed: UInt64
    var rows: [ResultRow] = []
    var floors: [FloorResult] = []
    /// The cores that client and server were kept on; `nil` if the scheduler chose.
    var placement: ThreadPlacement?
    /// Whether spinning threads kept the cores from sleeping.
    var wereCoresAwake = false
    /// Whether somebody interrupted the run, so that rows are shorter or missing.
    var wasCutShort = false
    /// Sentences that belong to the report, such as that the cores could not be kept awake.
    var remarks: [String] = []

    /// Whether any row failed, or its accounts do not close.
    var hasFailed: Bool { rows.contains(where: \.hasFailed) }
}

/// One row: one transport, codec and size.
struct ResultRow: Sendable {
    enum Loop: String, Sendable, Hashable { case closed, open }

    /// How the row ended.
    enum Outcome: Sendable, Hashable {
        case measured
        /// It cannot run, and that is no fault, as when a message is larger than the transport's limit.
        case skipped(String)
        /// It should have run and did not.
        case failed(String)
    }

    var transport: String
    var codec: String
    /// Bytes of text in the message.
    var size: Int
    var loop = Loop.closed
    var outcome = Outcome.measured
    /// Round-trip times; in the open loop from the time at which the message should have been sent.
    var rtt: Latency?
    /// Open loop: round-trip times from when the message was sent.
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
    /// Open loop: messages per second that were asked for.
    var targetRate: Double?
    /// Processor time of the client's thread, in microseconds.
    var cpuPerMessage: Double?
    var bytesPerMessage: BytesPerMessage?
    var handshake: Handshake?
    var keepaliveBytesPerDay: Double?
    /// What each repeat gave by itself.
    var repeats: RepeatedValues = [:]
    var accounts = Accounts()
    var errors = 0

    var hasFailed: Bool {
        if case .failed = outcome { return true }
        return !accounts.closes
    }

    /// Why there are no numbers.
    var reason: String? {
        switch outcome {
        case .measured: nil
        case .skipped(let reason), .failed(let reason): reason
        }
    }
}

/// Times in microseconds; what too few samples support is `nil`.
struct Latency: Sendable, Hashable {
    var minimum: Double?
    var p50: Double?
    var p90: Double?
    var p99: Double?
    var p999: Double?
    var maximum: Double?
    var mean: Double?
    var count: Int

    init(_ histogram: Histogram) {
        func microseconds(_ nanoseconds: Int64?) -> Double? { nanoseconds.map { Double($0) / 1000 } }
        minimum = microseconds(histogram.minimum)
        p50 = microseconds(histogram.percentile(500))
        p90 = microseconds(histogram.percentile(900))
        p99 = microseconds(histogram.percentile(990))
        p999 = microseconds(histogram.percentile(999))
        maximum = microseconds(histogram.maximum)
        mean = histogram.mean.map { ($0).rounded() / 1000 }
        count = histogram.count
    }
}

/// Bytes of one message on its way there, layer by layer.
struct BytesPerMessage: Sendable, Hashable {
    /// The text itself.
    var payload: Double
    /// What the codec adds.
    var codec: Double
    /// What the transport's framing adds.
    var framing: Double
    /// TCP or UDP and IP headers; `nil` if unknown.
    var transportIP: Double?
    /// Whether the headers were estimated and not taken from the kernel's counts.
    var isEstimated = false

    /// All layers together.
    var wire: Double { payload + codec + framing + (transportIP ?? 0) }
}

/// What opening a link costs.
struct Handshake: Sendable, Hashable {
    var milliseconds: Double
    /// Bytes both ways, without TCP and IP headers.
    var bytes: Double
    /// How often one side waits for the other, TCP's own handshake included.
    var roundTrips: Int
}

/// What the machine itself takes, without any of our code.
struct FloorResult: Sendable {
    var kind: FloorKind
    /// Bytes each way.
    var size: Int
    var rtt: Latency
    var p50Spread: RepeatStatistics?
    /// Why it was not measured.
    var reason: String?
    /// What each repeat gave by itself: the median, and nothing else.
    var repeats: RepeatedValues = [:]

    /// Says that two kinds of round trip are mixed, as when cores sleep now and then, if p90 is more than twice p50. A ratio to
    /// such a floor tells which kind was met more often, and nothing about the code.
    var bimodality: String? {
        guard let p50 = rtt.p50, let p90 = rtt.p90, p90 > 2 * p50 else { return nil }
        return
            "the floor \(kind.rawValue) \(size) is bimodal: p90 of \(shown(p90)) µs is over 2 × p50 of \(shown(p50)) µs"
    }
}
