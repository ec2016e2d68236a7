import CommandSupport
import Protocols
import TransportAPI
import Transports

/// A model of how long the radio of a device stays awake for a small transfer. It is not a measurement.
///
/// The radio needs `wake` until it can send, and stays awake for `tail` after the transfer. The transfer itself takes no time
/// in the model, because a ping is short.
struct RadioModel: Sendable, Equatable {
    /// The name or the parameters, as the user typed them.
    var name: String
    /// The time from idle until the radio can send.
    var wake: Duration
    /// The time from the end of a transfer until the radio is idle again.
    var tail: Duration
    /// The source of the parameters, with its year.
    var source: String

    static let lte = RadioModel(
        name: "lte",
        wake: .milliseconds(260),
        tail: .seconds(10),
        source:
            "AT&T, Application Resource Optimizer, lte.conf: tail 10 s and wake 0.26 s, 2012"
    )
    /// The tail consists of 4 s on the dedicated channel (DCH) and 10 s on the shared one (FACH).
    static let umts = RadioModel(
        name: "3g",
        wake: .seconds(2),
        tail: .seconds(14),
        source: "AT&T, Application Resource Optimizer, aria.conf: DCH 4 s and FACH 10 s, 2012"
    )
    static let wifi = RadioModel(
        name: "wifi",
        wake: .zero,
        tail: .milliseconds(250),
        source: "AT&T, Application Resource Optimizer, WiFi.conf, 2012"
    )

    static let known = [lte, umts, wifi]

    private static let time = SettingFormat.duration(.zero ... .seconds(3600))

    init(name: String, wake: Duration, tail: Duration, source: String) {
        (self.name, self.wake, self.tail, self.source) = (name, wake, tail, source)
    }

    /// Reads the value of `--radio`: a known name, or parameters such as `tail=10s,wake=260ms`.
    init(_ text: String) throws(UsageError) {
        if let model = Self.known.first(where: { $0.name == text.lowercased() }) {
            self = model
            return
        }
        guard text.utf8.count <= 200, text.contains("=") else {
            throw .unknown("radio", String(text.prefix(40)), of: "--radio", allowed: Self.words)
        }
        var times: [String: Duration] = [:]
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map { String($0) }
            guard pair.count == 2, ["tail", "wake"].contains(pair[0]) else {
                throw .unknown("parameter", String(part), of: "--radio", allowed: ["tail=TIME", "wake=TIME"])
            }
            guard times[pair[0]] == nil else { throw UsageError("--radio: \(pair[0]) is given twice") }
            times[pair[0]] = try UsageError.translate("--radio") { () throws(TransportError) in
                try Self.time.read(pair[1], key: pair[0])
            }
        }
        guard let tail = times["tail"] else {
            throw UsageError("--radio \(text.debugDescription): tail is missing; allowed is tail=TIME, as in tail=10s")
        }
        self.init(name: text, wake: times["wake"] ?? .zero, tail: tail, source: "--radio")
    }

    /// The allowed values, for errors and the help.
    static let words = known.map(\.name) + ["tail=TIME,wake=TIME"]

    /// Hours a day in which the radio is awake for one ping in each interval. Pings that follow each other sooner than the
    /// radio falls asleep keep it awake all day.
    func awakeHoursPerDay(every interval: Duration) -> Double {
        guard interval > .zero else { return 24 }
        let share = Double((wake + tail).wholeNanoseconds) / Double(interval.wholeNanoseconds)
        return 24 * min(1, share)
    }

    /// Hours a day in which the radio is awake for messages, and for the pings that each interval of silence between them
    /// causes. A transfer during the tail of another one prolongs it.
    func awakeHoursPerDay(every interval: Duration, beside traffic: DailyTraffic) -> Double {
        let (tail, interval) = (Self.seconds(wake + tail), Self.seconds(interval))
        guard interval > 0 else { return 24 }
        /// The awake seconds from one message until the next one.
        func awake(until next: Double) -> Double {
            let pings = (next / interval).rounded(.down)
            return pings * min(interval, tail) + min(next - pings * interval, tail)
        }
        let pause = Double(ConnectionCosts.secondsPerDay) / Double(traffic.bursts) - traffic.secondsPerBurst
        let burst = Double(traffic.messages - 1) * awake(until: 1 / traffic.rate)
        return min(24, Double(traffic.bursts) * (burst + awake(until: max(0, pause))) / 3600)
    }

    private static func seconds(_ duration: Duration) -> Double { Double(duration.wholeNanoseconds) / 1e9 }

    /// The model in one sentence.
    var sentence: String {
        "Radio-awake time is a model, not a measurement: each ping keeps the radio awake for \(Self.text(wake)) until it "
            + "can send and for \(Self.text(tail)) afterwards (\(name); \(source)). Other traffic is not counted."
    }

    /// A time in seconds, as in the sources.
    private static func text(_ time: Duration) -> String {
        "\(fixed(Double(time.wholeNanoseconds) / 1e9, 3, trimmed: true)) s"
    }
}

extension SettingFormat where Value == RadioModel {
    static var radio: Self {
        var text = SettingFormat<String>.text("a radio").called("WORD")
        text.words = RadioModel.words
        return text.read(by: { (text) throws(UsageError) in try RadioModel(text) }, back: { $0.name })
    }
}
