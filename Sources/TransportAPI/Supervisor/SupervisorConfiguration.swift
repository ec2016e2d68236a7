/// The settings of a supervisor. The defaults suit a chat app on a phone.
public struct SupervisorConfiguration: Sendable, Hashable {
    /// The time limit of one whole attempt: the app's preparation of the endpoint, name resolution, all handshakes, and
    /// the app's greeting or the hello of a session. Default 10 s.
    public var connectTimeout: Duration = .seconds(10)
    /// The delay between attempts. Default: 0.5 s, doubling up to 20 s, with full jitter.
    public var backoff = BackoffPolicy.standard
    /// The time for which a connection must have been open so that the backoff starts again after it. Default 10 s.
    public var stableAfter: Duration = .seconds(10)
    /// The number of failed attempts in a row after which the supervisor gives up. A connection that was not stable
    /// counts too. `nil`, the default, means no limit.
    public var maximumAttempts: Int?
    /// The time since the last stable connection, or else since the first attempt, after which the supervisor gives up.
    /// ``Supervisor/resume()`` starts it again. `nil`, the default, means no limit.
    public var maximumElapsed: Duration?
    /// The settings of the keepalive.
    public var keepalive = KeepaliveConfiguration()
    /// The settings of the queue of messages that wait to be sent or acknowledged.
    public var outbox = OutboxConfiguration()
    /// The settings of delivery, which determine what an outcome of `send` means.
    public var delivery = DeliveryConfiguration()
    /// The limits of requests.
    public var requests = RequestConfiguration()
    /// The maximum number of received messages in the buffer of each listener, at least 1. Default 1024.
    public var messageBuffer = 1024
    /// The maximum number of bytes of received messages in the buffer of each listener, at least 1. Messages that
    /// arrive before their turn in a session have a second limit of the same size. Each message counts with its topic
    /// and 128 bytes more. A single message may exceed the limit. Default 4 MiB.
    public var messageBufferBytes = 4 << 20

    /// Creates the default settings.
    public init() {}
}

/// The settings that keep a connection from being forgotten on its path, and that detect a dead connection.
public struct KeepaliveConfiguration: Sendable, Hashable {
    /// The message that makes the peer answer.
    public enum Probe: Sendable, Hashable {
        /// The session's ping if there is a session, otherwise the protocol's own ping. Without both there is no probe.
        case automatic
        /// This payload, for servers with their own heartbeat. With an `answer`, payloads equal to it are not delivered
        /// as messages. Without one, the probe only keeps the path open.
        case payload(Payload, answer: Payload?)
    }

    /// The time for which a connection may be silent before a probe is sent.
    public enum Interval: Sendable, Hashable {
        /// The interval of the transport (``Capabilities/keepaliveInterval``).
        case automatic
        /// This interval over every transport.
        case fixed(Duration)
        /// No interval: silence never causes a probe.
        case off

        /// Creates an interval of this number of seconds, over every transport.
        public static func seconds(_ count: Int) -> Interval { .fixed(.seconds(count)) }
        /// Creates an interval of this number of milliseconds, over every transport.
        public static func milliseconds(_ count: Int) -> Interval { .fixed(.milliseconds(count)) }

        /// Returns the interval over a connection with these capabilities, or `nil` if there is none.
        package func duration(over capabilities: Capabilities) -> Duration? {
            switch self {
            case .automatic: capabilities.keepaliveInterval
            case .fixed(let duration): duration
            case .off: nil
            }
        }
    }

    /// The time for which the connection may be silent before a probe is sent. By default it depends on the transport:
    /// UDP 25 s, WebSocket 30 s, TCP and MQTT 60 s.
    public var interval = Interval.automatic
    /// Returns the silence after which a supervisor sends a probe over a connection with these capabilities. Returns
    /// `nil` if it never does, or if the connection probes its peer itself.
    package func interval(over capabilities: Capabilities) -> Duration? {
        guard let duration = interval.duration(over: capabilities) else { return nil }
        let isLeftToConnection =
            capabilities.keepsItselfAlive && capabilities.keepaliveInterval <= duration && isIdleOnly
            && probe == .automatic
        return isLeftToConnection ? nil : duration
    }

    /// The time in which the peer must answer. Any received byte counts. Default 10 s.
    public var timeout: Duration = .seconds(10)
    /// Whether a probe is sent only if nothing was received for the interval. Otherwise a probe is sent at every
    /// interval. Default `true`.
    public var isIdleOnly = true
    /// The probe that is sent. Default ``Probe/automatic``.
    public var probe = Probe.automatic
    /// The settings of the search for the longest interval that the network path allows. `nil`, the default, means that
    /// the interval is fixed.
    public var adaptive: AdaptiveKeepaliveConfiguration?

