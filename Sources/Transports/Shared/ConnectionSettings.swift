import Protocols
import TransportAPI

extension Setting {
    /// The setting `max-message`: the largest message that is sent or accepted, in bytes.
    ///
    /// - Parameters:
    ///   - property: The property that it sets. Its value in the target is the default.
    ///   - limit: The largest allowed value.
    public static func maximumMessageSize(
        _ property: WritableKeyPath<Target, Int> & Sendable,
        atMost limit: Int
    ) -> Setting {
        Setting("max-message", .bytes(1...limit), property, maximumMessageSizeMeaning)
    }

    static var maximumMessageSizeMeaning: String { "the largest message that is sent or accepted" }
}

extension SettingFormat where Value == Int {
    /// A number of connections, messages or frames.
    static var count: Self { .integer(1...1 << 20) }
}

extension ConnectionLimits {
    /// The settings of every connection.
    ///
    /// - Parameter keepalive: The interval of the transport.
    package static func settings(keepalive: Duration) -> SettingList<ConnectionLimits> {
        var limits = ConnectionLimits()
        limits.keepaliveInterval = keepalive
        return SettingList(
            limits,
            [
                .init("inbox", .count, \.inboxMessages, "received messages that the app has not taken yet"),
                .init("write-buffer", .bytes(1...1 << 30), \.writeBuffer, "buffered output beyond which senders wait"),
                .init(
                    "close-timeout",
                    .duration(),
                    \.closeTimeout,
                    "how long a close waits for a peer that reads nothing"
                ),
                .init("close-total", .duration(), \.closeTotal, "how long a close may take in all"),
                .init(
                    "control-rate",
                    .count,
                    \.controlRate,
                    "pings and other control frames that the peer may send in a second"
                ),
                .init(
                    "keepalive-interval",
                    SettingFormat.duration().orAbsent,
                    \.keepaliveInterval,
                    "the silence after which a supervisor sends a keepalive, unless its own settings say so"
                ),
                .init(
                    "insecure-credentials",
                    .flag,
                    \.allowsInsecureCredentials,
                    "whether a supervisor may send its token over a connection to another machine that is not encrypted"
                ),
            ]
        )
    }
}
