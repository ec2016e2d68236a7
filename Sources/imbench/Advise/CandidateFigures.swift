import Codecs
import Protocols
import TransportAPI
import Transports

/// The measured figures of one candidate.
struct CandidateFigures: Sendable, Equatable {
    /// Round trips until a connection is open.
    var roundTrips: Double
    /// Bytes of one message in one direction, all layers.
    var bytes: Double
    /// Bytes a day of a keepalive at the transport's own interval.
    var keepalive: Double
}

/// The figures of all candidates, and why some have none.
struct AdviceFigures: Sendable {
    var figures: [String: CandidateFigures] = [:]
    var failures: [String: String] = [:]
    /// Where the figures come from.
    var origin: String

    /// Measures the candidates through embedded servers, a few seconds in all.
    static func measured(
        _ candidates: [Candidate],
        _ answers: Answers,
        _ options: GeneralOptions,
        seed: UInt64
    ) throws -> AdviceFigures {
        let rows = RowOptions(
            transports: candidates.map(\.name),
            codec: answers.codec.name,
            size: answers.workload.size
        )
        let registry = TransportRegistry(candidates.map(\.descriptor))
        let stage = try Stage(registry: registry, outside: [], seed: seed, placement: nil)
        let bench = EchoBench(rows, .counted(messages), stage: stage, seed: seed)
        var progress = Progress(total: bench.keys.count, isQuiet: options.isQuiet)
        for key in bench.keys where !Interruption.isRequested {
            progress.step(key.transport)
            bench.measure(key, duration: .seconds(5), messages: messages)
        }
        progress.finish()
        var result = AdviceFigures(origin: "measured now on this machine, through embedded servers")
        for row in bench.results(FloorBench(kinds: [], sizes: [])) {
            result.add(
                row.transport,
                roundTrips: row.handshake.map { Double($0.roundTrips) },
                bytes: row.bytesPerMessage?.wire,
                keepalive: row.keepaliveBytesPerDay,
                reason: row.reason
            )
        }
        bench.close()
        stage.close()
        return result
    }

    private static let messages = 100

    private mutating func add(
        _ name: String,
        roundTrips: Double?,
        bytes: Double?,
        keepalive: Double?,
        reason: String?
    ) {
        guard let roundTrips, let bytes, let keepalive else {
            failures[name] = reason ?? "bytes, round trips or keepalive were not measured"
            return
        }
        figures[name] = CandidateFigures(roundTrips: roundTrips, bytes: bytes, keepalive: keepalive)
    }

    // MARK: Reports

    /// Reads the figures from the JSON of `imbench run` or `imbench overhead`. Of the rows of a transport with the codec of
    /// the answers, the one counts whose size is the nearest to that of the workload.
    ///
    /// - Throws: `.invalidConfiguration` with the file, the line and the allowed values.
    init(json: some Sequence<UInt8>, label: String, _ answers: Answers) throws(TransportError) {
        origin = "from \(label)"
        let file = try ConfigurationValue(json, label: label, maximumLength: RecordedRun.maximumLength)
        let schema = try file.required("schema", Self.schema.debugDescription)
        guard schema.string == Self.schema else { throw schema.wrong(Self.schema.debugDescription) }
        let list = try file.required("results", "an array")
        guard let rows = list.elements else { throw list.wrong("an array") }
        guard rows.count <= RecordedRun.maximumRows else {
            throw list.failure("has more than \(RecordedRun.maximumRows) rows")
        }
        var nearest: [String: Int] = [:]
        for row in rows {
            let name = try row.required("transport", "a text, as imbench run writes it")
            guard let transport = name.string, transport.utf8.count <= Self.longestName else {
                throw name.wrong("a text of at most \(Self.longestName) bytes")
            }
            guard row.member("codec")?.string == answers.codec.name, let size = row.member("size")?.integer else {
                continue
            }
            let distance = abs(size - answers.workload.size)
            guard distance < nearest[transport] ?? .max else { continue }
            nearest[transport] = distance
            (figures[transport], failures[transport]) = (nil, nil)
            add(
                transport,
                roundTrips: try Self.number(row, "handshake", "round_trips"),
                bytes: try Self.number(row, "bytes_per_msg", "wire"),
                keepalive: try Self.number(row, "keepalive_bytes_per_day"),
                reason: nil
            )
        }
    }

    private init(origin: String) { self.origin = origin }

    private static let schema = "imbench/1"
    private static let longestName = 64
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
