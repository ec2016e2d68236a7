import CommandSupport
import Measuring
import Reporting

/// The sentences of a run about its differences.
extension RunResults {
    private var measured: [ResultRow] { rows.filter { $0.outcome == .measured && $0.rtt != nil } }

    /// The differences of round trips. The sentences and the conclusion have the same ones, so that they agree.
    var roundTripDifferences: RowDifferences {
        RowDifferences([byTransport(.p50), byCodec(.p50)], .time, wasCutShort: wasCutShort)
    }

    /// The sentences under the table of round trips.
    var roundTripSentences: [String] { roundTripDifferences.sentences }

    /// Whether the round trip of one row is surely longer than that of another one, which differs in transport or codec.
    static func isLonger(_ slow: ResultRow, than fast: ResultRow, _ differences: RowDifferences) -> Bool {
        func place(_ group: String) -> RowDifferences.Place { .init(group: group, size: slow.size) }
        guard slow.size == fast.size else { return false }
        if slow.codec == fast.codec {
            return differences.isSure(slow.transport, above: fast.transport, at: place(slow.codec))
        }
        return slow.transport == fast.transport
            && differences.isSure(slow.codec, above: fast.codec, at: place(slow.transport))
    }

    /// The sentences under the table of costs.
    var costSentences: [String] {
        let axes = [byTransport(.cpu), byCodec(.cpu)]
        // The table above has the sentence about too few repeats.
        let known = [roundTripDifferences.shortage]
        let processor = RowDifferences(axes, .processorTime, wasCutShort: wasCutShort).sentences.filter {
            !known.contains($0)
        }
        let opening = measured.contains { $0.handshake != nil }
        let notJudged = "\"open ms\" is the median of a few connections in a row, so its differences are not judged."
        return processor + [byteSentence].compactMap { $0 } + (opening ? [notJudged] : [])
    }

    /// The sentences under the table of floors.
    var floorSentences: [String] {
        let rows = floors.filter { $0.kind != .wakeUp }.map {
            RowDifferences.Row(subject: $0.kind.rawValue, size: $0.size, values: $0.repeats[.p50] ?? [])
        }
        let known = [roundTripDifferences.shortage]
        return RowDifferences([.init(rows: rows)], .time, wasCutShort: wasCutShort).sentences.filter {
            !known.contains($0)
        }
    }

    /// Each transport beside the first one, with the same codec and size.
    private func byTransport(_ metric: RepeatedMetric) -> RowDifferences.Axis {
        RowDifferences.Axis(
            preposition: "with",
            rows: measured.map { row in
                .init(subject: row.transport, group: row.codec, size: row.size, values: row.repeats[metric] ?? [])
            }
        )
    }

    /// Each codec beside the first one, over the same transport with the same size.
    private func byCodec(_ metric: RepeatedMetric) -> RowDifferences.Axis {
        RowDifferences.Axis(
            preposition: "over",
            rows: measured.map { row in
                .init(subject: row.codec, group: row.transport, size: row.size, values: row.repeats[metric] ?? [])
            }
        )
    }

    // MARK: Bytes

    /// The bytes of each transport beside those of the first one, with the same codec and size. They are counted, so every
    /// difference is sure, unless it is below ``leastBytes``. A row whose headers are not known is left out.
    private var byteSentence: String? {
        guard let reference = measured.first?.transport else { return nil }
        let texts = measured.map(\.transport).distinct.dropFirst().compactMap { transport -> String? in
            let differences = measured.filter { $0.transport == transport }.compactMap { row -> Double? in
                let other = measured.first {
                    $0.transport == reference && $0.codec == row.codec && $0.size == row.size
                }
                guard let bytes = row.bytesPerMessage, let others = other?.bytesPerMessage,
                    (bytes.transportIP == nil) == (others.transportIP == nil)
                else { return nil }
                let difference = bytes.wire - others.wire
                return abs(difference) < Self.leastBytes ? 0 : difference.rounded()
            }
            guard let low = differences.min(), let high = differences.max() else { return nil }
            return "over \(transport) \(Self.range(low, high))\(topic(transport))"
        }
        guard !texts.isEmpty else { return nil }
        return "Bytes are counted, but acknowledgements of TCP depend on timing, so less than 1 byte is no difference. "
            + "Compared with \(reference), a message takes on the wire: " + texts.joined(separator: ", ") + "."
    }

    /// The part of a transport's bytes that depends on the name that the app chooses for its topic.
    private func topic(_ transport: String) -> String {
        let lengths = measured.filter { $0.transport == transport }.compactMap { $0.bytesPerMessage?.topic }
        guard let low = lengths.min(), let high = lengths.max(), low > 0 else { return "" }
        let count = low == high ? fixed(low, 0) : "\(fixed(low, 0)) to \(fixed(high, 0))"
        return " (\(count) are the topic, whose length the app chooses)"
    }

    /// The smallest difference in bytes per message that is not due to the number of acknowledgements.
    private static let leastBytes = 1.0

    /// A range of differences: "2 to 4 more".
    private static func range(_ low: Double, _ high: Double) -> String {
        func count(_ from: Double, _ to: Double) -> String {
            from == to ? fixed(from, 0) : "\(fixed(from, 0)) to \(fixed(to, 0))"
        }
        if low == 0, high == 0 { return "as many bytes" }
        if low >= 0 { return count(low, high) + " bytes more" }
        if high <= 0 { return count(-high, -low) + " bytes fewer" }
        return "from \(fixed(-low, 0)) bytes fewer to \(fixed(high, 0)) more"
    }

