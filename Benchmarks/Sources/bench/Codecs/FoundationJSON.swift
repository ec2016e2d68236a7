import Codecs
import Foundation

extension Recipe {
    static let foundationEncoding = Recipe(name: "Foundation JSONEncoder", workload: .jsonEncoding) { _ in
        let encoder = JSONEncoder()
        return try encodingRun(CorpusMessages.all.map(CodableChat.init), encode: { try encoder.encode($0) }) {
            // Our codec must read the same message.
            CodableChat(try JSONCodec().decode(ChatMessage.self, from: Array($1))) == $0
        }
    }
    static let foundationDecoding = Recipe(name: "Foundation JSONDecoder", workload: .jsonDecoding) { _ in
        let decoder = JSONDecoder()
        let encoded = try CorpusMessages.all.map { Data(try JSONCodec().encode($0)) }
        return try decodingRun(CorpusMessages.all.map(CodableChat.init), encoded) {
            try decoder.decode(CodableChat.self, from: $0)
        }
    }
}

/// A chat message for `Codable` with the same JSON as our codec: 64-bit integers are strings, and fields with their
/// default value are left out (the JSON mapping of proto3).
struct CodableChat: Codable, Equatable, Sendable {
    var id: String?
    var conversation: String?
    var sender: String?
    var sentAtMs: String?
    var text: String?
    var replyTo: String?
    var mentions: [String]?
    var attributes: [String: String]?

    init(_ message: ChatMessage) {
        id = message.id
        conversation = message.conversation
        sender = message.sender
        sentAtMs = String(message.sentAtMs)
        text = message.text
        replyTo = message.replyTo
        mentions = message.mentions.isEmpty ? nil : message.mentions
        attributes = message.attributes.isEmpty ? nil : message.attributes
    }
}
