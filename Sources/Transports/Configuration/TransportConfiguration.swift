import Codecs
import Protocols
import SocketIO
import TransportAPI

/// The settings of a supervised connection: its endpoints, the format of its messages, and its supervisor.
///
/// ```swift
/// let configuration = try TransportConfiguration(json: text.utf8, label: "chat.json")
/// let transports = try configuration.transports()
/// ```
public struct TransportConfiguration: Sendable, Hashable {
    /// The servers, the preferred one first. There must be at least one. They can use different transports.
    public var endpoints: [Endpoint]
    /// The format of messages. Default `.json`.
    public var codec: WireFormat
    /// The headers of each WebSocket handshake, such as Authorization. Default none.
    public var headers: [HTTPHeader]
    /// The token with which a client logs in to a session server; the hello of the session carries it. 1 to 8,192 bytes. In session
    /// mode only. `nil` by default. It is never printed. A token that changes is ``/TransportAPI/Supervisor/Setup/token``.
    @Secret public var token: String?
    /// The texts that a supervisor sends first on each connection, before all messages. At most 16, each of 1 to 65,536
    /// bytes. In plain mode only. Default none. They are never printed, because a greeting may be a login. A greeting that also
    /// receives is ``/TransportAPI/Supervisor/Setup/greeting``.
    @Secret public var greeting: [String]
    /// The settings of the supervisor.
    public var supervisor: SupervisorConfiguration

    /// Creates a configuration from its parts.
    public init(
        endpoints: [Endpoint],
        codec: WireFormat = .json,
        headers: [HTTPHeader] = [],
        token: String? = nil,
        greeting: [String] = [],
        supervisor: SupervisorConfiguration = SupervisorConfiguration()
    ) {
        self.endpoints = endpoints
        self.codec = codec
        self.headers = headers
        self.token = token
        self.greeting = greeting
        self.supervisor = supervisor
    }

    /// Reads a JSON file (RFC 8259, strictly) of at most 1 MiB. ``keyReference`` lists its keys.
    ///
    /// - Parameters:
    ///   - json: The text of the file, in UTF-8.
    ///   - label: The file's name in errors.
    ///   - registry: The transports that its endpoints may name.
    /// - Throws: `.invalidConfiguration` with the file, the line, the key, the value found and what is allowed.
    public init(
        json: some Sequence<UInt8>,
        label: String = "configuration",
        registry: TransportRegistry = .standard
    ) throws(TransportError) {
        self.init(endpoints: [])
        let root = try ConfigurationValue(
            json,
            label: label,
            maximumLength: JSONDocument.maximumLength,
            registry: registry
        )
        try Self.object.read(root, into: &self)
    }

    /// Returns the transports to the endpoints, in the same order. WebSocket transports get the headers.
    ///
    /// - Parameters:
    ///   - registry: The known transports.
    ///   - loop: The event loop of the connections. Default: the shared loop.
    /// - Throws: `.invalidConfiguration` if there is no endpoint, if one is invalid, if the endpoints of a session are
    ///   servers and brokers, or if one of them is a broker at QoS 0.
    public func transports(
        from registry: TransportRegistry = .standard,
        on loop: EventLoop = .shared
    ) throws(TransportError) -> [any Transport] {
        guard !endpoints.isEmpty else { throw .configuration("endpoints", "are empty; at least one is needed") }
        let context = ConnectionContext(on: loop, headers: headers)
        var transports: [any Transport] = []
        for endpoint in endpoints {
            transports.append(try registry.transport(for: endpoint, in: context))
        }
        if let wrong = wrongEndpoint(transports) { throw .configuration("endpoints[\(wrong.index)]", wrong.problem) }
        return transports
    }

    /// Finds the first endpoint that a session cannot have: one that is a broker while the first one is a server, or the
    /// reverse, or a broker that acknowledges nothing. A session cannot move from a server to a broker, because its state is
    /// either in the server or in the clients behind the broker.
    private func wrongEndpoint(_ transports: [any Transport]) -> (index: Int, problem: String)? {
        let styles = transports.map { Delivery.style(supervisor.delivery, $0.capabilities) }
        guard let first = styles.first, let index = styles.firstIndex(where: { $0 != first }) else {
            let silent = transports.firstIndex { !$0.capabilities.acknowledgesMessages }
            guard styles.first == .origin, let silent else { return nil }
            return (silent, TransportError.sessionWithoutAcknowledgements)
        }
        let (here, there) = first == .origin ? ("a server", "a broker") : ("a broker", "a server")
        return (
            index,
            #"leads to \#(here), and "endpoints[0]" to \#(there); allowed beside "delivery.mode": "session" "#
                + "are servers only, or brokers only"
        )
    }

