import Codecs

extension ChatMessage {
    /// The message that measurements send: a text of the corpus in a conversation.
    package static func sample(size: Int, seed: UInt64) -> ChatMessage {
        ChatMessage(
            id: MessageNumber.text(0),
            conversation: "team-lunch",
            sender: "u-48151623",
            sentAtMs: 1_767_225_600_000,
            text: Corpus.standard.text(bytes: size, seed: seed)
        )
    }
}

/// The identifier of a chat message, which contains its sequence number. It is short enough for Swift to store it without an
/// allocation.
package enum MessageNumber {
    package static let digits = 15

    package static func text(_ number: UInt64) -> String {
        String(unsafeUninitializedCapacity: digits) { target in
            var rest = number
            for index in (0..<digits).reversed() {
                target[index] = UInt8(ascii: "0") + UInt8(rest % 10)
                rest /= 10
            }
            return digits
        }
    }

    package static func number(_ text: String) -> UInt64? {
        guard text.utf8.count == digits else { return nil }
        var number: UInt64 = 0
        for digit in text.utf8 {
            guard digit >= 0x30, digit <= 0x39 else { return nil }
            number = number * 10 + UInt64(digit - 0x30)
        }
        return number
    }
}
