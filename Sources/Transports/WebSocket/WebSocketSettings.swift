import Protocols
import TransportAPI

/// The settings that both sides of a WebSocket have.
struct WebSocketSettings: Sendable {
    var configuration = WebSocketConfiguration()
    var compression = CompressionSettings()

    static let list = {
        var list = SettingList(
            WebSocketSettings(),
            [
                .init(
                    "subprotocol",
                    each: .token,
                    \.configuration.subprotocols,
                    "a subprotocol, the preferred one first; may be repeated"
                ),
                .init(
                    "fragment",
                    SettingFormat.bytes(1...Int(Int32.max)).orAbsent("unlimited"),
                    \.configuration.fragmentSize,
                    "the largest payload of one frame that is sent"
                ),
                .init(
                    "max-head",
                    .bytes(256...1 << 20),
                    \.configuration.maximumHeaderBytes,
                    "the largest handshake that is accepted"
                ),
                .init(
                    "max-headers",
                    .integer(10...10_000),
                    \.configuration.maximumHeaderCount,
                    "the most headers that are accepted in the handshake"
                ),
                .init(
                    "max-fragments",
                    .integer(1...Int(Int32.max)),
                    \.configuration.maximumFragments,
                    "the most frames that are accepted in one message"
                ),
                .init(
                    "handshake-timeout",
                    .duration(),
                    \.configuration.handshakeTimeout,
                    "how long the handshake may take"
                ),
                .maximumMessageSize(\.configuration.maximumMessageSize, atMost: WebSocketConfiguration.largestMessage),
            ]
        )
        list.append(CompressionSettings.list, at: \.compression)
        return list
    }()

    /// Returns the configuration for a connection with these limits.
    func configuration(
        _ limits: ConnectionLimits,
        _ compressor: () -> (any MessageCompressor)?
    ) -> WebSocketConfiguration {
        var configuration = configuration
        configuration.closeTimeout = limits.closeTimeout
        configuration.compression = compression.compression(compressor)
        return configuration
    }
}

/// The settings of a WebSocket client.
struct WebSocketClientSettings: Sendable {
    var shared = WebSocketSettings()
    var handshake = HandshakeSettings()
    var fallback = FallbackSettings()

    static let list = {
        var list = SettingList(WebSocketClientSettings())
        list.append(HandshakeSettings.list, at: \.handshake)
        list = list.adding([
            .init(
                "redirects",
                .integer(0...20),
                \.shared.configuration.redirects,
                "the most redirects in a row that are followed"
            )
        ])
        list.append(WebSocketSettings.list, at: \.shared)
        list.append(FallbackSettings.list, at: \.fallback)
        return list
    }()
}

/// The settings of a WebSocket server.
struct WebSocketServerSettings: Sendable {
    var shared = WebSocketSettings()
    /// Whether the same port offers sessions over HTTP, for clients that can reach no WebSocket.
    var offersSessions = false
    var sessions = HTTPSessionLimits()

    static let list = {
        var list = SettingList(
            WebSocketServerSettings(),
            [
                .init(
                    "fallback",
                    .flag,
                    \.offersSessions,
                    "whether the same port and path serve http:// or https:// clients too"
                )
            ],
            check: { (settings, options) throws(TransportError) in
                guard !settings.offersSessions else { return }
                for setting in HTTPSessionLimits.settings.settings where options.member(setting.name) != nil {
                    throw .configuration(setting.name, "configures sessions over HTTP, which need fallback=on")
                }
            }
        )
        list.append(WebSocketConfiguration.admission, at: \.shared.configuration)
        list.append(WebSocketSettings.list, at: \.shared)
        list.append(HTTPSessionLimits.settings, at: \.sessions)
        return list
    }()

    /// Returns the configuration of the server at an endpoint.
    func configuration(
        _ endpoint: Endpoint,
        _ limits: ConnectionLimits,
        _ serving: Serving,
        _ compressor: () -> (any MessageCompressor)?
    ) throws(TransportError) -> WebSocketConfiguration {
        var configuration = shared.configuration(limits, compressor)
        configuration.decide = serving.decide
        configuration.pages = serving.pages
        try configuration.admit(endpoint)
        return configuration
    }
}

/// The settings of a WebSocket's compression (RFC 7692).
struct CompressionSettings: Sendable {
    enum Mode: String, Sendable, CaseIterable { case on, off, small }

    /// `nil` if the URL does not mention compression, which is then off.
    var mode: Mode?
    /// `nil` for the window of the mode, and likewise below.
    var windowBits: Int?
    var peerWindowBits: Int?
    /// The other settings, which are the same in both modes.
    var deflate = DeflateSettings()

    /// The parameters, which require a mode.
    private static let parameters: [Setting<CompressionSettings>] = [
        .init("deflate-window", window, \.windowBits, "the window of sent messages, 2^N bytes"),
        .init("deflate-peer-window", window, \.peerWindowBits, "the window of received messages, 2^N bytes"),
        .init(
            "deflate-context",
            .flag,
            \.deflate.keepsContext,
            "whether sent messages refer to earlier ones"
        ),
        .init(
            "deflate-peer-context",
            .flag,
            \.deflate.peerKeepsContext,
            "whether received messages may refer to earlier ones"
        ),
        .init(
            "deflate-threshold",
            .bytes(1...Int(Int32.max)),
            \.deflate.threshold,
            "the smallest message that is compressed, in bytes"
        ),
    ]

    private static let window = SettingFormat.integer(9...15)
        .orAbsent("\(DeflateSettings().windowBits); small: \(DeflateSettings.small.windowBits)")

    static let list = SettingList(
        CompressionSettings(),
        [
            .init(
                "deflate",
                SettingFormat<Mode>.word.orAbsent(Mode.off.rawValue.debugDescription),
                \.mode,
                "compresses messages, with 300 KiB of memory a connection or 22 KiB for small, if both sides can; else sends as it is"
            )
        ] + parameters + [
            .init(
                "max-expansion",
                .integer(1...1032),
                \.deflate.expansion.factor,
                "the largest ratio of a message to its compressed size"
            )
        ],
        check: { (settings, options) throws(TransportError) in
            guard settings.mode == nil else { return }
            for parameter in parameters where options.member(parameter.name) != nil {
                throw .configuration(parameter.name, "configures compression, which needs deflate=on or deflate=small")
            }
        }
    )

    /// Returns the compression that is requested; `nil` if none is, or if there is no compressor.
    func compression(_ compressor: () -> (any MessageCompressor)?) -> WebSocketCompression? {
        guard let mode, mode != .off, let compressor = compressor() else { return nil }
        let usual = mode == .small ? DeflateSettings.small : DeflateSettings()
        var deflate = deflate
        deflate.windowBits = windowBits ?? usual.windowBits
        deflate.peerWindowBits = peerWindowBits ?? usual.peerWindowBits
        return WebSocketCompression(compressor, deflate)
    }
}

extension SettingFormat where Value == String {
    /// The format of a token of HTTP.
    fileprivate static var token: Self {
        var format = text("a token")
        format.absent = "none"
        return format
    }
}
