import Protocols
import Reporting
import TransportAPI
import Transports
import Workloads

/// One row of `imbench heartbeat`: a transport and a keepalive interval.
struct HeartbeatRow: Sendable {
    /// The effect of a NAT that forgets idle mappings.
    enum Verdict: String, Sendable, Hashable, CaseIterable {
        /// Each ping arrives while the mapping exists.
        case survives
        /// The mapping is gone before the next ping. The ping fails, and the connection ends.
        case dies = "dies between pings"
        /// The mapping is gone before the next ping, which makes a new one. The session continues from the new address.
        /// Messages to the client are lost in between.
        case gaps = "gaps between pings"
    }

    var transport: String
    /// The silence before a ping.
    var interval: Duration
    /// The silence before a ping of the server; `nil` if it sends none. Its ping is answered through the same mapping.
    var serverInterval: Duration?
    /// Whether the interval is the transport's own.
    var isOwn = false
    /// Whether the connection outlives a change of the client's address.
    var survivesRebinding = false
    /// What it sends and receives beside pings.
    var idle: IdleTraffic?
    /// Bytes of one ping and its answer on all layers, measured; `nil` if there is none.
    var pingBytes: Double?
    /// How the measurement of the ping ended. A protocol without pings is skipped.
    var outcome = ResultRow.Outcome.measured

    var pingsPerDay: Double { interval.perDay }

    /// Bytes of an idle day: pings, and what comes beside them.
    var bytesPerDay: Double? {
        guard let pingBytes else { return nil }
        guard let idle else { return pingBytes * pingsPerDay }
        return idle.bytesPerDay.map { $0 + pingBytes * pingsPerDay }
    }

    /// The longest silence on the path, after which a ping or something beside pings follows.
    var silence: Duration { min(interval, serverInterval ?? interval, idle?.interval ?? interval) }

    /// The longest time from the last byte of a dead connection until the supervisor ends it.
    func detection(timeout: Duration) -> Duration { interval + timeout }

    /// The effect of a NAT that forgets a mapping after `expiry` of silence; `nil` for a row without numbers.
    ///
    /// An expiry that equals the interval is too short, because the ping leaves only after the interval.
    func verdict(_ expiry: Duration) -> Verdict? {
        guard outcome == .measured else { return nil }
        if silence < expiry { return .survives }
        return survivesRebinding ? .gaps : .dies
    }
}

/// The settings of `imbench heartbeat`.
struct HeartbeatOptions: Sendable, Equatable {
    /// Intervals in addition to each transport's own.
    var intervals: [Duration] = [.seconds(30), .seconds(120), .seconds(300), .seconds(900)]
    /// The time limit of the answer.
    var timeout = SupervisorConfiguration().keepalive.timeout
    /// How long a NAT remembers an idle mapping.
    var expiries: [Duration] = [.seconds(30), .seconds(120), .seconds(300)]
    var radio = RadioModel.lte
    /// The times of the measured NAT.
    var trial = NATTiming()
    /// The missing requirement of a measured NAT; `nil` if there is none.
    var refusal: String?

    /// The rows of a transport: its own interval, and the given ones, from the shortest to the longest. One without pings has a
    /// single row, which says so.
    func rows(
        of descriptor: TransportDescriptor,
        pingBytes: Double?,
        idle: IdleTraffic? = nil,
        _ outcome: ResultRow.Outcome
    ) -> [HeartbeatRow] {
        let own = descriptor.keepaliveInterval
        let isSkipped = if case .skipped = outcome { true } else { false }
        return Set((isSkipped ? [] : intervals) + [own]).sorted().map { interval in
            HeartbeatRow(
                transport: descriptor.name,
                interval: interval,
                isOwn: interval == own,
                survivesRebinding: Self.survivesRebinding(descriptor),
                idle: idle,
                pingBytes: pingBytes,
                outcome: outcome
            )
        }
    }

    /// Whether a connection outlives a change of the client's address.
    static func survivesRebinding(_ descriptor: TransportDescriptor) -> Bool {
        OutageFault.rebind.isMeaningless(for: descriptor) == nil
    }
}
