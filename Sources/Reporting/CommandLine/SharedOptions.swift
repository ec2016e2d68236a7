import CommandSupport
import Protocols
import TransportAPI
import Transports
import TrialCertificates

/// The options of every command.
package struct GeneralOptions: Sendable, Equatable {
    package var isQuiet = false
    var wantsHelp = false
    var wantsVersion = false
    /// The options that the command line has. Commands with the same options are equal, whatever was typed.
    var given = GivenOptions()

    package init(isQuiet: Bool = false, wantsHelp: Bool = false, wantsVersion: Bool = false) {
        (self.isQuiet, self.wantsHelp, self.wantsVersion) = (isQuiet, wantsHelp, wantsVersion)
    }

    package static let list = {
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

/// The names of the options that a command line has, which do not count in comparisons.
struct GivenOptions: Sendable, Equatable {
    var names: Set<String> = []

    static func == (_: GivenOptions, _: GivenOptions) -> Bool { true }
}

/// The format of a report.
package enum Format: String, Sendable, Hashable, CaseIterable {
    case table, json, csv, markdown, html
}

/// How a report is written, and where.
package struct ReportOptions: Sendable, Equatable {
    package var format = Format.table
    /// The file of the report; standard output if `nil`.
    package var output: String?
    /// The folder into which each chart of the report is written too.
    package var charts: String?
    /// Whether the lines of a table report may be longer than those of the terminal.
    var isWide = false
    /// Whether a table report has all sections.
    var showsDetails = false

    package init(format: Format = Format.table, output: String? = nil, charts: String? = nil) {
        (self.format, self.output, self.charts) = (format, output, charts)
    }

    /// The options of a report without charts.
    package static let list = {
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
                Setting(
                    "details",
                    .mark(),
                    \.showsDetails,
                    "show all tables of a table report, and not only those that answer"
                ),
                Setting(
                    "wide",
                    .mark(),
                    \.isWide,
                    "do not wrap the lines of a table report to the terminal, or to 80 columns"
                ),
            ]
        )
        return list
    }()

    /// The options of a report with charts.
    package static let listWithCharts = {
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
package func runSeed(_ given: UInt64? = nil) -> UInt64 { given ?? UInt64.random(in: 0...UInt64(UInt32.max)) }

// MARK: Formats

extension SettingFormat where Value == Bool {
    /// The format of a switch, which is off by default.
    ///
    /// - Parameters:
    ///   - on: The text in reports if it is on; `nil` to omit it.
    ///   - off: The text in reports if it is off.
    package static func mark(on: String? = nil, off: String? = nil) -> Self {
        var format = SettingFormat.flag
        format.text = { $0 ? on : off }
        return format
    }
}

extension SettingFormat where Value == String {
    /// The format of the path of a file.
    package static var file: Self { SettingFormat.text(1...4096).called("FILE") }

    /// Returns the format of a text that a function with errors of its own reads.
    package func read<Other>(
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
    package static var seed: Self {
        SettingFormat<Int>.integer(0...9_007_199_254_740_991).map({ UInt64($0) }, back: { Int(clamping: $0) })
            .called("S")
    }
}

extension SettingFormat where Value == Duration {
    /// Returns the format of a duration of at most an hour.
    package static func upToHour(from least: Duration = .zero) -> Self { .duration(least ... .seconds(3600)) }
}

extension SettingFormat where Value == Double {
    /// The format of a share of packets or datagrams.
    package static var share: Self { .number(0...1, percents: 100) }
    /// The format of a rate of messages.
    package static var messagesPerSecond: Self { .number(0.001...10_000_000) }
}

extension SettingFormat where Value == [Int] {
    /// The format of the sizes of messages.
    package static var sizes: Self { .commaSeparated(.bytes(1...1 << 24), atMost: 16) }
}

extension SettingFormat where Value == [String] {
    /// Returns the format of a list of these words, such as names of transports.
    package static func names(_ words: [String]) -> Self { .commaSeparated(.word(of: words)) }
}

// MARK: Settings of several commands

extension Setting {
    /// Returns the option that adds the encrypted transports to plain ones.
    package static func tls(_ property: WritableKeyPath<Target, Bool> & Sendable) -> Setting {
        Setting(
            "tls",
            .mark(),
            property,
            "also the same transports over TLS, with certificates of an authority for this run"
        )
    }

    /// Returns the option of the seed.
    package static func seed(_ property: WritableKeyPath<Target, UInt64?> & Sendable) -> Setting {
        Setting(
            "seed",
            SettingFormat.seed.orAbsent("chosen at random, and printed"),
            property,
            "seed of all random choices: order, clients, losses"
        )
    }

    /// Returns the option of the configuration file.
    package static func config(_ property: WritableKeyPath<Target, String?> & Sendable) -> Setting {
        Setting(
            "config",
            SettingFormat.file.orAbsent(""),
            property,
            "a configuration file (Docs/reference/configuration.md), which gives endpoints and codec"
        )
    }

    /// Returns the option of the assertions about the rows of a command.
    package static func assertions(
        _ names: Assertion.Names,
        _ vocabulary: Vocabulary,
        _ property: WritableKeyPath<Target, [Assertion]> & Sendable
    ) -> Setting {
        Setting(
            "assert",
            each: SettingFormat<String>.text("an expression").called("EXPR").read(
                by: { (text) throws(UsageError) in try Assertion(text, vocabulary, names) },
                back: { $0.text }
            ),
            atMost: 100,
            property,
            "end with status 99 unless this holds, as in '\(names.example)'; may be repeated"
        )
    }
}

// MARK: Checks of several commands

/// The transports, each followed by the same one over TLS.
package func withEncrypted(_ names: [String], among known: [String]) -> [String] {
    names.flatMap { name in
        let encrypted = TransportRegistry.available.transports.first { $0.name == name }?.encryptedName
        return [name] + [encrypted].compactMap { $0 }.filter { known.contains($0) && !names.contains($0) }
    }
}
