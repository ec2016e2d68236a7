import Codecs
import CommandSupport
import Measuring
import Protocols
import Reporting
import TransportAPI
import Transports

/// The parts of a report of `imbench run` that another run can be compared with.
struct RecordedRun: Sendable {
    /// Its file, as its name in sentences.
    var label: String
    /// The plain members of the environment and the options, as texts by their names in the report.
    var environment: [String: String] = [:]
    var options: [String: String] = [:]
    var wasCutShort = false
    /// Whether the run says that its numbers can be trusted; `nil` if it does not say so.
    var isTrusted: Bool?
    var rows: [RecordedRow] = []
    /// The floors as rows without a codec.
    var floors: [RecordedRow] = []
}

/// One row of a report.
struct RecordedRow: Sendable {
    /// Rows with equal names are the same measurement.
    struct Name: Sendable, Hashable {
        /// A transport, or a floor, which then has no codec.
        var transport: String
        var codec = ""
        /// Bytes of text.
        var size: Int
        var loop = ResultRow.Loop.closed
        /// Connections, and how busy each is.
        var load = ""
        /// The impaired network between client and server; empty without one.
        var network = ""
        /// The connection of a picture beside the messages, in a run with `--mix`; empty in other runs.
        var picture = ""

        /// Whether a picture is sent beside the messages.
        var hasPicture: Bool { !picture.isEmpty && picture != PicturePlace.none.rawValue }
    }

    var name: Name
    /// Why it has no numbers.
    var reason: String?
    /// Empty in reports from before `repeats`.
    var repeats: RepeatedValues = [:]
    /// The median of its floor, in microseconds; `nil` if it has none.
    var floorP50: Double?
}

/// Reads a report from its file.
///
/// - Throws: `.invalidConfiguration` with the file, the line and the allowed values, or that the file cannot be read.
func readRun(_ path: String) throws(TransportError) -> RecordedRun {
    try RecordedRun(json: readInput(path, limit: RecordedRun.maximumLength).utf8, label: path)
}

extension RecordedRun {
    /// The longest report, in bytes.
    static let maximumLength = 16 << 20
    /// The most rows, and the most floors: several times as many as the options allow.
    static let maximumRows = 4096
    /// The most repeats, as `--repeat` has it.
    static let maximumRepeats = 1000
    /// The largest floor, in bytes. A floor has the size of an encoded message, which is larger than its text.
    static let maximumFloorSize = 1 << 25
    /// The longest text that is kept, in Unicode scalars.
    static let keptText = 400

    private static let schema = "imbench/1"

    /// Reads the JSON of `imbench run`. Unknown members are ignored, because new members do not change the schema.
    init(json: some Sequence<UInt8>, label: String) throws(TransportError) {
        self.init(label: label)
        let file = try ConfigurationValue(json, label: label, maximumLength: Self.maximumLength)
        let schema = try file.required("schema", Self.schema.debugDescription)
        guard schema.string == Self.schema else { throw schema.wrong(Self.schema.debugDescription) }
        environment = try Self.texts(try file.required("environment", "an object"))
        options = try Self.texts(try file.required("options", "an object"))
        if case .bool(true)? = file.member("cut_short")?.node.value { wasCutShort = true }
        if case .bool(let isGiven)? = file.member("trust")?.member("given")?.node.value { isTrusted = isGiven }
        let load = self.load
        rows = try Self.rows(file, "results") { (value) throws(TransportError) in
            var row = RecordedRow(name: try Self.name(value, "transport", maximumSize: 1 << 24))
            row.name.codec = try Self.text(try value.required("codec", "a text, as imbench run writes it"))
            row.name.loop = try Self.loop(value)
            row.name.load = load
            row.name.network = try value.member("network").flatMap(Self.textOrNull) ?? ""
            row.name.picture = try value.member("picture").map(Self.text) ?? ""
            row.floorP50 = try value.member("floor_rtt_us").flatMap(Self.floor)
            return row
        }
        // A run over networks measures no floors.
        guard file.member("floors") != nil else { return }
        floors = try Self.rows(file, "floors") { (value) throws(TransportError) in
            RecordedRow(name: try Self.name(value, "floor", maximumSize: Self.maximumFloorSize))
        }
    }

    /// Connections, and how busy each is.
    private var load: String {
        ["connections", "in-flight", "rate"].compactMap { name in options[name].map { "\(name)=\($0)" } }
            .joined(separator: " ")
    }

