import Codecs
import SwiftProtobuf

extension Recipe {
    static let swiftProtobufEncoding = Recipe(name: "SwiftProtobuf", workload: .protobufEncoding) { _ in
        try encoding {
            try $0.serializedBytes()
        } isRight: {
            try ProtobufCodec().decode(ChatMessage.self, from: $1) == $0
        }
    }
    static let swiftProtobufDecoding = Recipe(name: "SwiftProtobuf", workload: .protobufDecoding) { _ in
        try decoding(ProtobufCodec()) { try Im_ChatMessage(serializedBytes: $0) }
    }
    static let swiftProtobufJSONEncoding = Recipe(name: "SwiftProtobuf", workload: .jsonEncoding) { _ in
        try encoding {
            try $0.jsonUTF8Bytes()
        } isRight: {
            try JSONCodec().decode(ChatMessage.self, from: $1) == $0
        }
    }
    static let swiftProtobufJSONDecoding = Recipe(name: "SwiftProtobuf", workload: .jsonDecoding) { _ in
        try decoding(JSONCodec()) { try Im_ChatMessage(jsonUTF8Bytes: $0) }
    }

    private static func encoding(
        _ encode: @escaping (Im_ChatMessage) throws -> [UInt8],
        isRight: (ChatMessage, [UInt8]) throws -> Bool
    ) throws -> any Contender {
        let messages = try CorpusMessages.all.map { try generated($0) }
        for (message, original) in zip(messages, CorpusMessages.all) {
            guard try isRight(original, encode(message)) else {
                throw WrongResult(description: "encoded wrongly: \(message)")
            }
        }
        return try encodingRun(messages, encode: encode) { _, _ in true }
    }

    private static func decoding<Codec: MessageCodec>(
        _ codec: Codec,
        _ decode: @escaping ([UInt8]) throws -> Im_ChatMessage
    ) throws -> any Contender {
        let encoded = try CorpusMessages.all.map { try codec.encode($0) }
        return try decodingRun(try CorpusMessages.all.map { try generated($0) }, encoded, decode: decode)
    }

    /// The same message as SwiftProtobuf's generated type.
    private static func generated(_ message: ChatMessage) throws -> Im_ChatMessage {
        try Im_ChatMessage(serializedBytes: try ProtobufCodec().encode(message))
    }
}
