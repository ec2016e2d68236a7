import Protocols
import SocketIO
import TransportAPI

/// The settings of UDP, for both sides.
struct UDPSettings: Sendable {
    var configuration = UDPConfiguration()
    /// `nil` if the URL does not set it.
    var reliability: UDPReliability?
    /// `nil` for the default of the mode.
    var maximumMessageSize: Int?
    var limits = ConnectionLimits()
    /// Those of an encrypted transport.
    var clientTLS = TLSClientSettings(tls: TLSSettings(.client))
    var serverTLS = TLSSettings(.server)
    var maximumHandshakes = ServerLimits().maximumHandshakes

    /// The settings of a client.
    static func clientList(_ security: StreamSecurity?, keepalive: Duration) -> SettingList<UDPSettings> {
        var list = list(security)
        list.append(ConnectionLimits.settings(keepalive: keepalive), at: \.limits)
        if let security { list.append(TLSClientSettings.settings(security, isDatagram: true), at: \.clientTLS) }
        return list
    }

    /// The settings of a server.
    static func serverList(_ security: StreamSecurity?, keepalive: Duration) -> SettingList<UDPSettings> {
        var list = list(security).adding([
            .init("idle-timeout", .duration(), \.configuration.idleTimeout, "how long a server keeps a silent client"),
            .init(
                "max-held",
                .bytes(1 << 20...1 << 40),
                \.configuration.maximumHeld,
                "messages of all sessions that are not taken or not acknowledged yet"
            ),
            .init("max-sessions", .count, \.configuration.maximumSessions, "clients at a time"),
            .init(
                "max-per-address",
                SettingFormat.count.orAbsent("no limit"),
                \.configuration.maximumPerAddress,
                "clients of one address at a time"
            ),
        ])
        list.append(ConnectionLimits.settings(keepalive: keepalive), at: \.limits)
        guard let security else { return list }
        list.append(TLSSettings.serverSettings(security, isDatagram: true), at: \.serverTLS)
        return list.adding([
            .init("max-handshakes", .count, \.maximumHandshakes, "clients that have no session yet"),
            .secureTimeout(\.limits.secureTimeout),
        ])
    }

    /// The settings that both sides have.
    private static func list(_ security: StreamSecurity?) -> SettingList<UDPSettings> {
        var initial = UDPSettings()
        if security != nil {
            // A datagram is as long as one without encryption, and its messages are shorter.
            initial.configuration.overhead = DTLS.overhead
            initial.configuration.largestPlaintext = DTLS.largestRecord
            initial.configuration.maximumPayloadSize -= DTLS.overhead
        }
        let (size, reliable) = (initial.configuration.maximumPayloadSize, initial.configuration.maximumReliableSize)
        return SettingList(
            initial,
            [
                .init(
                    "plain",
                    .flag,
                    \.configuration.isPlain,
                    "datagrams without sessions, for other implementations"
                ),
                .init(
                    "reliable",
                    SettingFormat<UDPReliability>.word.orAbsent(
                        initial.configuration.reliability.rawValue.debugDescription
                    ),
                    \.reliability,
                    "whether messages arrive exactly once, and in order; a server accepts what its clients request unless it is off"
                ),
                .init(
                    "max-message",
                    SettingFormat.bytes(1...ReliableTerms.largestLimit)
                        .orAbsent("\(size); reliable: \(SettingFormat.bytes(1...reliable).shown(reliable))"),
                    \.maximumMessageSize,
                    Setting<UDPSettings>.maximumMessageSizeMeaning
                        + "; at most \(largest(initial)) unless it is reliable"
                ),
            ],
            check: { (settings, options) throws(TransportError) in
                // A reliable message is split into datagrams, so it has another limit.
                guard settings.reliability ?? .off == .off, let size = settings.maximumMessageSize else { return }
                let allowed = SettingFormat.bytes(1...largest(settings))
                guard size > largest(settings), let value = options.member("max-message") else { return }
                throw value.wrong(allowed.allowed)
            }
        )
    }

    /// The largest message that is not reliable.
    private static func largest(_ settings: UDPSettings) -> Int {
        let isEncrypted = settings.configuration.overhead > 0
        return isEncrypted ? settings.configuration.largestPayload : UDPConfiguration.maximumDatagramSize
    }

    /// The configuration of a core.
    var coreConfiguration: UDPConfiguration {
        var configuration = configuration
        configuration.take(limits)
        configuration.reliability = reliability ?? configuration.reliability
        guard let maximumMessageSize else { return configuration }
        configuration.maximumReliableSize = maximumMessageSize
        if configuration.reliability == .off { configuration.maximumPayloadSize = maximumMessageSize }
        return configuration
    }
}
