/// How a supervisor keeps its connection alive. The defaults suit a chat app on a phone.
public struct SupervisorConfiguration: Sendable, Hashable {
    /// How long one attempt may take, from the name's resolution to the end of the handshakes. Default 10 s.
    public var connectTimeout: Duration = .seconds(10)
    /// How long to wait between attempts. Default: 0.5 s, doubling up to 20 s, full jitter.
    public var backoff = BackoffPolicy.standard
    /// How long a connection must have been open for the backoff to begin anew after it. Default 10 s.
    public var stableAfter: Duration = .seconds(10)
    /// After how many failed attempts in a row the supervisor gives up; `nil`, the default: never.
    public var maximumAttempts: Int?
    /// After how much time without a connection the supervisor gives up; `nil`, the default: never.
    public var maximumElapsed: Duration?
    /// Signs of life.
    public var keepalive = KeepaliveConfiguration()
    /// Messages that wait to be sent.
    public var outbox = OutboxConfiguration()
    /// What `send` promises.
    public var delivery = DeliveryConfiguration()
    /// How many received messages the buffer of each listener holds, 1 or more. Default 1024.
    public var messageBuffer = 1024
    /// How many bytes of received messages the buffer of each listener holds, and as many of messages that came before their
    /// turn in a session; each message counts with its topic and 128 bytes beside it, and a single one may pass the limit. 1 or
    /// more. Default 4 MiB.
    public var messageBufferBytes = 4 << 20

    /// The defaults.
    public init() {}
}

/// How a connection is kept from falling asleep, and how a dead one is found.
public struct KeepaliveConfiguration: Sendable, Hashable {
    /// What asks the peer for a sign of life.
    public enum Probe: Sendable, Hashable {
        /// The session's ping where there is a session, else the protocol's own, else none.
        case automatic
        /// This payload, for servers with a heartbeat of their own. If there is an answer to expect, payloads equal to it
        /// are not delivered as messages; if there is none, the probe only keeps the path open.
        case payload(Payload, answer: Payload?)
    }

    /// How long a connection may be silent before a probe is sent.
    public enum Interval: Sendable, Hashable {
        /// As long as fits the transport: ``Capabilities/keepaliveInterval``.
        case automatic
        /// So long, over every transport.
        case fixed(Duration)
        /// No probe is ever sent because of silence.
        case off

        /// So many seconds, over every transport.
        public static func seconds(_ count: Int) -> Interval { .fixed(.seconds(count)) }
        /// So many milliseconds, over every transport.
        public static func milliseconds(_ count: Int) -> Interval { .fixed(.milliseconds(count)) }

        /// The interval over a connection that can do this; `nil`: there is none.
        package func duration(over capabilities: Capabilities) -> Duration? {
            switch self {
            case .automatic: capabilities.keepaliveInterval
            case .fixed(let duration): duration
            case .off: nil
            }
        }
    }

    /// How long the connection may be silent before a probe is sent. Default: as long as fits the transport (UDP 25 s,
    /// WebSocket 30 s, TCP and MQTT 60 s).
    public var interval = Interval.automatic
    /// The silence after which a supervisor asks over a connection that can do this; `nil`: it never does, or leaves
    /// that to the connection.
    package func interval(over capabilities: Capabilities) -> Duration? {
        guard let duration = interval.duration(over: capabilities) else { return nil }
        let isLeftToConnection =
            capabilities.keepsItselfAlive && capabilities.keepaliveInterval <= duration && isIdleOnly
            && probe == .automatic
        return isLeftToConnection ? nil : duration
    }

    /// How long the peer may take to answer with anything at all. Default 10 s.
    public var timeout: Duration = .seconds(10)
    /// Whether a probe is sent only when nothing has been received for the interval; otherwise every interval. Default
    /// `true`.
    public var isIdleOnly = true
    /// What is sent.
    public var probe = Probe.automatic
    /// Looks for the longest interval that the path bears; `nil`, the default: the interval is fixed.
    public var adaptive: AdaptiveKeepaliveConfiguration?

    /// The defaults.
    public init() {}
}

/// The search for the longest keepalive interval that the NATs on the path bear.
///
/// The connection itself is left idle for each interval that is tried. An interval that is too long ends the
/// connection, and the supervisor connects again.
public struct AdaptiveKeepaliveConfiguration: Sendable, Hashable {
    /// The shortest interval, taken to be safe. Default 30 s.
    public var minimum: Duration = .seconds(30)
    /// The longest interval that is tried. Default 15 minutes.
    public var maximum: Duration = .seconds(900)
    /// The search ends when the longest known good and the shortest known bad interval are this close. Default 15 s.
    public var resolution: Duration = .seconds(15)

    /// The defaults.
    public init() {}
}

/// The bounds of the messages that wait to be sent or to be acknowledged.
public struct OutboxConfiguration: Sendable, Hashable {
    /// What happens to a message that finds the outbox full.
    public enum Policy: String, Sendable, Hashable, CaseIterable {
        /// `send` waits for room; as many callers may wait as messages fit into the outbox, further ones are refused.
        case wait
        /// It is refused: `.rejected(.bufferFull)`.
        case refuseNewest = "refuse-newest"
        /// The oldest message that was never sent makes room for it and ends in `.rejected(.bufferFull)`; where all have been
        /// sent already, the new one is refused.
        case dropOldest = "drop-oldest"
    }

    /// How many messages there may be. Default 1000.
    public var maximumCount = 1000
    /// How many bytes they may have together. Default 4 MiB.
    public var maximumBytes = 4 << 20
    /// How old a message may become before it ends in `.expired`, or in `.unknown` if it has been sent once; `nil`: as old
    /// as you like. Default 24 hours.
    public var maximumAge: Duration? = .seconds(86_400)
    /// What happens at the bound. Default: `send` waits.
    public var whenFull = Policy.wait

    /// The defaults.
    public init() {}
}

/// What `send` promises.
public struct DeliveryConfiguration: Sendable, Hashable {
    /// Who takes part.
    public enum Mode: String, Sendable, Hashable, CaseIterable {
        /// Any server: a message ends `.written`, or `.acknowledged` where the transport itself has acknowledgements. What was
        /// written when the connection broke may be lost.
        case plain
        /// A server that speaks the session envelope (Docs/reference/wire-formats.md), or a broker between two
        /// that do: a message is sent until it is acknowledged, and delivered once.
        case session
    }

    /// Default `.plain`.
    public var mode = Mode.plain
    /// How many messages may be under way without an acknowledgement, 1...1024. Default 64.
    public var window = 64
    /// How long the oldest of the ``Supervisor/deliveries`` may be unacknowledged by the app before an event says so
    /// (``SupervisorEvent/unacknowledged(_:)``), and how long after that the next event comes. Default 30 s.
    public var acknowledgementReminder: Duration = .seconds(30)

    /// The defaults.
    public init() {}
}
