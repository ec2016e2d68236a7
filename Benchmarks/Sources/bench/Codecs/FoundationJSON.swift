import Codecs
import Foundation

extension Recipe {
    static let foundationEncoding = Recipe(name: "Foundation JSONEncoder", workload: .jsonEncoding) { _ in
        let encoder = JSONEncoder()
        return try encodingRun(CorpusMessages.all.map(CodableChat.init), encode: { try encoder.encode($0) }) {
            // What it writes is the same message to our codec.
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

/// A chat message for `Codable`, whose JSON is that of our codec: whole numbers of 64 bits are strings, and what has its
/// default is left out (the JSON mapping of proto3).
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