    /// Returns the endpoint without the options that its transport lacks and another one has, and these options. A header
    /// of the configuration counts as such an option. Anything else that is wrong stays, and is reported as a mistake.
    func fitting(_ endpoint: Endpoint, _ registry: TransportRegistry) -> (Endpoint, skipped: [SkippedOption]) {
        guard let transport = registry.transports.first(where: { $0.name == endpoint.scheme }) else {
            return (endpoint, [])
        }
        var (fitting, skipped) = (endpoint, [SkippedOption]())
        func isForeign(_ option: Endpoint.Option) -> Bool {
            guard !transport.hasSetting(option.name) else { return false }
            let owners = registry.transports.filter { $0.hasSetting(option.name) }
            guard !owners.isEmpty else { return false }
            // The description of a header shows its name and hides its value.
            let detail = option.description.drop { $0 != "=" }.dropFirst()
            let name = option.name == "header" && !detail.isEmpty ? "header \(detail)" : option.name
            let schemes = owners.map { "\($0.name)://" }.joined(separator: ", ")
            let reason = "\(endpoint.scheme):// does not have this option, which is one of \(schemes)"
            skipped.append(SkippedOption(name: name, reason: reason))
            return true
        }
        fitting.options.removeAll(where: isForeign)
        if !transport.hasSetting("header") {
            // The option has only the name, because the value may be a secret.
            for header in headers { _ = isForeign(Endpoint.Option(name: "header", value: "\(header.name):")) }
        }
        return (fitting, skipped)
    }

    /// The table of all keys of the file: allowed values, default and meaning.
    public static var keyReference: String {
        SettingRow.table(object.rows, name: "key")
    }
}

extension TransportRegistry {
    /// Returns whether the transport of this name has the option `header`.
    func takesHeaders(_ name: String) -> Bool {
        transports.contains { $0.name == name && $0.hasSetting("header") }
    }
}

// MARK: Keys

extension TransportConfiguration {
    static let object = SettingList(
        TransportConfiguration(endpoints: []),
        [
            .init(
                "endpoints",
                .list(1...64, "URLs", of: .url()),
                \.endpoints,
                "the URLs of the servers, the preferred one first"
            ),
            .init("codec", .word, \.codec, "the format of messages"),
            .init("headers", .headers, \.headers, "the HTTP headers that are sent with each WebSocket handshake"),
            .init(
                "token",
                SettingFormat.loginToken.orAbsent,
                \.token,
                "the token with which the client logs in to a session server"
            ),
            .init(
                "greeting",
                .greeting,
                \.greeting,
                "the texts that are sent first on each connection, before all messages"
            ),
            .init(
                "connect-timeout",
                .duration(.milliseconds(10) ... .seconds(3600)),
                \.supervisor.connectTimeout,
                "the time limit of one attempt to connect"
            ),
            .init(
                "stable-after",
                .duration(.zero ... .seconds(86_400)),
                \.supervisor.stableAfter,
                "a connection that was open for this long is stable; after it, the backoff starts with its first delay"
            ),
            .init(
                "maximum-attempts",
                SettingFormat.integer(1...1_000_000).orNull,
                \.supervisor.maximumAttempts,
                "the supervisor gives up after so many failed attempts in a row; null: never"
            ),
            .init(
                "maximum-elapsed",
                SettingFormat.duration(.milliseconds(10) ... .seconds(3_600_000)).orNull,
                \.supervisor.maximumElapsed,
                "the supervisor gives up this long after the last stable connection, or the first attempt; null: never"
            ),
            .init(
                "backoff",
                .object(BackoffKeys.object) { $0.backoff },
                \.supervisor.backoff,
                "the delays between attempts to connect"
            ),
            .init(
                "keepalive",
                .object(KeepaliveKeys.object) { $0.keepalive },
                \.supervisor.keepalive,
                "how a dead connection is detected"
            ),
            .init(
                "outbox",
                .object(outbox) { $0 },
                \.supervisor.outbox,
                "messages that wait to be sent or acknowledged"
            ),
            .init(
                "delivery",
                .object(delivery) { $0 },
                \.supervisor.delivery,
                "how sent messages are confirmed and repeated"
            ),
            .init(
                "requests",
                .object(requests) { $0 },
                \.supervisor.requests,
                "the limits of requests in both directions"
            ),
            .init(
                "message-buffer",
                .integer(1...65_536),
                \.supervisor.messageBuffer,
                "the maximum number of received messages in the buffer of each listener"
            ),
            .init(
                "message-buffer-bytes",
                .bytes(1...1 << 30),
                \.supervisor.messageBufferBytes,
                "the maximum number of bytes in this buffer; "
                    + "also the limit for messages that arrive before an earlier one"
            ),
        ],
        check: { (configuration, value) throws(TransportError) in
            guard !configuration.endpoints.isEmpty else { throw value.missing("endpoints", "a list of 1 to 64 URLs") }
            try configuration.checkHeaders(value)
            try configuration.checkGreeting(value)
            try configuration.checkToken(value)
            try configuration.checkProbe(value)
            try configuration.checkSession(value)
        }
    )