    // MARK: Rows

    private static func rows(
        _ file: ConfigurationValue,
        _ key: String,
        _ read: (ConfigurationValue) throws(TransportError) -> RecordedRow
    ) throws(TransportError) -> [RecordedRow] {
        let list = try file.required(key, "an array")
        guard let elements = list.elements else { throw list.wrong("an array") }
        guard elements.count <= maximumRows else { throw list.failure("has more than \(maximumRows) rows") }
        var names: Set<RecordedRow.Name> = []
        var rows: [RecordedRow] = []
        for value in elements {
            var row = try read(value)
            guard names.insert(row.name).inserted else { throw value.failure("is a duplicate row") }
            row.reason = try value.member("reason").map(text)
            if let repeats = value.member("repeats") { row.repeats = try self.repeats(repeats) }
            rows.append(row)
        }
        return rows
    }

    private static func name(
        _ row: ConfigurationValue,
        _ key: String,
        maximumSize: Int
    ) throws(TransportError) -> RecordedRow.Name {
        let transport = try text(try row.required(key, "a text, as imbench run writes it"))
        let allowed = "1 to \(maximumSize)"
        let size = try row.required("size", allowed)
        guard let bytes = size.integer, (1...maximumSize).contains(bytes) else { throw size.wrong(allowed) }
        return RecordedRow.Name(transport: transport, size: bytes)
    }

    private static func loop(_ row: ConfigurationValue) throws(TransportError) -> ResultRow.Loop {
        let (words, allowed) = (["closed", "open"], #""closed" or "open""#)
        let value = try row.required("loop", allowed)
        guard let loop = value.string.flatMap(ResultRow.Loop.init) else { throw value.wrong(allowed, words: words) }
        return loop
    }

    /// The median in `floor_rtt_us`, which is null without a floor.
    private static func floor(_ value: ConfigurationValue) throws(TransportError) -> Double? {
        if case .null = value.node.value { return nil }
        guard value.members != nil else { throw value.wrong("an object or null") }
        guard let median = value.member("p50") else { return nil }
        if case .null = median.node.value { return nil }
        guard let number = median.number, number > 0 else { throw median.wrong("a number above 0, or null") }
        return number
    }

    private static func repeats(_ value: ConfigurationValue) throws(TransportError) -> RepeatedValues {
        guard value.members != nil else { throw value.wrong("an object") }
        var repeats: RepeatedValues = [:]
        for metric in RepeatedMetric.allCases {
            guard let list = value.member(metric.key) else { continue }
            guard let elements = list.elements else { throw list.wrong("an array") }
            guard elements.count <= maximumRepeats else {
                throw list.failure("has \(elements.count) repeats; allowed are \(maximumRepeats)")
            }
            var values: [Double?] = []
            for element in elements {
                if case .null = element.node.value {
                    values.append(nil)
                } else if let number = element.number, number >= 0 {
                    values.append(number)
                } else {
                    throw element.wrong("a number that is not negative, or null")
                }
            }
            repeats[metric] = values
        }
        return repeats
    }

    // MARK: Texts

    private static func textOrNull(_ value: ConfigurationValue) throws(TransportError) -> String? {
        if case .null = value.node.value { return nil }
        return try text(value)
    }

    /// The plain members of an object, as texts.
    private static func texts(_ object: ConfigurationValue) throws(TransportError) -> [String: String] {
        guard let members = object.members else { throw object.wrong("an object") }
        var texts: [String: String] = [:]
        for member in members {
            // Checked before it is hashed; see UTF8Key.
            guard member.name.utf8.count <= CodecLimits().maximumKeyLength else {
                throw object.wrong("an object whose names have at most \(CodecLimits().maximumKeyLength) bytes")
            }
            let name = ChatLine.printable(member.name, limit: keptText)
            switch member.value.kind {
            case .string: texts[name] = try text(object.value(of: member))
            case .integer(let number): texts[name] = "\(number)"
            case .number(let number): texts[name] = fixed(number, 3, trimmed: true)
            case .bool(let isTrue): texts[name] = isTrue ? "yes" : "no"
            case .null, .array, .object: continue
            }
        }
        return texts
    }

    /// A text that is safe in one line of a terminal; the beginning of a long one.
    private static func text(_ value: ConfigurationValue) throws(TransportError) -> String {
        guard let text = value.string else { throw value.wrong("a text") }
        return ChatLine.printable(text, limit: keptText)
    }
}
