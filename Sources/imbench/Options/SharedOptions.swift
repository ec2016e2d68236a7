import Protocols
import TransportAPI
import Transports

/// The options of every command.
struct GeneralOptions: Sendable, Equatable {
    var isQuiet = false
    var wantsHelp = false
    var wantsVersion = false

    static let list = {
        var list = OptionList(GeneralOptions())
        list.add(
            .general,
            [
                Setting("quiet", .mark(), \.isQuiet, "no progress and no remarks"),
                Setting("help", .mark(), \.wantsHelp, "print this text"),
                Setting("version", .mark(), \.wantsVersion, "print the version"),
            ]
        )
        return list
    }()
}

/// The format of a report.
enum Format: String, Sendable, Hashable, CaseIterable {
    case table, json, csv, markdown, html
}

/// How a report is written, and where.
struct ReportOptions: Sendable, Equatable {
    var format = Format.table
    /// The file of the report; standard output if `nil`.
    var output: String?
    /// The folder into which each chart of the report is written too.
    var charts: String?
    /// Whether the lines of a table report may be longer than ``TextRenderer/width``.
    var isWide = false

    /// The options of a report without charts.
    static let list = {
        var list = OptionList(ReportOptions())
        list.add(
            .report,
            [
                Setting("format", .word, \.format, "format of the report"),
                Setting(
                    "output",
                    SettingFormat.file.orAbsent("standard output"),
                    \.output,
                    "write the report to this file"
                ),
                Setting("wide", .mark(), \.isWide, "do not wrap the lines of a table report to 80 columns"),
            ]
        )
        return list
    }()

    /// The options of a report with charts.
    static let listWithCharts = {
        var list = ReportOptions.list
        list.add(
            .report,
            [
                Setting(
                    "charts",
                    SettingFormat.file.called("FOLDER").orAbsent("charts are only in --format html"),
                    \.charts,
                    "also write each chart of the report as an SVG file"
                )
            ]
        )
        return list
    }()
}

/// The seed of a command: the given one, or a random one of 32 bits, because some JSON readers keep no more than 53.
func runSeed(_ given: UInt64? = nil) -> UInt64 { given ?? UInt64.random(in: 0...UInt64(UInt32.max)) }

// MARK: Formats

extension SettingFormat where Value == Bool {
    /// The format of a switch, which is off by default.
    ///
    /// - Parameters:
    ///   - on: The text in reports if it is on; `nil` to omit it.
    ///   - off: The text in reports if it is off.
    static func mark(on: String? = nil, off: String? = nil) -> Self {
        var format = SettingFormat.flag
        format.text = { $0 ? on : off }
        return format
    }
}

extension SettingFormat where Value == String {
    /// The format of the path of a file.
    static var file: Self { SettingFormat.text(1...4096).called("FILE") }

    /// Returns the format of a text that a function with errors of its own reads.
    func read<Other>(
        by convert: @escaping @Sendable (String) throws(UsageError) -> Other,
        back: @escaping @Sendable (Other) -> String?
    ) -> SettingFormat<Other> {
        converted(
            { (text) throws(TransportError) in
                do throws(UsageError) {
                    return try convert(text)
                } catch {
                    throw TransportError(.invalidConfiguration, .configure, error.message)
                }
            },
            back: back
        )
    }
}

extension SettingFormat where Value == UInt64 {
    /// The format of a seed: integers that every JSON reader keeps exactly (RFC 8259, section 6).
    static var seed: Self {
        SettingFormat<Int>.integer(0...9_007_199_254_740_991).map({ UInt64($0) }, back: { Int(clamping: $0) })
            .called("S")
    }
}

extension SettingFormat where Value == Duration {
    /// Returns the format of a duration of at most an hour.
    static func upToHour(from least: Duration = .zero) -> Self { .duration(least ... .seconds(3600)) }
}

extension SettingFormat where Value == Double {
    /// The format of a share of packets or datagrams.
    static var share: Self { .number(0...1, percents: 100) }
    /// The format of a rate of messages.
    static var messagesPerSecond: Self { .number(0.001...10_000_000) }
}

extension SettingFormat where Value == [Int] {
    /// The format of the sizes of messages.
    static var sizes: Self { .commaSeparated(.bytes(1...1 << 24), atMost: 16) }
}

extension SettingFormat where Value == [String] {
    /// Returns the format of a list of these words, such as names of transports.
    static func names(_ words: [String]) -> Self { .commaSeparated(.word(of: words)) }
}

extension SettingFormat where Value == RadioModel {
    static var radio: Self {
        var text = SettingFormat<String>.text("a radio").called("WORD")
        text.words = RadioModel.words
        return text.read(by: { (text) throws(UsageError) in try RadioModel(text) }, back: { $0.name })
    }
}