    // MARK: In short

    /// The verdict of the report: results for a person. Empty if the numbers have no meaning.
    var conclusions: [String] {
        guard !environment.isDebugBuild else { return [] }
        guard let speed = speedConclusion else {
            return [medians, roundTripDifferences.notCompared].compactMap { $0 }
        }
        return [speed, byteConclusion].compactMap { $0 }
    }

    /// What to do about the results, for the end of the tables. Empty if there are no results.
    var advice: [String] {
        guard !environment.isDebugBuild, speedConclusion != nil else { return [] }
        return [[choice, nextSteps].compactMap { $0 }.joined(separator: " ")].filter { !$0.isEmpty }
    }

    /// The medians of the smallest messages, for a run whose rows are not compared. So none of them is named.
    private var medians: String? {
        guard let size = measured.map(\.size).min() else { return nil }
        let figures = measured.filter { $0.size == size }.compactMap { row in
            (row.rttP50Spread?.median ?? row.rtt?.p50).map { (name: "\(row.codec) over \(row.transport)", value: $0) }
        }
        guard let range = NamedRange(figures) else { return nil }
        return "With messages of \(size) bytes, the median round trip is \(range.unnamed("µs"))."
    }

    private var isOutside: Bool { record.options.contains { ["url", "config", "network"].contains($0.name) } }

    /// How much the transports and the codecs differ, and how many comparisons are left out.
    private var speedConclusion: String? {
        let differences = roundTripDifferences
        var sentences: [String] = []
        for (axis, (other, subject)) in [("codec", "transport"), ("transport", "codec")].enumerated() {
            guard let most = differences.largestFactor(axis: axis) else { continue }
            let isFirst = sentences.isEmpty
            // The report of a disturbed machine says that before.
            let place =
                !isFirst || !trust.isGiven
                ? "With" : isOutside ? "In this run, with" : "On this machine, with"
            let bound = Self.times(most.bound)
            let estimate = "\(fixed(most.estimate, 2, trimmed: true)) times"
            // The certainty is that of all sentences.
            let certainty = isFirst ? ", with \(fixed(RowDifferences.certainty * 100, 0)) % certainty" : ""
            sentences.append(
                "\(place) the same \(other) and size, the slowest \(subject) takes about \(estimate) the time of "
                    + "the fastest (at most \(bound)\(certainty))."
            )
            sentences += [differences.sureSentence(axis: axis, namesCertainty: isFirst)].compactMap { $0 }
        }
        guard !sentences.isEmpty else { return nil }
        // The sentences under the table name more of them.
        return (sentences + [differences.leftOutSentence(mostParts: 1)].compactMap { $0 }).joined(separator: " ")
    }

    /// The conclusion from transports that differ little, or the remedy if noise may hide that; `nil` for others.
    var choice: String? {
        let differences = roundTripDifferences
        guard !environment.isDebugBuild, let most = differences.largestFactor(),
            differences.largestSure()?.factor ?? 1 < Self.similar
        else { return nil }
        guard most.bound >= Self.similar else {
            return "Choose the transport by what it guarantees, and by the network."
        }
        return
            "The bound of \(Self.times(most.bound)) includes noise: a quiet machine or more --repeat gives a closer one."
    }

    /// The factor that a bound does not exceed.
    private static func times(_ bound: Double) -> String {
        "\(fixed((bound * 100).rounded(.up) / 100, 2, trimmed: true)) times"
    }

    /// The rows that do not apply, and so are not compared; `nil` if there is none.
    var skipped: String? {
        let skipped = rows.filter { if case .skipped = $0.outcome { true } else { false } }
        guard !skipped.isEmpty, !wasCutShort else { return nil }
        let names = RowDifferences.names(
            of: skipped.map { ($0.transport, .init(group: $0.codec, size: $0.size)) },
            rows.map { .init(group: $0.codec, size: $0.size) }.distinct,
            "with"
        )
        let rows = "\(skipped.count) of \(counted(rows.count, "row"))"
        return "\(rows) \(skipped.count == 1 ? "was" : "were") skipped (\(names.joined(separator: "; ")))."
    }

    /// The factor below which round trips are called similar.
    private static let similar = 1.5

    private var byteConclusion: String? {
        guard let size = measured.map(\.size).min() else { return nil }
        let rows = measured.filter { $0.size == size && $0.bytesPerMessage?.transportIP != nil }
        func bytes(_ row: ResultRow) -> Double { row.bytesPerMessage?.wire ?? 0 }
        guard let least = rows.min(by: { bytes($0) < bytes($1) }), let most = rows.max(by: { bytes($0) < bytes($1) }),
            bytes(most) - bytes(least) >= Self.leastBytes
        else { return nil }
        func text(_ row: ResultRow) -> String { "\(fixed(bytes(row), 0)) bytes (\(row.codec) over \(row.transport))" }
        let all = measured.filter { $0.size == size && $0.bytesPerMessage != nil }
        let unknown = all.filter { $0.bytesPerMessage?.transportIP == nil }.map(\.transport).distinct
        let leftOut = unknown.isEmpty ? "" : "; \(RowDifferences.list(unknown)) without known headers not counted"
        return "On the wire, a message of \(size) bytes takes from \(text(least)) to \(text(most))\(leftOut)."
    }

    /// The commands that answer what a run over loopback cannot.
    private var nextSteps: String? {
        guard !isOutside else { return nil }
        return "Loopback has no loss: see 'imbench open --network 4g', 'imbench outage', 'imbench advise'."
    }
}
