import Codecs

extension Recipe {
    static let ourJSONEncoding = Recipe(name: "JSONCodec", workload: .jsonEncoding) { _ in try encoding(JSONCodec()) }
    static let ourJSONDecoding = Recipe(name: "JSONCodec", workload: .jsonDecoding) { _ in try decoding(JSONCodec()) }
    static let ourProtobufEncoding = Recipe(name: "ProtobufCodec", workload: .protobufEncoding) { _ in
        try encoding(ProtobufCodec())
    }
    static let ourProtobufDecoding = Recipe(name: "ProtobufCodec", workload: .protobufDecoding) { _ in
        try decoding(ProtobufCodec())
    }

    /// Encodes each message into its own array, like the other codecs.
    private static func encoding<Codec: MessageCodec>(_ codec: Codec) throws -> any Contender {
        try encodingRun(CorpusMessages.all, encode: { try codec.encode($0) }) {
            try codec.decode(ChatMessage.self, from: $1) == $0
        }
    }

    private static func decoding<Codec: MessageCodec>(_ codec: Codec) throws -> any Contender {
        let encoded = try CorpusMessages.all.map { try codec.encode($0) }
        return try decodingRun(CorpusMessages.all, encoded) { try codec.decode(ChatMessage.self, from: $0) }
    }
}