    private static let outbox = SettingList(
        OutboxConfiguration(),
        [
            .init("count", .integer(1...1 << 20), \.maximumCount, "the maximum number of messages"),
            .init("bytes", .bytes(1...1 << 30), \.maximumBytes, "the maximum number of bytes"),
            .init(
                "age",
                SettingFormat.duration(.seconds(1) ... .seconds(3_600_000)).or("off"),
                \.maximumAge,
                "the maximum age of a message"
            ),
            .init("when-full", .word, \.whenFull, "the rule for a new message when the outbox is full"),
            .init(
                "store",
                SettingFormat.store.orAbsent("the memory"),
                \.store,
                "where messages survive the app; \"?sync=always\", \"?sync=none\" or \"?sync=1s\" at the end: when the disk has them"
            ),
        ]
    )

    private static let delivery = SettingList(
        DeliveryConfiguration(),
        [
            .init(
                "mode",
                .word,
                \.mode,
                "plain: for any server; session: for a session server or an MQTT broker, "
                    + "sends unacknowledged messages again after a reconnect"
            ),
            .init("window", .integer(1...1024), \.window, "how many sent messages may wait for their acknowledgement"),
            .init(
                "acknowledgement-reminder",
                .duration(.seconds(1) ... .seconds(86_400)),
                \.acknowledgementReminder,
                "the observer receives an event if the app has not acknowledged a delivery after this time"
            ),
        ]
    )

    private static let requests = SettingList(
        RequestConfiguration(),
        [
            .init("open", .integer(1...1 << 20), \.maximumOpen, "how many requests may wait for their answers"),
            .init(
                "handlers",
                .integer(1...65_536),
                \.maximumHandlers,
                "how many requests of the peer are handled at the same time"
            ),
            .init(
                "acknowledgement-delay",
                .duration(.zero ... .seconds(3600)),
                \.acknowledgementDelay,
                "how long a request may stay unacknowledged while its handler runs"
            ),
        ]
    )

    private func checkProbe(_ value: ConfigurationValue) throws(TransportError) {
        guard case .payload = supervisor.keepalive.probe, supervisor.delivery.mode == .session,
            let payload = value.member("keepalive")?.member("payload")
        else { return }
        throw payload.failure("is not allowed with \"delivery.mode\": \"session\"; a session has its own probe")
    }

    private func checkGreeting(_ value: ConfigurationValue) throws(TransportError) {
        guard supervisor.delivery.mode == .session, let greeting = value.member("greeting") else { return }
        throw greeting.failure(TransportError.greetingInSession)
    }

    private func checkToken(_ value: ConfigurationValue) throws(TransportError) {
        guard let token = value.member("token") else { return }
        guard supervisor.delivery.mode == .session else { throw token.failure(TransportError.tokenWithoutSession) }
        let context = ConnectionContext(sendsCredentials: true)
        for endpoint in endpoints {
            do throws(TransportError) {
                _ = try value.registry.transport(for: fitting(endpoint, value.registry).0, in: context)
            } catch {
                throw token.failure(error)
            }
        }
    }

    private func checkSession(_ value: ConfigurationValue) throws(TransportError) {
        guard supervisor.delivery.mode == .session, let list = value.member("endpoints")?.elements else { return }
        var transports: [any Transport] = []
        for endpoint in endpoints { transports.append(try value.registry.transport(for: endpoint)) }
        guard let wrong = wrongEndpoint(transports) else { return }
        throw list[wrong.index].failure(wrong.problem)
    }

    /// Checks each header separately, so that an error names its line.
    private func checkHeaders(_ value: ConfigurationValue) throws(TransportError) {
        guard let headers = value.member("headers"), !self.headers.isEmpty else { return }
        let registry = value.registry
        let takers = endpoints.filter { registry.takesHeaders($0.scheme) }
        guard let first = takers.first else {
            throw headers.failure("are for WebSocket, but no endpoint uses WebSocket")
        }
        for (member, header) in zip(headers.members ?? [], self.headers) {
            let place = headers.value(of: member)
            if HTTPSyntax.equalIgnoringCase(header.name, "authorization"), takers.contains(where: { $0.user != nil }) {
                throw place.failure(
                    "is not allowed with an endpoint that has a user, because the user is sent in the same header"
                )
            }
            do throws(TransportError) {
                _ = try registry.transport(for: first, in: ConnectionContext(headers: [header]))
            } catch {
                throw place.failure(error)
            }
        }
        do throws(TransportError) {
            let context = ConnectionContext(headers: self.headers)
            for endpoint in takers { _ = try registry.transport(for: endpoint, in: context) }
        } catch {
            throw headers.failure(error)
        }
    }
}
