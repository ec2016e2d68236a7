import Protocols
import TransportAPI

/// An option in the query of a transport's URL.
public struct TransportOption: Sendable, Hashable {
    /// The sides that use an option. The other side ignores it, so that one URL can serve both.
    public enum Side: Sendable, Hashable {
        /// Clients and servers.
        case both
        /// Clients only.
        case client
        /// Servers only.
        case server
    }

    /// Its name in the query.
    public var name: String
    /// The allowed values, for help: "a number from 1 to 65535", "on or off".
    public var values: String
    /// Its effect in one line, with its default.
    public var summary: String
    /// The sides that use it. Errors of one side do not offer the options of the other one.
    public var side: Side

    /// Creates an option from its parts. By default both sides use it.
    public init(_ name: String, _ values: String, _ summary: String, side: Side = .both) {
        self.name = name
        self.values = values
        self.summary = summary
        self.side = side
    }

    /// Returns whether `side` uses the option.
    fileprivate func isUsed(by side: Side) -> Bool { self.side == .both || side == .both || self.side == side }
}

extension TransportOption {
    /// The options of every transport.
    public static let common = [
        TransportOption("max-message", "bytes, as in 64KiB", "the largest message sent or accepted"),
        TransportOption(
            "inbox",
            "a number from 1 to 1048576",
            "received messages that the app has not taken yet (1024)"
        ),
        TransportOption("write-buffer", "bytes, as in 64KiB", "buffered output beyond which senders wait (1MiB)"),
        TransportOption(
            "close-timeout",
            "a time such as 5s",
            "how long a close waits for a peer that reads nothing (5s)"
        ),
        TransportOption("close-total", "a time such as 1m", "how long a close may take in all (60s)"),
        TransportOption(
            "control-rate",
            "a number from 1 to 1048576",
            "pings and other control frames that the peer may send in a second (1000)"
        ),
        TransportOption(
            "keepalive-interval",
            "a time such as 30s",
            "the silence after which a supervisor sends a keepalive, unless its own settings say so (the transport's)"
        ),
    ]

    /// A header of a client's handshake.
    static let header = TransportOption(
        "header",
        "Name:value",
        "sent with the handshake; may be repeated (none)",
        side: .client
    )
    /// Whether a client returns the cookies of handshakes.
    static let cookies = TransportOption(
        "cookies",
        "on or off",
        "whether cookies that the handshake sets are sent in the next one (on)",
        side: .client
    )
    /// The query of a client's handshake.
    static let query = TransportOption(
        "query",
        "a=b&c=d, percent-encoded",
        "the query in the request of the handshake (none)",
        side: .client
    )

    /// The options of every server over a byte stream. Clients ignore them.
    static let streamServer = [
        TransportOption("max-connections", "a number from 1 to 1048576", "clients at a time (65536)", side: .server),
        TransportOption(
            "max-per-address",
            "a number from 1 to 1048576",
            "clients of one address at a time (no limit)",
            side: .server
        ),
        TransportOption(
            "max-handshakes",
            "a number from 1 to 1048576",
            "clients in their handshake, or reading its refusal (1024)",
            side: .server
        ),
        TransportOption(
            "max-buffered",
            "bytes, as in 64KiB",
            "unfinished messages, unread output and compression of all clients (512MiB)",
            side: .server
        ),
        TransportOption(
            "idle-timeout",
            "a time such as 5m",
            "how long a server keeps a silent client (1h)",
            side: .server
        ),
        TransportOption(
            "stall-timeout",
            "a time such as 30s",
            "how long a client may read nothing while output waits (30s)",
            side: .server
        ),
    ]
}

/// Reads the options in the query of an endpoint's URL, and rejects unknown ones. Each method throws
/// `.invalidConfiguration` with the name of the option and the allowed values, and returns `nil` for a missing option.
public struct OptionReader: Sendable {
    private let endpoint: Endpoint