extension SettingFormat where Value == Network {
    static var network: Self {
        SettingFormat<String>.text(1...200).called("NETWORK").read(
            by: { (text) throws(UsageError) in try Network(text) },
            back: { $0.name }
        )
    }
}

// MARK: Settings of several commands

extension Setting {
    /// Returns the option that adds the encrypted transports to plain ones.
    static func tls(_ property: WritableKeyPath<Target, Bool> & Sendable) -> Setting {
        Setting(
            "tls",
            .mark(),
            property,
            "also the same transports over TLS, with certificates of an authority for this run"
        )
    }

    /// Returns the option of the networks between client and server.
    static func network(_ property: WritableKeyPath<Target, [Network]> & Sendable) -> Setting {
        Setting(
            "network",
            each: SettingFormat<Network>.network.withDefault("loopback"),
            atMost: 16,
            property,
            "the network between client and server, on Linux: \(Network.presets.map(\.name).joined(separator: ", ")), or a "
                + "description such as 'delay=50ms±10ms,loss=2%,rate=1mbit/500kbit,queue=100,reorder=1%' (with 'open' and "
                + "'outage' also nat=30s); may be repeated to compare networks"
        )
    }

    /// Returns the option of the seed.
    static func seed(_ property: WritableKeyPath<Target, UInt64?> & Sendable) -> Setting {
        Setting(
            "seed",
            SettingFormat.seed.orAbsent("chosen at random, and printed"),
            property,
            "seed of all random choices: order, clients, losses"
        )
    }

    /// Returns the option that places threads on cores.
    static func placement(
        _ property: WritableKeyPath<Target, Placement> & Sendable,
        clients: String = "client"
    ) -> Setting {
        Setting(
            "placement",
            .word,
            property,
            "\(clients) and server on different cores, on one core, or where the scheduler puts them"
        )
    }

    /// Returns the option of the configuration file.
    static func config(_ property: WritableKeyPath<Target, String?> & Sendable) -> Setting {
        Setting(
            "config",
            SettingFormat.file.orAbsent(""),
            property,
            "a configuration file (Docs/reference/configuration.md), which gives endpoints and codec"
        )
    }

    /// Returns the option of the assertions about the rows of a command.
    static func assertions(
        _ command: Command,
        _ vocabulary: Vocabulary,
        _ property: WritableKeyPath<Target, [Assertion]> & Sendable,
        example: String
    ) -> Setting {
        Setting(
            "assert",
            each: SettingFormat<String>.text("an expression").called("EXPR").read(
                by: { (text) throws(UsageError) in try Assertion(text, vocabulary, for: command) },
                back: { $0.text }
            ),
            atMost: 100,
            property,
            "end with status 99 unless this holds, as in '\(example)'; may be repeated"
        )
    }
}

// MARK: Checks of several commands

/// The transports, each followed by the same one over TLS.
func withEncrypted(_ names: [String], among known: [String]) -> [String] {
    names.flatMap { name in
        let encrypted = TransportRegistry.available.transports.first { $0.name == name }?.encryptedName
        return [name] + [encrypted].compactMap { $0 }.filter { known.contains($0) && !names.contains($0) }
    }
}

extension [Network] {
    /// Checks the networks of `--network`, and that each of the transports has a path through them.
    ///
    /// - Parameters:
    ///   - limit: How many networks the command compares.
    ///   - command: The command, for errors.
    ///   - allowsNAT: Whether a network may have a NAT. It may not if the connections of other rows are idle meanwhile,
    ///     because they would be forgotten.
    func check(
        _ transports: [String],
        _ vocabulary: Vocabulary,
        limit: Int = .max,
        of command: Command,
        allowsNAT: Bool
    ) throws(UsageError) {
        guard count <= limit else {
            throw UsageError("--network may be given once for '\(command.rawValue)'")
        }
        for (index, network) in enumerated() where self[..<index].contains(where: { $0.name == network.name }) {
            throw UsageError("--network: '\(network.name)' is there twice")
        }
        if !allowsNAT, contains(where: { $0.nat != nil }) {
            throw UsageError("--network: 'nat' is for 'open' and 'outage', not for '\(command.rawValue)'")
        }
        guard !isEmpty, let local = transports.first(where: vocabulary.local.contains) else { return }
        let others = vocabulary.transports.filter { !vocabulary.local.contains($0) }
        throw UsageError(
            "--transport \(local) stays in this process, so --network does not change it; "
                + "allowed is \(others.joined(separator: ", "))"
        )
    }
}
