import Codecs
import Testing

/// UTF-8 (Unicode, table 3-7) in the strings of both formats, at every position in the blocks in which it is checked.
@Suite struct TextTests {
    /// Sequences that are invalid from their first byte, whatever character follows them.
    private static let wrong = [
        "80", "BF", "C0 80", "C1 BF", "C2", "C2 C2 80", "DF 7F", "E0 80 80", "E0 9F BF", "E0 A0", "E1 80", "E1 80 C0",
        "ED A0 80", "ED BF BF", "EF BF", "EF", "F0 80 80 80", "F0 8F BF BF", "F0 90 80", "F1 80", "F3", "F4 90 80 80",
        "F4 BF BF BF", "F5 80 80 80", "F7 BF BF BF", "F8 88 80 80 80", "FC 84 80 80 80 80", "FE", "FF", "F5 80 80",
        "FE 80",
    ]

    private static let right = [
        "\u{7F}", "\u{80}", "\u{7FF}", "\u{800}", "\u{FFF}", "\u{1000}", "\u{D7FF}", "\u{E000}", "\u{FFFF}",
        "\u{10000}",
        "\u{3FFFF}", "\u{FFFFF}", "\u{100000}", "\u{10FFFF}",
    ]

    /// A JSON document with `bytes` in the string of `member`.
    private func document(_ member: String, _ bytes: [UInt8]) -> [UInt8] {
        Array("{\"\(member)\":\"".utf8) + bytes + Array("\"}".utf8)
    }

    @Test("An invalid sequence is rejected at its own offset, whatever surrounds it", arguments: wrong)
    func refuses(text: String) {
        let wrong = hex(text)
        for filler in ["a", "é", "你", "😀"].map({ Array($0.utf8) }) {
            for before in 0..<36 / filler.count {
                let front = (0..<before).flatMap { _ in filler } + Array(repeating: 0x61, count: before % 3)
                for after in [0, 1, 2, 3, 17] {
                    let bytes = front + wrong + (0..<after).flatMap { _ in filler }
                    for member in ["string", "other"] {
                        let error = codecError {
                            try JSONCodec().decode(AllTypes.self, from: document(member, bytes))
                        }
                        #expect(error?.code == .invalidUTF8 && error?.offset == member.utf8.count + 5 + front.count)
                    }
                    // There are fewer than 128 bytes, so their length takes one byte.
                    let field = [2 << 3 | 2, UInt8(bytes.count)] + bytes
                    let error = codecError { try ProtobufCodec().decode(Inner.self, from: field) }
                    #expect(error?.code == .invalidUTF8 && error?.offset == 2)
                }
            }
        }
    }

    @Test("A valid character survives a round trip, whatever surrounds it", arguments: right)
    func accepts(text: String) throws {
        for filler in ["a", "é", "你", "😀"] {
            for before in 0..<36 {
                for after in [0, 1, 2, 3, 17] {
                    let text = String(repeating: filler, count: before) + text + String(repeating: filler, count: after)
                    let message = Inner(snakeCase: text)
                    let back = try JSONCodec().decode(Inner.self, from: document("snakeCase", Array(text.utf8)))
                    #expect(back.snakeCase.utf8.elementsEqual(text.utf8))
                    #expect(try json(message) == "{\"snakeCase\":\"\(text)\"}")
                    let binary = ProtobufCodec()
                    let copy = try binary.decode(Inner.self, from: binary.encode(message))
                    #expect(copy.snakeCase.utf8.elementsEqual(text.utf8))
                }
            }
        }
    }

    @Test("A cut character is rejected even if a whole one, or its other part, is in the adjacent string")
    func neighbours() throws {
        for text in ["é", "你", "😀"] {
            let bytes = Array(text.utf8)
            for cut in 1..<bytes.count {
                for (first, second) in [
                    (bytes[..<cut], bytes[cut...]), (bytes[...], bytes[cut...]), (bytes[..<cut], bytes[...]),
                ] {
                    let document =
                        Array("{\"strings\":[\"".utf8) + first + Array("\",\"".utf8) + second + Array("\"]}".utf8)
                    #expect(codecError { try JSONCodec().decode(AllTypes.self, from: document) }?.code == .invalidUTF8)
                }
            }
        }
    }

    @Test("A document that is a single string is checked too")
    func alone() throws {
        for wrong in Self.wrong.map(hex) {
            for before in 0..<20 {
                let document = [0x22] + [UInt8](repeating: 0x61, count: before) + wrong + [0x22]
                let error = codecError { try JSONValue(json: document, limits: CodecLimits()) }
                #expect(error?.code == .invalidUTF8 && error?.offset == 1 + before)
            }
        }
        for right in Self.right {
            let node = try JSONValue(json: Array("\"\(right)\"".utf8), limits: CodecLimits())
            guard case .string(right) = node.kind else {
                Issue.record("\(node)")
                continue
            }
        }
    }

    @Test("A text replaces the field's former text, whether that was empty, short, long or had spare capacity")
    func replaces() throws {
        let texts = ["", "short", "fifteen letters", String(repeating: "long 你好", count: 10)]
        for first in texts {
            for second in texts {
                let fields = field(2, first) + field(2, second)
                #expect(try ProtobufCodec().decode(Inner.self, from: fields).snakeCase == second)
            }
        }
        for text in texts {
            #expect(try ProtobufCodec().decode(Roomy.self, from: field(1, text)).text == text)
        }
        #expect(try ProtobufCodec().decode(Roomy.self, from: [UInt8]()).text.isEmpty)
    }

    private func field(_ number: UInt8, _ text: String) -> [UInt8] {
        [number << 3 | 2, UInt8(text.utf8.count)] + Array(text.utf8)
    }

    /// A message whose empty text has spare capacity.
    private struct Roomy: WireMessage {
        var text = ""

        init() { text.reserveCapacity(100) }

        mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
            try visitor.field(1, "text", &text)
        }
    }

    @Test("A text as long as the limit allows is read, and a longer document is rejected")
    func longTexts() throws {
        let text = String(repeating: "0123456789 äöü 你好😀", count: 5_000)
        let bytes = try JSONCodec().encode(Inner(snakeCase: text))
        let exact = JSONCodec(limits: CodecLimits(maximumLength: bytes.count))
        #expect(try exact.decode(Inner.self, from: bytes).snakeCase == text)
        #expect(codecError { try exact.decode(Inner.self, from: bytes + [0x20]) }?.code == .tooLong)
    }
}
