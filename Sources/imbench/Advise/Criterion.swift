import CommandSupport
import Protocols
import TransportAPI
import Transports
import Workloads

/// A criterion of `imbench advise`. A smaller figure is better.
enum Criterion: String, Sendable, Hashable, CaseIterable {
    case firstMessage, bytes, keepalive, radio, late, lost, ports, routing

    /// How a figure becomes 0 to 10 points.
    enum Rule: Sendable {
        /// 10 × the smallest figure / this one.
        case ratio
        /// 10, less 2 for each percent.
        case percent
        /// 10 for 0, otherwise none.
        case zero

        var sentence: String {
            switch self {
            case .ratio: "10 × smallest / figure"
            case .percent: "10 - 2 × figure, at least 0"
            case .zero: "10 if 0, otherwise 0"
            }
        }
    }

    var title: String {
        switch self {
        case .firstMessage: "first message, ms"
        case .bytes: "bytes per message"
        case .keepalive: "keepalive, B/day"
        case .radio: "radio awake, h/day"
        case .late: "late messages, %"
        case .lost: "lost messages, %"
        case .ports: "ports to open"
        case .routing: "fan-out to write"
        }
    }

    var rule: Rule {
        switch self {
        case .firstMessage, .bytes, .keepalive, .radio: .ratio
        case .late, .lost: .percent
        case .ports, .routing: .zero
        }
    }

    /// Decimals of its figures.
    private var digits: Int {
        switch self {
        case .keepalive, .ports, .routing: 0
        case .firstMessage, .bytes: 1
        case .radio, .late, .lost: 2
        }
    }

    /// Where the figure comes from, in the words of the report.
    func meaning(_ assumptions: AdviceOptions, _ answers: Answers) -> String {
        switch self {
        case .firstMessage:
            "measured round trips until a connection is open, and one more for a session, × "
                + "\(assumptions.roundTrip.settingText) (assumed)"
        case .bytes:
            "measured, \(answers.workload.size) bytes of text in \(answers.codec.name), all layers, one direction"
        case .keepalive: "measured ping, at the transport's own interval"
        case .radio:
            "model, not measured: \(assumptions.radio.wake.settingText) + \(assumptions.radio.tail.settingText) after each "
                + "message and ping (\(assumptions.radio.source)); \(answers.workload.traffic.sentence) (assumed), and "
                + "pings at the transport's own interval between them"
        case .late:
            "model: a lost packet (\(Self.percent(assumptions.loss)) %, assumed) delays its message, and in an ordered "
                + "stream (RFC 9293, 2022) also those of the next round trip: loss × "
                + "(1 + \(fixed(answers.workload.traffic.rate, 2, trimmed: true))/s × round trip)"
        case .lost: "the assumed loss, where nothing repeats a lost packet"
        case .ports:
            "1 if it needs another port than 80 or 443; 3 to 5 % of networks block UDP (RFC 9308, 2022, section 2; data of 2016)"
        case .routing: "0 if a broker sends a message to all subscribers, 1 if your server does"
        }
    }

    private static func percent(_ share: Double) -> String { fixed(share * 100, 2, trimmed: true) }

    /// The figure of a candidate, rounded as it is printed.
    func figure(_ candidate: Candidate, _ measured: CandidateFigures, _ options: AdviceOptions, _ answers: Answers)
        -> Double
    {
        rounded(exact(candidate, measured, options, answers), digits)
    }

    private func exact(
        _ candidate: Candidate,
        _ measured: CandidateFigures,
        _ options: AdviceOptions,
        _ answers: Answers
    ) -> Double {
        let seconds = Double(options.roundTrip.wholeNanoseconds) / 1e9
        let capabilities = candidate.capabilities
        switch self {
        case .firstMessage:
            // A session sends its messages after the welcome of the server.
            let roundTrips = measured.roundTrips + (candidate.needsSession(answers) ? 1 : 0)
            return roundTrips * seconds * 1000
        case .bytes: return measured.bytes
        case .keepalive: return measured.keepalive
        case .radio:
            let idle = IdleTraffic(of: candidate.name)?.interval ?? capabilities.keepaliveInterval
            return options.radio.awakeHoursPerDay(
                every: min(idle, capabilities.keepaliveInterval),
                beside: answers.workload.traffic
            )
        case .late:
            guard capabilities.isReliable else { return 0 }
            let delayed = capabilities.isOrdered ? 1 + answers.workload.traffic.rate * seconds : 1
            return min(100, options.loss * delayed * 100)
        case .lost: return capabilities.isReliable ? 0 : options.loss * 100
        case .ports: return candidate.isWeb ? 0 : 1
        case .routing: return capabilities.routesByTopic ? 0 : 1
        }
    }

    /// The figure as a text.
    func text(_ figure: Double) -> String { fixed(figure, digits, trimmed: true) }

    /// The points of a figure, rounded as they are printed.
    func points(_ figure: Double, smallest: Double) -> Double {
        switch rule {
        case .ratio: figure > 0 ? rounded(10 * smallest / figure, 1) : 10
        case .percent: rounded(max(0, 10 - 2 * figure), 1)
        case .zero: figure == 0 ? 10 : 0
        }
    }

    /// The weight for these answers; 0 if the criterion does not matter.
    func weight(_ answers: Answers) -> Int {
        switch self {
        case .radio where !answers.clients.contains(where: \.hasRadio): 0
        case .late where answers.arrival == .mayBeLate: 0
        case .ports where answers.path == .own: 0
        case .routing:
            // The members of a room get their messages from a server of the app in any case.
            answers.receivers == .topic ? answers.workload.weights[self, default: 0] : 0
        default: answers.workload.weights[self, default: 0]
        }
    }
}

extension Workload {
    /// How much each criterion matters to such an app, from 0 to 6. These weights are a judgement, not a measurement.
    var weights: [Criterion: Int] {
        switch self {
        // People open the app often, from anywhere, and a phone keeps it open all day.
        case .chat: [.firstMessage: 3, .bytes: 1, .keepalive: 1, .radio: 3, .late: 1, .ports: 4, .routing: 4]
        // Many small messages, each soon out of date.
        case .presence:
            [.firstMessage: 1, .bytes: 3, .keepalive: 1, .radio: 2, .late: 3, .lost: 1, .ports: 3, .routing: 4]
        // A position is worthless when the next one is there.
        case .game: [.firstMessage: 1, .bytes: 1, .late: 6, .lost: 2, .ports: 1, .routing: 2]
        // Connections stay open for weeks on a battery, and others subscribe.
        case .iot: [.firstMessage: 1, .bytes: 2, .keepalive: 2, .radio: 4, .late: 1, .ports: 1, .routing: 5]
        // Viewers come and go, and most use a browser.
        case .live: [.firstMessage: 3, .bytes: 2, .radio: 1, .late: 2, .lost: 1, .ports: 4, .routing: 4]
        // Only what passes the proxy works at all.
        case .corporate: [.firstMessage: 3, .bytes: 1, .keepalive: 1, .late: 1, .ports: 6, .routing: 2]
        }
    }
}
