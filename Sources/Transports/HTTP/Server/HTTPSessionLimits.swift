import Protocols
import TransportAPI

/// The limits and times of the sessions of a server over HTTP.
package struct HTTPSessionLimits: Sendable, Hashable {
    /// How many bytes of the server's stream a client may leave unacknowledged, and the largest body of its requests.
    /// Default 256 KiB.
    var window = 256 << 10
    /// How long a long poll waits for bytes. Default 25 s, because proxies give up after 30 s or 60 s.
    package var hold: Duration = .seconds(25)
    /// The time without a request after which a session ends. Default 60 s.
    var sessionTimeout: Duration = .seconds(60)
    /// The largest number of sessions. Default 65,536.
    var maximumSessions = 65_536
    /// How long an event stream may be silent before a comment is sent. 15 s, as the specification advises (WHATWG HTML,
    /// section 9.2.7, "Authoring notes").
    package var commentInterval: Duration = .seconds(15)

    /// Creates the limits with their defaults.
    package init() {}

    /// The longest ``sessionTimeout``.
    static let longestTimeout = SessionRequest.longestInterval

    /// The time without a request after which the session of a client ends that polls at an interval.
    func timeout(interval: Duration) -> Duration {
        let least: Duration = interval > .zero ? interval * 2 + .seconds(30) : .zero
        return min(max(sessionTimeout, least), Self.longestTimeout)
    }

    /// The settings of a server.
    static let settings = SettingList(
        HTTPSessionLimits(),
        [
            .init(
                "window",
                .bytes(1 << 10...64 << 20),
                \.window,
                "bytes of a session that wait for the client's acknowledgement, and the largest body of a request"
            ),
            .init("hold", .duration(.milliseconds(1) ... .seconds(300)), \.hold, "how long a long poll waits"),
            .init(
                "session-timeout",
                .duration(.milliseconds(1)...longestTimeout),
                \.sessionTimeout,
                "how long a session lives without a request"
            ),
            .init("sessions", .count, \.maximumSessions, "sessions at a time"),
        ]
    )
}