    /// Checks that every option of `endpoint` is in `allowed` or common to all transports.
    ///
    /// - Parameters:
    ///   - endpoint: The endpoint.
    ///   - allowed: The options of its transport, besides the common ones.
    ///   - side: The side that reads them. Its errors offer only options that this side uses. By default, they offer all.
    public init(
        _ endpoint: Endpoint,
        allowed: [TransportOption],
        for side: TransportOption.Side = .both
    ) throws(TransportError) {
        self.endpoint = endpoint
        let options = allowed + TransportOption.common
        let names = options.map(\.name)
        let unknown = endpoint.options.filter { !names.contains($0.name) }
        guard let first = unknown.first else { return }
        let offered = options.filter { $0.isUsed(by: side) }.map(\.name).sorted().joined(separator: ", ")
        let isForServer = side != .server && allowed.contains(.query)
        let advice = isForServer ? " to send it to the server, write \(Self.query(of: unknown));" : ""
        let known = TransportRegistry.standard.transports
        let others = known.filter { $0.options.contains { $0.name == first.name } }
        guard others.isEmpty else {
            let encrypted = known.first { $0.name == endpoint.scheme }?.encryptedName
            if let encrypted, others.contains(where: { $0.name == encrypted }) {
                throw .configuration(
                    first.name,
                    "needs an encrypted connection: write \(encrypted):// for \(endpoint.scheme)://"
                )
            }
            let owners = others.map { "\($0.name)://" }.joined(separator: ", ")
            let problem = "is an option of \(owners);\(advice) allowed for \(endpoint.scheme):// are \(offered)"
            throw .configuration(first.name, problem)
        }
        let suggestion = ConfigurationValue.suggestion(first.name, names)
        throw .configuration(first.name, "is not known;\(suggestion)\(advice) allowed are \(offered)")
    }

    /// The longest value that an error repeats, in bytes.
    private static let longestValue = 64

    /// Returns the option `query` with which the server gets these options. A value that is long, or that can be the rest of
    /// a password, is left out.
    private static func query(of options: [Endpoint.Option]) -> String {
        let pairs = options.map { option in
            let isShown = option.value.utf8.count <= longestValue && !option.value.utf8.contains(UInt8(ascii: "@"))
            // The query has its own escapes, and is itself the value of an option.
            let value = isShown ? PercentEncoding.encode(PercentEncoding.encode(option.value)) : "…"
            return PercentEncoding.encode("\(PercentEncoding.encode(option.name))=") + value
        }
        return "query=" + pairs.joined(separator: "%26")
    }

    /// Returns the values of an option that may be repeated.
    public func strings(_ name: String) -> [String] {
        endpoint.options.filter { $0.name == name }.map(\.value)
    }

    /// Returns the text of an option that may occur once.
    public func string(_ name: String) throws(TransportError) -> String? {
        let found = strings(name)
        guard found.count <= 1 else { throw .configuration(name, "occurs \(found.count) times; once is allowed") }
        return found.first
    }

    /// Returns the value of an option that may occur once.
    package func value<Value>(_ name: String, _ format: SettingFormat<Value>) throws(TransportError) -> Value? {
        guard let text = try string(name) else { return nil }
        return try format.read(text, key: name)
    }

    /// Returns the whole number of an option.
    public func integer(_ name: String, in range: ClosedRange<Int>) throws(TransportError) -> Int? {
        try value(name, .integer(range))
    }

    /// Returns the number of bytes of an option, with or without a unit.
    public func bytes(_ name: String, in range: ClosedRange<Int>) throws(TransportError) -> Int? {
        try value(name, .bytes(range))
    }

    /// Returns whether an option is `on` or `off`. An option without a value is on.
    public func flag(_ name: String) throws(TransportError) -> Bool? {
        try string(name) == "" ? true : value(name, .flag)
    }

    /// Returns the value of an option, which must be one of `words`.
    public func choice(_ name: String, _ words: [String]) throws(TransportError) -> String? {
        try value(name, .word(of: words))
    }

    /// Returns the duration of an option, from 1 ms to 1000 h.
    public func duration(_ name: String) throws(TransportError) -> Duration? {
        try value(name, .duration(.milliseconds(1) ... .seconds(3_600_000)))
    }

    /// Returns the largest size of a message in bytes, from the common option `max-message`.
    ///
    /// - Parameters:
    ///   - size: The result without the option.
    ///   - limit: The largest value of the option that is allowed.
    public func maximumMessageSize(default size: Int, atMost limit: Int) throws(TransportError) -> Int {
        try bytes("max-message", in: 1...limit) ?? size
    }

    /// Returns the limits of a connection, from the common options.
    ///
    /// - Parameter keepaliveInterval: The transport's default.
    package func limits(keepaliveInterval: Duration = .seconds(60)) throws(TransportError) -> ConnectionLimits {
        var limits = ConnectionLimits()
        limits.inboxMessages = try integer("inbox", in: 1...1 << 20) ?? limits.inboxMessages
        limits.writeBuffer = try bytes("write-buffer", in: 1...1 << 30) ?? limits.writeBuffer
        limits.controlRate = try integer("control-rate", in: 1...1 << 20) ?? limits.controlRate
        limits.closeTimeout = try duration("close-timeout") ?? limits.closeTimeout
        limits.closeTotal = try duration("close-total") ?? limits.closeTotal
        limits.secureTimeout = try duration("tls-timeout") ?? limits.secureTimeout
        limits.keepaliveInterval = try duration("keepalive-interval") ?? keepaliveInterval
        return limits
    }
}
