import TransportAPI

extension TransportOption {
    /// The options of a WebSocket's compression.
    static let deflate =
        [
            TransportOption(
                "deflate",
                "on, off or small",
                "compresses, in 300 KiB a link or, small, in 22, if there is zlib and the far side can too; else sends as it is (off)"
            )
        ] + deflateParameters + [
            TransportOption(
                "max-expansion",
                "a number from 1 to 1032",
                "how many times its size a message expands to (100)"
            )
        ]

    /// Those that say how, and need one that says so.
    fileprivate static let deflateParameters = [
        TransportOption(
            "deflate-window",
            "a number from 9 to 15",
            "how far back what is sent refers, 2^N bytes (15; small: 10)"
        ),
        TransportOption(
            "deflate-peer-window",
            "a number from 9 to 15",
            "how far back what arrives may refer, 2^N bytes (15; small: 10)"
        ),
        TransportOption("deflate-context", "on or off", "whether what is sent refers to messages before (on)"),
        TransportOption("deflate-peer-context", "on or off", "whether what arrives may refer to messages before (on)"),
        TransportOption(
            "deflate-threshold",
            "a number from 1 to 2147483647",
            "bytes from which on messages are compressed (32)"
        ),
    ]
}

extension WebSocketCompression {
    /// What the options of a URL ask for; `nil` if it is nothing, or if there is no compressor.
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
