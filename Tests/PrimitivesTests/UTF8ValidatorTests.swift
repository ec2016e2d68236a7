import Primitives
import Testing

@Suite("UTF-8 validation")
struct UTF8ValidatorTests {
    static func isValid(_ bytes: [UInt8]) -> Bool {
        bytes.withUnsafeBytes { UTF8Validator.isValid($0) }
    }

    /// Feeds `bytes` in pieces of `slice` bytes. Returns the offset of the rejected piece, or `nil` if there is none, and whether
    /// the text is complete.
    static func refusal(_ bytes: [UInt8], slice: Int) -> (byte: Int?, isComplete: Bool) {
        var validator = UTF8Validator()
        for start in stride(from: 0, to: bytes.count, by: slice) {
            let piece = Array(bytes[start..<min(start + slice, bytes.count)])
            guard piece.withUnsafeBytes({ validator.accept($0) }) else { return (start, false) }
        }
        return (nil, validator.isComplete)
    }

    @Test(
        "Well-formed text is accepted",
        arguments: [
            "", "plain", "κόσμε", "Grüße", "日本語のテキスト", "🎉👩‍👩‍👧‍👦",
            "\u{0}\u{7f}\u{80}\u{7ff}\u{800}\u{ffff}\u{10000}\u{10ffff}",
            "\u{d7ff}\u{e000}\u{fffd}",
        ]
    )
    func valid(string: String) {
        #expect(Self.isValid(Array((string).utf8)))
        for slice in 1...5 { #expect(Self.refusal(Array((string).utf8), slice: slice) == (nil, true)) }
        for padding in 0..<40 {
            #expect(Self.isValid(Array((String(repeating: "a", count: padding) + string + "end").utf8)))
        }
    }

    @Test(
        "Ill-formed text is rejected at the first byte that cannot be valid",
        arguments: [
            ([0x80], 0), ([0xc0, 0x80], 0), ([0xc1], 0), ([0xf5], 0), ([0xff], 0),
            ([0xe0, 0x80, 0x80], 1), ([0xe0, 0x9f], 1), ([0xed, 0xa0, 0x80], 1), ([0xed, 0xbf], 1),
            ([0xf0, 0x80], 1), ([0xf0, 0x8f], 1), ([0xf4, 0x90, 0x80, 0x80], 1), ([0xe1, 0x80, 0x41], 2),
            ([0xf1, 0x80, 0x80, 0xc0], 3), ([0x41, 0xc3, 0x28], 2),
            // The example of the Autobahn suite's cases 6.4: κόσμε, then a code point above U+10FFFF.
            ([0xce, 0xba, 0xe1, 0xbd, 0xb9, 0xcf, 0x83, 0xce, 0xbc, 0xce, 0xb5, 0xf4, 0x90, 0x80, 0x80], 12),
        ] as [([UInt8], Int)]
    )
    func broken(bytes: [UInt8], at offset: Int) {
        #expect(!Self.isValid(bytes))
        #expect(Self.refusal(bytes, slice: 1).byte == offset)
        for padding in [0, 7, 8, 15, 16, 31, 32, 33, 63] {
            let padded = [UInt8](repeating: 0x61, count: padding) + bytes
            #expect(!Self.isValid(padded))
            #expect(!Self.isValid(padded + [UInt8](repeating: 0x61, count: 50)))
            #expect(Self.refusal(padded, slice: 1).byte == padding + offset)
        }
    }

    @Test("Text that ends within a code point is reported as incomplete")
    func cutOff() {
        for string in ["é", "語", "🎉"] {
            for cut in 1..<string.utf8.count {
                let head = Array(Array(("0123456789abcdefXYZ" + string).utf8).dropLast(cut))
                #expect(!Self.isValid(head))
                #expect(Self.refusal(head, slice: .max) == (nil, false))
            }
        }
    }

    @Test("Validation agrees with Swift's own on random inputs, whole and in pieces")
    func agreesWithSwift() {
        var random = SplitMix(state: 42)
        let interesting: [UInt8] = [
            0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc2, 0xdf, 0xe0, 0xe1, 0xed,
        ]
        let more: [UInt8] = [0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff]
        let scalars = ["a", "é", "ж", "語", "🎉", "\u{d7ff}", "\u{10ffff}"]
        var validCount = 0
        for round in 0..<8000 {
            var bytes: [UInt8] = []
            for _ in 0..<Int.random(in: 0...30, using: &random) {
                switch Int.random(in: 0..<40, using: &random) {
                case 0: bytes.append((interesting + more).randomElement(using: &random) ?? 0)
                case 1...5: bytes += Array((String(repeating: "x", count: Int.random(in: 1...40, using: &random))).utf8)
                default: bytes += Array((scalars.randomElement(using: &random) ?? "").utf8)
                }
            }
            if round % 7 == 0, !bytes.isEmpty { bytes.removeLast() }
            let expected = String(validating: bytes, as: UTF8.self) != nil
            validCount += expected ? 1 : 0
            let inPieces = Self.refusal(bytes, slice: Int.random(in: 1...20, using: &random))
            #expect(Self.isValid(bytes) == expected)
            #expect((inPieces.byte == nil && inPieces.isComplete) == expected)
        }
        #expect(validCount > 2000 && validCount < 7000)
    }
}
