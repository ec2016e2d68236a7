import Codecs
import Testing

/// Values at the boundaries between the code paths of the reader and of the writer.
@Suite struct ProtobufBoundaryTests {
    private let codec = ProtobufCodec()

    private func varint(_ value: UInt64) -> [UInt8] {
        var (rest, bytes) = (value, [UInt8]())
        while rest >= 0x80 {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        return bytes + [UInt8(rest)]
    }

    private func delimited(_ number: UInt64, _ content: [UInt8]) -> [UInt8] {
        varint(number << 3 | 2) + varint(UInt64(content.count)) + content
    }

    /// For each bit: this bit alone, all lower bits, and all bits from this one upwards.
    private static let values = (0..<64).flatMap { bit -> [UInt64] in [1 << bit, (1 << bit) - 1, .max << bit] }

    @Test("Varints of every length are written and read, whatever follows them")
    func varints() throws {
        for value in Self.values {
            var message = AllTypes()
            message.uint64 = value
            let field = value == 0 ? [] : [0x28] + varint(value)
            #expect(try codec.encode(message) == field)
            #expect(try codec.decode(AllTypes.self, from: field) == message)
            message.string = "0123456789"
            let longer = field + delimited(12, Array("0123456789".utf8))
            #expect(try codec.encode(message) == longer)
            #expect(try codec.decode(AllTypes.self, from: longer) == message)
        }
    }

    @Test("A varint may be longer than necessary, but not longer than ten bytes, whatever follows it")
    func longVarints() throws {
        for value in Self.values {
            let shortest = varint(value)
            for length in (shortest.count + 1)..<12 {
                var long = shortest
                long[long.count - 1] |= 0x80
                long += Array(repeating: 0x80, count: length - long.count - 1) + [0]
                for after in [[], delimited(12, Array("0123456789".utf8))] {
                    let bytes = [0x28] + long + after
                    if length <= 10 {
                        #expect(try codec.decode(AllTypes.self, from: bytes).uint64 == value)
                    } else {
                        let error = codecError { try codec.decode(AllTypes.self, from: bytes) }
                        #expect(error?.code == .varintOverflow && error?.offset == 10 && error?.field == "uint64")
                    }
                }
            }
        }
    }

    @Test("A varint never extends beyond its message, even if more bytes follow there")
    func varintsInside() throws {
        for length in 1...9 {
            let inner = [0x08] + Array(repeating: UInt8(0x80), count: length)
            let error = codecError { try codec.decode(AllTypes.self, from: delimited(15, inner) + inner) }
            #expect(error?.code == .truncated && error?.offset == 3 + length && error?.field == "inner.number")
        }
    }

    @Test(
        "A length is written in as few bytes as possible, wherever the message is assembled",
        arguments: [0, 126, 127, 128, 129, 16_383, 16_384, 16_385, 2_097_151, 2_097_152]
    )
    func lengths(length: Int) throws {
        // A text that gives the enclosing message exactly this length.
        let size = (2...5).map { max(length - $0, 0) }.first { 1 + varint(UInt64($0)).count + $0 == length }
        let text = Array(repeating: UInt8(0x78), count: size ?? 0)
        var inner = Inner()
        inner.snakeCase = String(decoding: text, as: UTF8.self)
        let content = text.isEmpty ? [] : delimited(2, text)
        var message = AllTypes()
        message.inner = inner
        message.inners = [inner, Inner()]
        message.byKey = [7: inner]
        var child = AllTypes()
        child.inner = inner
        message.children = [child]
        let expected =
            delimited(15, content) + delimited(28, content) + delimited(28, [])
            + delimited(31, [0x08, 7] + delimited(2, content)) + delimited(2000, delimited(15, content))
        var bytes: [UInt8] = []
        for round in 0..<3 {
            bytes.removeAll(keepingCapacity: round != 1)
            try codec.encode(message, into: &bytes)
            #expect(bytes == expected)
        }
        #expect(try codec.decode(AllTypes.self, from: expected) == message)
    }

    @Test("A truncated chat message is valid only if it ends between two fields")
    func truncated() throws {
        var message = ChatMessage(id: "m1", conversation: "c", sender: "ann", sentAtMs: 1 << 40, text: "hé 你好 👍 и всё")
        message.replyTo = String(repeating: "r", count: 200)
        message.mentions = ["bo", ""]
        message.attributes = ["k": "v"]
        let bytes = try codec.encode(message)
        // The ends of id, conversation, sender, time, text, reply and two mentions.
        var ends: Set<Int> = [0, 4, 7, 12]
        ends.insert(12 + 1 + varint(1 << 40).count)
        for field in [message.text, message.replyTo ?? ""] {
            ends.insert((ends.max() ?? 0) + delimited(1, Array(field.utf8)).count)
        }
        for size in [4, 2] { ends.insert((ends.max() ?? 0) + size) }
        for count in 0..<bytes.count {
            let error = codecError { try codec.decode(ChatMessage.self, from: Array(bytes[..<count])) }
            #expect(error?.code == (ends.contains(count) ? nil : .truncated), "\(count) bytes")
        }
    }

    @Test("Fields in any order, with unknown fields between them, give the same message")
    func anyOrder() throws {
        var random = SeededGenerator(state: 12)
        for _ in 0..<50 {
            let message = random.chatMessage()
            let unknown = delimited(77, random.bytes())
            var fields = [
                delimited(1, Array(message.id.utf8)), delimited(2, Array(message.conversation.utf8)),
                delimited(3, Array(message.sender.utf8)), [0x20] + varint(UInt64(bitPattern: message.sentAtMs)),
                [0x28] + varint(UInt64(bitPattern: Int64(message.kind.rawValue))),
                delimited(6, Array(message.text.utf8)),
                delimited(9, message.attachment), unknown,
            ]
            fields += message.replyTo.map { [delimited(7, Array($0.utf8))] } ?? []
            fields += message.attributes.map {
                delimited(10, delimited(1, Array($0.utf8)) + delimited(2, Array($1.utf8)))
            }
            fields.shuffle(using: &random)
            fields += message.mentions.map { delimited(8, Array($0.utf8)) }
            var read = try codec.decode(ChatMessage.self, from: fields.flatMap { $0 })
            #expect(read.unknownFields.bytes == unknown)
            read.unknownFields = UnknownFields()
            #expect(read == message)
        }
    }

    @Test("The reader accepts a text as UTF-8 exactly if the standard library does")
    func text() throws {
        let leads: [UInt8] = [
            0x41, 0x7F, 0x80, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4,
            0xF5, 0xFF,
        ]
        let others: [UInt8] = [0x41, 0x80, 0x8D, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xE0]
        for lead in leads {
            for second in others {
                for third in others {
                    for (before, after) in [("", ""), ("é", "我"), ("0123456", "x"), ("你好", "0123456789")] {
                        let middle = [lead, second, third, 0xBF]
                        for count in 1...4 {
                            let bytes = Array(before.utf8) + middle[..<count] + Array(after.utf8)
                            let read = try? codec.decode(Inner.self, from: delimited(2, bytes))
                            #expect(read?.snakeCase == String(validating: bytes, as: UTF8.self))
                        }
                    }
                }
            }
        }
    }
}
