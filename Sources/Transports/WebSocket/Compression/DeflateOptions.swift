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
    /// The compression that a URL requests; `nil` if it requests none, or if there is no compressor.
    ///
    /// - Throws: `.invalidConfiguration` that names the option, whether or not there is a compressor.
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
                    "says how to compress; that needs deflate=on or deflate=small beside it"
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
        compression.maximumExpansion = expansion ?? compression.maximumExpansion
        return compression
    }
}
