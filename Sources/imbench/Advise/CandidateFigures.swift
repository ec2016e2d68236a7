import Codecs
import CommandSupport
import Measuring
import Protocols
import Reporting
import TransportAPI
import Transports
import Workloads

/// The measured figures of one candidate.
struct CandidateFigures: Sendable, Equatable {
    /// Round trips until a connection is open.
    var roundTrips: Double
    /// Bytes of one message in one direction, all layers.
    var bytes: Double
    /// Bytes a day of a keepalive at the transport's own interval.
    var keepalive: Double
}

/// The figures of all candidates, or why some have none.
struct AdviceFigures: Sendable {
    /// One transport with one codec and size.
    struct Row: Sendable {
        var transport: String
        var codec: String
        /// Bytes of text in a message.
        var size: Int
        var figures: CandidateFigures?
        /// Why there are no figures.
        var reason: String?
    }

    var rows: [Row] = []
    /// Where the figures come from.
    var origin: String

    /// Of the rows of a transport with the codec of the answers, the one whose size is the nearest to that of the workload.
    func row(of transport: String, for answers: Answers) -> Row? {
        rows.filter { $0.transport == transport && $0.codec == answers.codec.name }
            .min { abs($0.size - answers.workload.size) < abs($1.size - answers.workload.size) }
    }

    /// Measures the candidates through embedded servers with each codec and the size of each workload, about ten seconds
    /// in all.
    static func measured(_ candidates: [Candidate], _ options: GeneralOptions, seed: UInt64) throws -> AdviceFigures {
        var rows = RowOptions(.measured)
        rows.transports = candidates.map(\.name)
        rows.sizes = Workload.allCases.map(\.size).distinct
        let registry = TransportRegistry(candidates.map(\.descriptor))
        let stage = try Stage(registry: registry, outside: [], seed: seed, placement: nil)
        // Opening the connections of a row takes longer than its few messages.
        let openingWeight = 4
        var progress = Progress(total: rows.count * (openingWeight + 1), isQuiet: options.isQuiet)
        let bench = EchoBench(rows, .counted(messages), stage: stage, seed: seed) { key in
            progress.step("opening \(key.name)", weight: openingWeight)
        }
        for key in bench.keys where !Interruption.isRequested {
            progress.step(key.transport)
            bench.measure(key, duration: .seconds(5), messages: messages)
        }
        progress.finish()
        var result = AdviceFigures(origin: "measured now on this machine, through embedded servers")
        for row in bench.results() {
            result.add(
                Row(transport: row.transport, codec: row.codec, size: row.size, reason: row.reason),
                roundTrips: row.handshake.map { Double($0.roundTrips) },
                bytes: row.bytesPerMessage?.wire,
                keepalive: row.keepaliveBytesPerDay
            )
        }
        bench.close()
        stage.close()
        return result
    }

    private static let messages = 100

    private mutating func add(_ row: Row, roundTrips: Double?, bytes: Double?, keepalive: Double?) {
        var row = row
        if let roundTrips, let bytes, let keepalive {
            row.figures = CandidateFigures(roundTrips: roundTrips, bytes: bytes, keepalive: keepalive)
        } else {
            row.reason = row.reason ?? "bytes, round trips or keepalive were not measured"
        }
        rows.append(row)
    }
}

extension AdviceFigures {
    // MARK: Reports

    /// Reads the figures from the JSON of `imbench run` or `imbench overhead`.
    ///
    /// - Throws: `.invalidConfiguration` with the file, the line and the allowed values.
    init(json: some Sequence<UInt8>, label: String) throws(TransportError) {
        self.init(origin: "from \(label)")
        let file = try ConfigurationValue(json, label: label, maximumLength: RecordedRun.maximumLength)
        let schema = try file.required("schema", Self.schema.debugDescription)
        guard schema.string == Self.schema else { throw schema.wrong(Self.schema.debugDescription) }
        let list = try file.required("results", "an array")
        guard let rows = list.elements else { throw list.wrong("an array") }
        guard rows.count <= RecordedRun.maximumRows else {
            throw list.failure("has more than \(RecordedRun.maximumRows) rows")
        }
        for row in rows {
            let name = try row.required("transport", "a text, as imbench run writes it")
            guard let transport = name.string, transport.utf8.count <= Self.longestName else {
                throw name.wrong("a text of at most \(Self.longestName) bytes")
            }
            // A row of another report may lack them.
            guard let codec = row.member("codec")?.string, let size = row.member("size")?.integer,
                Self.sizes.contains(size)
            else { continue }
            add(
                Row(transport: transport, codec: codec, size: size),
                roundTrips: try Self.number(row, "handshake", "round_trips"),
                bytes: try Self.number(row, "bytes_per_msg", "wire"),
                keepalive: try Self.number(row, "keepalive_bytes_per_day")
            )
        }
    }

    private static let schema = "imbench/1"
    private static let longestName = 64
    /// The sizes that `imbench run` has.
    private static let sizes = 1...1 << 24
    private static let largest = 1e15

    /// A number at the end of these keys, or `nil` if there is none.
    private static func number(_ row: ConfigurationValue, _ keys: String...) throws(TransportError) -> Double? {
        var value = row
        for key in keys {
            guard let member = value.member(key) else { return nil }
            value = member
        }
        if case .null = value.node.value { return nil }
        guard let number = value.number, (0...largest).contains(number) else {
            throw value.wrong("0 to \(fixed(largest, 0)), or null")
        }
        return number
    }
}