    /// Creates the default settings.
    public init() {}
}

/// The settings of the search for the longest keepalive interval that the NATs on the path allow.
///
/// The search uses the connection itself and leaves it idle for each interval that it tries. An interval that is too
/// long ends the connection, and the supervisor connects again.
public struct AdaptiveKeepaliveConfiguration: Sendable, Hashable {
    /// The shortest interval. It is taken to be safe. Default 30 s.
    public var minimum: Duration = .seconds(30)
    /// The longest interval that is tried. Default 15 minutes.
    public var maximum: Duration = .seconds(900)
    /// The difference between the longest good and the shortest bad interval at which the search ends. Default 15 s.
    public var resolution: Duration = .seconds(15)

    /// Creates the default settings.
    public init() {}
}

/// The limits of the messages that wait to be sent or acknowledged.
public struct OutboxConfiguration: Sendable, Hashable {
    /// The treatment of a message when the outbox is full.
    public enum Policy: String, Sendable, Hashable, CaseIterable {
        /// `send` waits for room. As many callers can wait as messages fit into the outbox. Further ones are refused.
        case wait
        /// The new message is refused with `.rejected(.bufferFull)`.
        case refuseNewest = "refuse-newest"
        /// The oldest message that was never sent is dropped and ends in `.rejected(.bufferFull)`. If all messages were
        /// sent already, or if the freed place is too small, the new one is refused.
        case dropOldest = "drop-oldest"
    }

    /// The maximum number of messages. Default 1000.
    public var maximumCount = 1000
    /// The maximum number of bytes of all messages together. Default 4 MiB.
    public var maximumBytes = 4 << 20
    /// The age at which a message ends in `.expired`, or in `.unknown` if it was sent. `nil` means no limit. Default 24
    /// hours.
    public var maximumAge: Duration? = .seconds(86_400)
    /// The treatment of a message when the outbox is full. By default `send` waits.
    public var whenFull = Policy.wait
    /// The store that keeps the outbox across processes. `nil`, the default, means the memory, or the store of the setup
    /// (``Supervisor/Setup/store``), which has priority.
    public var store: StoreLocation?

    /// Creates the default settings.
    public init() {}
}

/// The settings of delivery, which determine what an outcome of `send` means.
public struct DeliveryConfiguration: Sendable, Hashable {
    /// The protocol between the supervisors of both sides.
    public enum Mode: String, Sendable, Hashable, CaseIterable {
        /// No protocol, so any server can be the peer. A message ends as `.written`, or as `.acknowledged` if the
        /// transport itself has acknowledgements. Messages that were `.written` can be lost when the connection breaks.
        case plain
        /// The session envelope (Docs/reference/wire-formats.md), with a session server or through a broker. A message
        /// is sent until it is acknowledged, and delivered once.
        case session
    }

    /// The delivery mode. Default ``Mode/plain``.
    public var mode = Mode.plain
    /// The maximum number of messages in flight without an acknowledgement, 1...1024. Default 64.
    public var window = 64
    /// The time for which the app can leave the oldest of the ``Supervisor/deliveries`` unacknowledged before the
    /// observer receives ``SupervisorEvent/unacknowledged(_:)``. The event repeats after the same time. Default 30 s.
    public var acknowledgementReminder: Duration = .seconds(30)

    /// Creates the default settings.
    public init() {}
}

/// The limits of the requests of one supervisor or one session.
public struct RequestConfiguration: Sendable, Hashable {
    /// The maximum number of requests that wait for their answers, at least 1. A further one ends in
    /// ``RequestError/tooManyRequests``. Default 1024.
    public var maximumOpen = 1024
    /// The maximum number of requests of the peer that the handler handles at the same time, at least 1. Further ones wait
    /// in their order, unacknowledged. Default 64.
    public var maximumHandlers = 64
    /// How long a request stays unacknowledged while its handler runs, at most. If the process is killed within this time,
    /// the peer of a session sends the request again to the next process. Messages after the request are acknowledged after
    /// it, so a slow handler delays them by as much. With zero, a request is acknowledged when its handler begins, and none
    /// is handled twice. Default 5 s.
    public var acknowledgementDelay: Duration = .seconds(5)

    /// Creates the default settings.
    public init() {}
}
