import Codecs
import CommandSupport
import Measuring

/// The chat messages with which codecs are measured. There is one for each text of the corpus. Some answer another
/// message, and some mention people.
enum CorpusMessages {
    static let all: [ChatMessage] = Corpus.standard.messages.enumerated().map { index, entry in
        var message = ChatMessage(
            id: "m-0000\(index)",
            conversation: "team-lunch",
            sender: "u-48151623",
            sentAtMs: 1_767_225_600_000 + Int64(index),
            text: entry.text
        )
        if index % 3 == 0 { message.replyTo = "m-0000\(index / 2)" }
        if index % 5 == 0 { message.mentions = ["u-23", "u-42"] }
        if index % 7 == 0 { message.attributes = ["lang": entry.language] }
        return message
    }
}

/// Processes all messages of the corpus again and again.
final class CorpusRun: Contender {
    private let pass: () throws -> Int

    /// - Parameter pass: processes all messages once and returns their number.
    init(_ pass: @escaping () throws -> Int) { self.pass = pass }

    func measure(for nanoseconds: Int64) throws -> Double {
        _ = try passes(nanoseconds / 10)
        return try passes(nanoseconds)
    }

    private func passes(_ nanoseconds: Int64) throws -> Double {
        let start = Clocks.monotonic()
        var count = 0
        var now = start
        repeat {
            count += try pass()
            now = Clocks.monotonic()
        } while now - start < nanoseconds
        return Double(count) * 1e9 / Double(now - start)
    }
}

/// A message or its bytes, read in place. An array would return copies and count references for each, which is not the
/// work of a codec.
private final class Kept<Message> {
    let message: Message

    init(message: Message) { self.message = message }
}

/// Encodes all messages. `isRight` compares a message with its bytes.
func encodingRun<Message, Bytes: Collection>(
    _ messages: [Message],
    encode: @escaping (Message) throws -> Bytes,
    isRight: (Message, Bytes) throws -> Bool
) throws -> any Contender {
    for message in messages {
        guard try isRight(message, encode(message)) else {
            throw WrongResult(description: "encoded wrongly: \(message)")
        }
    }
    let kept = messages.map { Kept(message: $0) }
    return CorpusRun {
        var bytes = 0
        for each in kept { bytes += try encode(each.message).count }
        guard bytes > 0 else { throw WrongResult(description: "nothing was encoded") }
        return messages.count
    }
}

/// Decodes all texts and compares them with their messages.
func decodingRun<Message: Equatable, Bytes>(
    _ messages: [Message],
    _ encoded: [Bytes],
    decode: @escaping (Bytes) throws -> Message
) throws -> any Contender {
    for (message, bytes) in zip(messages, encoded) {
        guard try decode(bytes) == message else { throw WrongResult(description: "decoded wrongly: \(message)") }
    }
    let kept = encoded.map { Kept(message: $0) }
    return CorpusRun {
        // Each decoded message is released at once. To store it in an optional until the next one would add a type
        // lookup at run time to this loop.
        for each in kept.dropLast() { _ = try decode(each.message) }
        guard let bytes = kept.last?.message, try decode(bytes) == messages.last else {
            throw WrongResult(description: "the last message was decoded wrongly")
        }
        return kept.count
    }
}
