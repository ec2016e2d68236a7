/// The bytes that end a plain run inside a JSON string (RFC 8259, section 7), found eight at a time.
///
/// The arithmetic is the well-known search for a zero byte in a word (Bit Twiddling Hacks, "Determine if a word has a zero
/// byte"). A borrow can only mark bytes above a true find, so the lowest mark is always right.
@usableFromInline
enum JSONWord {
    static let ones: UInt64 = 0x0101_0101_0101_0101
    static let highBits: UInt64 = 0x8080_8080_8080_8080

    /// The high bit of the first quote, backslash or control character, in a word loaded as little-endian; zero if none.
    @inline(__always)
    static func specials(_ word: UInt64) -> UInt64 {
        let quote = word ^ (ones &* 0x22)
        let backslash = word ^ (ones &* 0x5C)
        return
            (((word &- ones &* 0x20) & ~word)
            | ((quote &- ones) & ~quote)
            | ((backslash &- ones) & ~backslash)) & highBits
    }

    @inline(__always)
    static func isSpecial(_ byte: UInt8) -> Bool {
        byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
    }
}
