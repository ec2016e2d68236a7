import CommandTestSupport
import Testing
import TransportAPI
import Transports

@testable import CommandSupport
@testable import Reporting
@testable import imbench

private struct ReadValue<Value: Sendable>: Sendable {
    var value: Value?
}

/// Reads a text at one of the three places where users write settings.
enum Place: String, CaseIterable, Sendable {
    case url, file, commandLine

    /// The value, as the option or key of this place has it, or the error sentence.
    func read<Value: Sendable>(_ text: String, _ format: SettingFormat<Value>) -> Result<Value, UsageError> {
        do throws(TransportError) {
            switch self {
            case .url:
                var endpoint = try Endpoint("tcp://host")
                endpoint.options = [Endpoint.Option(name: "key", value: text)]
                let setting = Setting("key", format.orAbsent, \ReadValue<Value>.value, "")
                guard let value = try SettingList(ReadValue(), [setting]).read(endpoint).value else {
                    return .failure(UsageError("no value"))
                }
                return .success(value)
            case .file:
                let json = "{\"key\": \(text.debugDescription)}"
                let file = try ConfigurationValue(json.utf8, label: "file", maximumLength: 1000)
                return .success(try format.read(file.required("key", "")))
            case .commandLine:
                let setting = Setting("key", format.orAbsent, \ReadValue<Value>.value, "")
                var (target, line) = (ReadValue<Value>(), TypedLine())
                try setting.apply(&target, line.add(text, to: "key", isRepeatable: false))
                guard let value = target.value else { return .failure(UsageError("no value")) }
                return .success(value)
            }
        } catch {
            #expect(error.code == .invalidConfiguration)
            return .failure(UsageError(error.reason))
        }
    }

    /// The key in error sentences.
    var key: String {
        switch self {
        case .url: "key"
        case .file: "file:1: \"key\""
        case .commandLine: "--key"
        }
    }
}

@Suite("The grammar of settings, in URLs, files and command lines")
struct SettingFormatTests {
    private static let durations = SettingFormat.duration(.zero ... .seconds(3_600_000))

    private func check<Value: Equatable & Sendable>(_ text: String, _ format: SettingFormat<Value>, _ expected: Value?)
    {
        for place in Place.allCases {
            switch (place.read(text, format), expected) {
            case (.success(let value), let expected?): #expect(value == expected, "\(place)")
            case (.failure(let error), nil):
                let sentence = error.message
                #expect(sentence.hasPrefix("\(place.key) is \(text.debugDescription);"), "\(sentence)")
                #expect(sentence.hasSuffix("allowed is \(format.allowed)"), "\(sentence)")
            case (let result, _): Issue.record("\(place): \(result)")
            }
        }
    }

    @Test(
        "A duration is a number with a unit, whole or not",
        arguments: [
            ("0s", .zero), ("1ns", .nanoseconds(1)), ("50us", .microseconds(50)), ("10ms", .milliseconds(10)),
            ("250ms", .milliseconds(250)), ("1.5s", .milliseconds(1500)), ("0.1s", .milliseconds(100)),
            ("5s", .seconds(5)), ("+5s", .seconds(5)), ("007s", .seconds(7)), ("2m", .seconds(120)),
            ("1h", .seconds(3600)), ("0.5h", .seconds(1800)), ("1000h", .seconds(3_600_000)),
            ("", nil), ("s", nil), ("5", nil), ("-5s", nil), ("5 s", nil), ("1e3s", nil), ("5d", nil), ("nans", nil),
            ("infs", nil), ("0x5s", nil), ("1.2.3s", nil), ("1001h", nil), ("99999999999h", nil), ("5S", nil),
            ("9223372036854775807ns", nil), ("99999999999999999999999999999999ns", nil),
        ] as [(String, Duration?)]
    )
    func durations(text: String, expected: Duration?) {
        check(text, Self.durations, expected)
    }

    @Test(
        "A number of bytes may have a unit",
        arguments: [
            ("1", 1), ("65536", 65_536), ("+7", 7), ("64KiB", 65_536), ("1.5MiB", 1_572_864), ("1GiB", 1 << 30),
            ("2kB", 2000), ("0.5MB", 500_000), ("1GB", 1_000_000_000), ("12B", 12),
            ("", nil), ("0", nil), ("-1", nil), ("ten", nil), ("0.3B", nil), ("1.5", nil), ("2GiB", nil), ("KiB", nil),
            ("64kb", nil), ("99999999999999999999", nil), ("99999999TiB", nil), ("9e9GiB", nil),
        ] as [(String, Int?)]
    )
    func bytes(text: String, expected: Int?) {
        check(text, .bytes(1...1 << 30), expected)
    }

