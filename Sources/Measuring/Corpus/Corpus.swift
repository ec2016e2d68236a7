import CPages
import TransportAPI

/// Chat messages in many scripts, for texts of an exact size. Scripts differ in bytes per character, in the characters that a
/// codec must escape, and in compression.
package struct Corpus: Sendable {
    package struct Message: Sendable, Hashable {
        /// The language, as BCP 47 names it.
        var language: String
        var text: String

        package init(language: String, text: String) {
            (self.language, self.text) = (language, text)
        }
    }

    let messages: [Message]

    /// The messages of this package.
    package static let standard = Corpus(tabSeparated: Array(String(cString: cpages_messages_tsv()).utf8))

    /// Reads lines of language, tab, text. Other lines are omitted.
    init(tabSeparated bytes: [UInt8]) {
        messages = bytes.split(separator: 0x0a).compactMap { line in
            let fields = line.split(separator: 0x09, maxSplits: 1)
            guard fields.count == 2 else { return nil }
            return Message(
                language: String(decoding: fields[0], as: UTF8.self),
                text: String(decoding: fields[1], as: UTF8.self)
            )
        }
    }

    /// A text of exactly `bytes` UTF-8 bytes: messages in random order, the last one cut between two characters, and
    /// padding of ASCII letters. The same seed gives the same text.
    func text(bytes: Int, seed: UInt64) -> String {
        var generator = RandomSource.seeded(seed)
        var text = ""
        var room = max(0, bytes)
        text.reserveCapacity(room)
        while room > 0, let message = messages.randomElement(using: &generator) {
            if !text.isEmpty {
                text += " "
                room -= 1
            }
            for character in message.text {
                let size = character.utf8.count
                guard size <= room else {
                    return text + Self.filler(room, &generator)
                }
                text.append(character)
                room -= size
            }
        }
        return text + Self.filler(room, &generator)
    }

    /// Random lower-case letters.
    private static func filler(_ bytes: Int, _ generator: inout RandomSource) -> String {
        var text = ""
        for _ in 0..<bytes {
            text.unicodeScalars.append(Unicode.Scalar(UInt8.random(in: 0x61...0x7a, using: &generator)))
        }
        return text
    }
}
