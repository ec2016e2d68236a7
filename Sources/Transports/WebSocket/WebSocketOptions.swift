import Protocols
import TransportAPI

extension TransportOption {
    /// The options of a WebSocket's compression.
    static let deflate =
        [
            TransportOption(
                "deflate",
                "on, off or small",
                "compresses messages, with 300 KiB of memory a connection or 22 KiB for small, if both sides can; else sends as it is (off)"
            )
        ] + deflateParameters + [
            TransportOption(
                "max-expansion",
                "a number from 1 to 1032",
                "the largest ratio of a message to its compressed size (100)"
            )
        ]

    /// The parameters, which require `deflate`.
    fileprivate static let deflateParameters = [
        TransportOption(
            "deflate-window",
            "a number from 9 to 15",
            "the window of sent messages, 2^N bytes (15; small: 10)"
        ),
        TransportOption(
            "deflate-peer-window",
            "a number from 9 to 15",
            "the window of received messages, 2^N bytes (15; small: 10)"
        ),
        TransportOption("deflate-context", "on or off", "whether sent messages refer to earlier ones (on)"),
        TransportOption(
            "deflate-peer-context",
            "on or off",
            "whether received messages may refer to earlier ones (on)"
        ),
        TransportOption(
            "deflate-threshold",
            "a number from 1 to 2147483647",
            "the smallest message that is compressed, in bytes (32)"
        ),
    ]
}

extension WebSocketCompression {
    /// Reads the compression that a URL requests. Returns `nil` if it requests none, or if there is no compressor.
    ///
    /// - Throws: `.invalidConfiguration` with the name of the option, whether or not there is a compressor.
    static func read(
        _ options: OptionReader,
        _ compressor: () -> (any MessageCompressor)?
    ) throws(TransportError) -> WebSocketCompression? {
        let choice = try options.choice("deflate", ["on", "off", "small"])
        let window = try options.integer("deflate-window", in: 9...15)
        let peerWindow = try options.integer("deflate-peer-window", in: 9...15)
        let context = try options.flag("deflate-context")
        let peerContext = try options.flag("deflate-peer-context")
        let threshold = try options.bytes("deflate-threshold", in: 1...Int(Int32.max))
        let expansion = try options.integer("max-expansion", in: 1...1032)
        guard let choice else {
            for option in TransportOption.deflateParameters where !options.strings(option.name).isEmpty {
                throw .configuration(
                    option.name,
                    "configures compression, which needs deflate=on or deflate=small"
                )
            }
            return nil
        }
        guard choice != "off", let compressor = compressor() else { return nil }
        var compression = choice == "small" ? WebSocketCompression.small(compressor) : WebSocketCompression(compressor)
        compression.windowBits = window ?? compression.windowBits
        compression.peerWindowBits = peerWindow ?? compression.peerWindowBits
        compression.keepsContext = context ?? compression.keepsContext
        compression.peerKeepsContext = peerContext ?? compression.peerKeepsContext
        compression.threshold = threshold ?? compression.threshold
        compression.expansion.factor = expansion ?? compression.expansion.factor
        return compression
    }
}

extension TransportOption {
    /// The options that determine which requests a server over WebSocket admits. Clients ignore them.
    static let admission = [
        TransportOption(
            "origins",
            "same, null, any, or origins such as https://chat.example, separated by commas",
            "which web pages a server admits (same: host and port are those of the Host header)",
            side: .server
        ),
        TransportOption(
            "hosts",
            "loopback, address, any, or hosts such as chat.example, separated by commas",
            "which Host headers a server admits (loopback,address for clients on its machine, any for others)",
            side: .server
        ),
    ]
}

extension WebSocketConfiguration {
    /// Sets which requests are admitted, from the URL of a server.
    mutating func admit(_ endpoint: Endpoint, _ options: OptionReader) throws(TransportError) {
        if !endpoint.path.isEmpty, endpoint.path != "/" { allowedPaths = [endpoint.path] }
        guard try options.string("origin") == nil else {
            throw .configuration("origin", "is an option of clients; a server has the option origins")
        }
        if let origins = try options.list("origins", where: RequestAdmission.isOriginRule) { allowedOrigins = origins }
        if let hosts = try options.list("hosts", where: RequestAdmission.isHostRule) { allowedHosts = hosts }
    }
}

extension OptionReader {
    /// Returns the members of an option that is a list and may be repeated. Returns `nil` if the option is missing.
    fileprivate func list(
        _ name: String,
        where isAllowed: (String) -> Bool
    ) throws(TransportError) -> [String]? {
        let values = strings(name)
        guard !values.isEmpty else { return nil }
        let members = values.flatMap { $0.utf8.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false) }
            .map { String(decoding: HTTPSyntax.trim($0), as: UTF8.self) }
        if let wrong = members.first(where: { !isAllowed($0) }) {
            let allowed = TransportOption.admission.first { $0.name == name }?.values ?? ""
            throw .configuration(name, "has '\(wrong)'; allowed are \(allowed)")
        }
        return members
    }
}