    @Test(
        "A count is a whole number",
        arguments: [
            ("1", 1), ("1024", 1024), ("0012", 12), ("0", nil), ("1025", nil), ("1.0", nil), ("1k", nil), ("", nil),
            ("9223372036854775808", nil),
        ] as [(String, Int?)]
    )
    func counts(text: String, expected: Int?) {
        check(text, .integer(1...1024), expected)
    }

    @Test(
        "A share is a number or a percentage",
        arguments: [
            ("0", 0), ("0.25", 0.25), ("1", 1), ("1e-5", 0.00001), ("50%", 0.5), ("0.5%", 0.005), ("100%", 1),
            ("101%", nil), ("1.01", nil), ("-0.1", nil), ("nan", nil), ("inf", nil), ("%", nil), ("", nil),
        ] as [(String, Double?)]
    )
    func shares(text: String, expected: Double?) {
        check(text, .number(0...1, percents: 100), expected)
    }

    @Test(
        "A flag is on or off",
        arguments: [
            ("on", true), ("true", true), ("1", true), ("ON", true), ("off", false), ("false", false), ("0", false),
            ("yes", nil), ("2", nil),
        ] as [(String, Bool?)]
    )
    func flags(text: String, expected: Bool?) {
        check(text, .flag, expected)
    }

    @Test(
        "A word is one of a few, in any letter case",
        arguments: [("json", "json"), ("JSON", "json"), ("protobuf", "protobuf"), ("xml", nil), ("", nil)]
            as [(String, String?)]
    )
    func words(text: String, expected: String?) {
        check(text, .word(of: ["json", "protobuf"]), expected)
    }

    @Test("The error of a misspelt word suggests the nearest one", arguments: Place.allCases)
    func suggestion(place: Place) {
        let expected = #"\#(place.key) is "protobuff"; did you mean "protobuf"? allowed is "json", "protobuf""#
        #expect(place.read("protobuff", .word(of: ["json", "protobuf"])) == .failure(UsageError(expected)))
    }

    @Test("A long text is cut in the error", arguments: Place.allCases)
    func long(place: Place) {
        let text = String(repeating: "9", count: 500)
        let expected = "\(place.key) is \"\(text.prefix(40))\"...; allowed is 1 to 2"
        #expect(place.read(text, .integer(1...2)) == .failure(UsageError(expected)))
    }

    @Test("A list drops empty elements and repetitions, and names the wrong one")
    func lists() {
        let format = SettingFormat.commaSeparated(.bytes(1...10_000), atMost: 3)
        for place in [Place.url, .commandLine] {
            #expect(place.read("32,,4KiB,32", format) == .success([32, 4096]))
            #expect(
                place.read("1,2,3,4", format)
                    == .failure(UsageError("\(place.key) is \"1,2,3,4\"; allowed is \(format.allowed)"))
            )
            guard case .failure(let error) = place.read("1,x", format) else {
                Issue.record("a wrong element is accepted")
                continue
            }
            #expect(error.message.hasPrefix("\(place.key) is \"x\"; allowed is 1 to 10000"))
        }
        #expect(format.text([32, 4096]) == "32,4096")
    }

    @Test("Settings in all three places accept the same units")
    func places() throws {
        let words = ["run", "--warmup", "1.5s", "--size", "4KiB"]
        let options = try OptionParser(vocabulary: everything).parse(words, as: RunCommand.self)
        #expect(options.load.warmup == .milliseconds(1500) && options.rows.sizes == [4096])
        let json = """
            {"endpoints": ["tcp://a?close-timeout=1.5s&write-buffer=4KiB"], "connect-timeout": "1.5s",
             "outbox": {"bytes": "4KiB"}, "keepalive": {"idle-only": "off"}, "codec": "JSON"}
            """
        let configuration = try TransportConfiguration(json: json.utf8)
        #expect(configuration.supervisor.connectTimeout == .milliseconds(1500))
        #expect(configuration.supervisor.outbox.maximumBytes == 4096 && !configuration.supervisor.keepalive.isIdleOnly)
        let limits = try ConnectionLimits.settings(keepalive: .seconds(60)).read(configuration.endpoints[0])
        #expect(limits.closeTimeout == .milliseconds(1500) && limits.writeBuffer == 4096)
    }

    @Test("A duration is written in the largest unit that keeps it whole, and is read back")
    func writing() {
        let texts: [(Duration, String)] = [
            (.zero, "0s"), (.seconds(120), "2m"), (.seconds(90), "90s"), (.milliseconds(1500), "1500ms"),
            (.microseconds(50), "50us"), (.nanoseconds(1501), "1501ns"), (.seconds(86_400), "24h"),
        ]
        for (duration, text) in texts {
            #expect(duration.settingText == text && Duration(setting: text) == duration)
        }
    }
}
