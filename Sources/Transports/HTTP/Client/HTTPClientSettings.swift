import Protocols
import SocketIO
import TransportAPI

/// The settings that only clients over HTTP have.
struct HTTPClientSettings: Sendable {
    /// How the client gets the messages of the server.
    enum Mode: String, Sendable, CaseIterable {
        case sse
        case longPoll = "long-poll"
        case poll
    }

    var handshake = HandshakeSettings()
    var mode = Mode.sse
    var interval = Duration.seconds(5)
    var patience = Duration.seconds(15)
    var redirects = 0
    var maximumMessageSize = TCPConfiguration().maximumMessageSize

    static let list = {
        var list = SettingList(
            HTTPClientSettings(),
            [
                .init(
                    "mode",
                    .word,
                    \.mode,
                    "how messages of the server arrive: as a stream of events, by requests that wait, or at an interval"
                ),
                .init(
                    "interval",
                    .duration(.milliseconds(10) ... .seconds(60)),
                    \.interval,
                    "the interval of mode=poll"
                ),
                .init(
                    "resume-timeout",
                    .duration(),
                    \.patience,
                    "how long requests may fail before the connection ends"
                ),
            ]
        )
        list.append(HandshakeSettings.list, at: \.handshake)
        return list.adding([
            .init("redirects", .integer(0...20), \.redirects, "the most redirects in a row that are followed"),
            .maximumMessageSize(\.maximumMessageSize, atMost: 0x7fff_ffff),
        ])
    }()

    /// Returns how a session gets the bytes of the server.
    var sessionMode: HTTPClientSession.Mode {
        switch mode {
        case .sse: .eventStream
        case .longPoll: .longPoll
        case .poll: .poll(interval.wholeNanoseconds)
        }
    }
}
