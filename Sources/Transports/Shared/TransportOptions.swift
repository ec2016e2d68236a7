import TransportAPI

/// One option that a transport's URL may carry.
public struct TransportOption: Sendable, Hashable {
    /// Its name in the query.
    public var name: String
    /// What it takes, for help and errors: "a number from 1 to 65535", "on or off".
    public var values: String
    /// One line about what it does, with its default.
    public var summary: String

    /// An option spelled out.
    public init(_ name: String, _ values: String, _ summary: String) {
        self.name = name
        self.values = values
        self.summary = summary
    }
}

extension TransportOption {
    /// The options that every transport takes.
    public static let common = [
        TransportOption("max-message", "bytes", "the largest message sent or taken"),
        TransportOption("inbox", "a number from 1 to 1048576", "messages that may wait for their consumer (1024)"),
        TransportOption("write-buffer", "bytes", "what may wait for the kernel before senders do (1048576)"),
        TransportOption(
            "close-timeout",
            "a time such as 5s",
            "how long a close waits for a peer that takes nothing (5s)"
        ),
        TransportOption("close-total", "a time such as 1m", "how long a close may take in all (60s)"),
        TransportOption(
            "control-rate",
            "a number from 1 to 1048576",
            "pings and other frames without a message that the far side may send in a second (1000)"
        ),
        TransportOption(
            "keepalive-interval",
            "a time such as 30s",
            "the silence after which a supervisor asks for a sign of life, unless its own settings say so (the transport's)"
        ),
    ]

    /// The options of every server over a byte stream; clients ignore them.
    static let streamServer = [
        TransportOption("max-connections", "a number from 1 to 1048576", "clients at a time (65536)"),
        TransportOption("max-per-address", "a number from 1 to 1048576", "clients of one address at a time (no limit)"),
        TransportOption("max-handshakes", "a number from 1 to 1048576", "clients within their handshake (1024)"),
        TransportOption(
            "max-buffered",
            "bytes",
            "unfinished messages, unread output and compression of all clients (536870912)"
        ),
        TransportOption("idle-timeout", "a time such as 5m", "how long a server keeps a silent client (1h)"),
        TransportOption(
            "stall-timeout",
            "a time such as 30s",
            "how long a client may read nothing of what waits (30s)"
        ),
    ]
}

/// Reads the options of an endpoint, and refuses what it does not know.
package struct OptionReader {
    private let endpoint: Endpoint

    /// Checks that every option of `endpoint` is among `allowed` or common to all.
    package init(_ endpoint: Endpoint, allowed: [TransportOption]) throws(TransportError) {
        self.endpoint = endpoint
        let names = (allowed + TransportOption.common).map(\.name)
        for option in endpoint.options where !names.contains(option.name) {
            let list = names.sorted().joined(separator: ", ")
            throw .configuration(option.name, "is not an option of \(endpoint.scheme)://; allowed are \(list)")
        }
    }

    /// The value of an option that occurs once at most.
    package func string(_ name: String) throws(TransportError) -> String? {
        let found = strings(name)
        guard found.count <= 1 else { throw .configuration(name, "occurs \(found.count) times; once is allowed") }
        return found.first
    }

    /// The values of an option that may be repeated.
    package func strings(_ name: String) -> [String] {
        endpoint.options.filter { $0.name == name }.map(\.value)
    }

    /// A whole number within `range`.
    package func integer(_ name: String, in range: ClosedRange<Int>) throws(TransportError) -> Int? {
        guard let text = try string(name) else { return nil }
        guard let number = Int(text), range.contains(number) else {
            throw .configuration(
                name,
                "is '\(text)'; allowed are numbers from \(range.lowerBound) to \(range.upperBound)"
            )
        }
        return number
    }

    /// `on` or `off`; an option without a value is on.
    package func flag(_ name: String) throws(TransportError) -> Bool? {
        switch try string(name) {
        case nil: nil
        case "", "on", "true", "1": true
        case "off", "false", "0": false
        case let text?: throw .configuration(name, "is '\(text)'; allowed are on and off")
        }
    }

    /// One of `choices`.
    package func choice(_ name: String, _ choices: [String]) throws(TransportError) -> String? {
        guard let text = try string(name) else { return nil }
        guard choices.contains(text) else {
            throw .configuration(name, "is '\(text)'; allowed are \(choices.joined(separator: ", "))")
        }
        return text
    }

    /// A length of time such as 250ms, 30s, 5m or 1h.
    package func duration(_ name: String) throws(TransportError) -> Duration? {
        guard let text = try string(name) else { return nil }
        guard let duration = Duration(configuration: text) else {
            throw .configuration(name, "is '\(text)'; write a number with its unit: 250ms, 30s, 5m or 1h")
        }
        return duration
    }

    /// The largest message, from `max-message`.
    package func maximumMessageSize(default size: Int, atMost limit: Int) throws(TransportError) -> Int {
        try integer("max-message", in: 1...limit) ?? size
    }

    /// The bounds of a link, from the common options.
    ///
    /// - Parameter keepaliveInterval: the transport's own.
    package func limits(keepaliveInterval: Duration = .seconds(60)) throws(TransportError) -> LinkLimits {
        var limits = LinkLimits()
        if let inbox = try integer("inbox", in: 1...1 << 20) { limits.inboxMessages = inbox }
        if let buffer = try integer("write-buffer", in: 1...1 << 30) { limits.writeBuffer = buffer }
        if let rate = try integer("control-rate", in: 1...1 << 20) { limits.controlRate = rate }
        limits.closeTimeout = try positive("close-timeout") ?? limits.closeTimeout
        limits.closeTotal = try positive("close-total") ?? limits.closeTotal
        limits.keepaliveInterval = try positive("keepalive-interval") ?? keepaliveInterval
        return limits
    }
}

extension Duration {
    /// Reads "250ms", "30s", "5m", "1h"; `nil` for anything else, for negative lengths, and for more than 1000 hours.
    package init?(configuration text: String) {
        let units: [(suffix: String, milliseconds: Int64)] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)]
        guard let unit = units.first(where: { text.hasSuffix($0.suffix) }),
            let number = Int64(text.dropLast(unit.suffix.count)), number >= 0,
            case let (product, overflow) = number.multipliedReportingOverflow(by: unit.milliseconds),
            !overflow, product <= 3_600_000_000
        else { return nil }
        self = .milliseconds(product)
    }
}
