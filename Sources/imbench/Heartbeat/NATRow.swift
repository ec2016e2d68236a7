import CommandSupport
import Protocols
import Reporting
import TransportAPI
import Transports
import Workloads

/// The times of the measured NAT. They are scaled down, because only their ratios matter.
struct NATTiming: Sendable, Equatable {
    /// The time without packets after which the NAT forgets a mapping.
    var memory = Duration.seconds(2)
    /// The time limit of the answer to a ping.
    var timeout = Duration.seconds(1)

    /// An interval that keeps the mapping, and one that does not.
    var short: Duration { memory / 2 }
    var long: Duration { memory * 2 }

    /// The time of the server's message: between the end of an idle mapping and the next ping at the long interval. At the
    /// short interval, it is between two pings.
    var message: Duration { memory * 7 / 4 }
    /// The time at which the long interval has had its effect.
    var effect: Duration { long + timeout * 3 / 2 }
    /// How long the client may take to connect again, and messages to arrive.
    var connectTimeout: Duration { .seconds(10) }
    /// How long a message may take when the client is reachable again.
    var delivery: Duration { .seconds(2) }

    /// The pings of a transport's rows. A broker sends none.
    func pings(isBroker: Bool) -> [NATPings] {
        let client = [NATPings(client: short), NATPings(client: long)]
        return isBroker ? client : client + [NATPings(client: long, server: short)]
    }
}

/// The pings of one row behind the measured NAT.
struct NATPings: Sendable, Hashable {
    /// The silence before a ping of the client.
    var client: Duration
    /// The silence before a ping of the server; `nil` if it sends none.
    var server: Duration?

    /// The shorter of the intervals, as in the table of the report.
    var text: String { server.map { "server \($0.settingText)" } ?? client.settingText }
}

/// The events of one client behind the measured NAT. The times count from its open connection, after which it is silent.
struct NATObservation: Sendable, Equatable {
    /// The mappings between client and server that the NAT forgot.
    var forgotten = 0
    /// When the supervisor ended the connection.
    var lost: Duration?
    /// When it had the next one.
    var reopened: Duration?
    /// When the first ping after the memory of the NAT was answered.
    var answered: Duration?
    /// When the server's message arrived.
    var message: Duration?
    /// Whether a message that the server sent at the end arrived.
    var isReachable = false
}

/// One row of the NAT that `imbench heartbeat` measures: a transport, its pings, and what happened.
struct NATRow: Sendable {
    /// The fate of the message that the server sent while an idle mapping was forgotten.
    enum Fate: String, Sendable, Hashable, CaseIterable {
        /// It arrived while the connection was good.
        case atOnce = "at once"
        /// It arrived over the same connection, after the client was reachable again.
        case late
        /// It arrived over the supervisor's next connection.
        case reconnect
        case lost
    }

    var transport: String
    var pings: NATPings
    var delivery: DeliveryConfiguration.Mode
    /// Whether the connection outlives a change of the client's address.
    var survivesRebinding = false
    var timing = NATTiming()
    var observation: NATObservation?
    /// Why it was not measured.
    var failure: String?

    /// The effect on the connection; `nil` if it was not measured.
    var seen: HeartbeatRow.Verdict? {
        guard failure == nil, let observation else { return nil }
        if observation.lost != nil { return .dies }
        return observation.forgotten > 0 ? .gaps : .survives
    }

    /// The calculated effect for the same ratio of interval and memory.
    var calculated: HeartbeatRow.Verdict? {
        var row = HeartbeatRow(transport: transport, interval: pings.client, serverInterval: pings.server)
        row.survivesRebinding = survivesRebinding
        return row.verdict(timing.memory)
    }

    /// Whether the calculation is wrong for this row.
    var differs: Bool { seen != nil && seen != calculated }

    /// From the last packet until the supervisor ended the dead connection; `nil` if it was kept.
    var detected: Duration? { observation?.lost }

    /// From the last packet until the server could reach the client again; `nil` if it always could.
    var recovered: Duration? {
        switch seen {
        case .dies: observation?.reopened
        case .gaps: observation?.answered
        default: nil
        }
    }

    /// The fate of the server's message; `nil` if it was not measured.
    var fate: Fate? {
        guard let seen, let observation else { return nil }
        guard let arrival = observation.message else { return .lost }
        if let lost = observation.lost { return arrival < lost ? .atOnce : .reconnect }
        guard seen == .gaps else { return .atOnce }
        // The new mapping can let the message pass before the answer to the ping is counted.
        return arrival < min(observation.answered ?? timing.long, timing.long) ? .atOnce : .late
    }

    /// Records what one client saw, and whether that is a result.
    mutating func record(_ seen: NATObservation) {
        observation = seen
        if let lost = seen.lost, seen.forgotten == 0 {
            failure = "the connection ended after \(lost.shortText), although the NAT kept its mapping"
        } else if seen.lost != nil, seen.reopened == nil {
            failure = "the supervisor did not connect again"
        } else if !seen.isReachable {
            failure = "the connection is open, but a message from the server does not arrive"
        }
    }
}

extension Duration {
    /// Seconds with two decimals.
    fileprivate var shortText: String { fixed(Double(wholeNanoseconds) / 1e9, 2) + " s" }
}
