/// Chat messages in many scripts, from which texts of an exact size are made. Real scripts matter: they differ in bytes per
/// character, in what a codec must escape, and in how well they compress.
struct Corpus: Sendable {
    struct Message: Sendable, Hashable {
        /// The language, as BCP 47 names it.
        var language: String
        var text: String
    }

    let messages: [Message]

    /// The messages that come with imbench.
    static let standard = Corpus(tabSeparated: PackageResources.messages_tsv)

    /// Reads lines of language, tab, text; lines of another form are left out.
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

    /// A text of exactly `bytes` UTF-8 bytes: messages in random order, the last one cut between two characters, and the
    /// few bytes that then are missing filled with ASCII. The same seed gives the same text.
    func text(bytes: Int, seed: UInt64) -> String {
        var generator = SeededGenerator(seed: seed)
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
    private static func filler(_ bytes: Int, _ generator: inout SeededGenerator) -> String {
        var text = ""
        for _ in 0..<bytes {
            text.unicodeScalars.append(Unicode.Scalar(UInt8.random(in: 0x61...0x7a, using: &generator)))
        }
        return text
    }
}
