/// Operations on eight or sixteen bytes at a time: the search for the bytes that a JSON string must escape (RFC 8259,
/// section 7), and decimal digits.
@usableFromInline
enum JSONWord {
    static let ones: UInt64 = 0x0101_0101_0101_0101
    static let highBits: UInt64 = 0x8080_8080_8080_8080

    /// The high bit of the first quote, backslash or control character of a word that was loaded as little-endian; zero
    /// if there is none.
    ///
    /// The arithmetic is the known search for a zero byte (Bit Twiddling Hacks, "Determine if a word has a zero byte").
    /// A borrow can mark only bytes above a true match, so the lowest mark is always correct.
    @inline(__always)
    static func specials(_ word: UInt64) -> UInt64 {
        let quote = word ^ (ones &* 0x22)
        let backslash = word ^ (ones &* 0x5C)
        return
            (((word &- ones &* 0x20) & ~word)
            | ((quote &- ones) & ~quote)
            | ((backslash &- ones) & ~backslash)) & highBits
    }

    /// The high bits of all quotes, backslashes and control characters in the first and in the second eight bytes.
    ///
    /// The arithmetic is the same, byte by byte and therefore without borrows. A comparison of vectors would be a loop
    /// over their elements in Swift.
    @inline(__always)
    static func specials(_ block: SIMD16<UInt8>) -> (low: UInt64, high: UInt64) {
        let all = SIMD16<UInt8>(repeating: 0xFF)
        let quote = block ^ SIMD16(repeating: 0x22)
        let backslash = block ^ SIMD16(repeating: 0x5C)
        let marks =
            ((block &- SIMD16(repeating: 0x20)) & (block ^ all))
            | ((quote &+ all) & (quote ^ all))
            | ((backslash &+ all) & (backslash ^ all))
        // Both types are plain bits of the same size.
        let words = unsafeBitCast(marks & SIMD16(repeating: 0x80), to: SIMD2<UInt64>.self)
        return (UInt64(littleEndian: words[0]), UInt64(littleEndian: words[1]))
    }

    @inline(__always)
    static func isSpecial(_ byte: UInt8) -> Bool {
        byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
    }

    /// The bytes of `word` before the lowest mark of `specials`, which is not zero.
    @inline(__always)
    static func passed(_ word: UInt64, _ specials: UInt64) -> UInt64 {
        word & ((1 &<< UInt64(specials.trailingZeroBitCount & ~7)) &- 1)
    }

    /// The `count` bytes at `source`, one to eight of them, as a little-endian word. Spaces fill the rest. No other
    /// byte is read.
    @inline(__always)
    static func loaded(_ source: UnsafePointer<UInt8>, count: Int) -> UInt64 {
        let raw = UnsafeRawPointer(source)
        guard count < 8 else { return UInt64(littleEndian: raw.loadUnaligned(as: UInt64.self)) }
        let bits = UInt64(truncatingIfNeeded: count &* 8)
        let spaces = (ones &* 0x20) &<< bits
        if count >= 4 {
            let first = UInt64(UInt32(littleEndian: raw.loadUnaligned(as: UInt32.self)))
            let last = UInt64(UInt32(littleEndian: raw.loadUnaligned(fromByteOffset: count &- 4, as: UInt32.self)))
            return spaces | first | last &<< (bits &- 32)
        }
        let half = count &>> 1
        return spaces | UInt64(source[0]) | UInt64(source[half]) &<< UInt64(truncatingIfNeeded: half &* 8)
            | UInt64(source[count &- 1]) &<< (bits &- 8)
    }

    /// The `count` bytes at `source`, one to fifteen of them. Spaces fill the rest.
    @inline(never)
    static func padded(_ source: UnsafePointer<UInt8>, count: Int) -> SIMD16<UInt8> {
        let first = loaded(source, count: min(count, 8))
        let second = count > 8 ? loaded(source + 8, count: count &- 8) : ones &* 0x20
        // Both types are plain bits of the same size.
        return unsafeBitCast(SIMD2(first.littleEndian, second.littleEndian), to: SIMD16<UInt8>.self)
    }

    /// The character `0`, eight times.
    static let zeros: UInt64 = 0x3030_3030_3030_3030

    /// The eight decimal digits of `value`, one per byte, the first digit in the lowest byte. `value` is less than 10⁸.
    ///
    /// All lanes are computed at once: two of four digits, four of two, eight of one. The factors are 2²⁰/100 and
    /// 2¹⁰/10, rounded up. For values of this size the result is exact, and no product reaches the next lane.
    @inline(__always)
    static func digits(_ value: UInt64) -> UInt64 {
        let upper = value / 10_000
        let fours = upper | (value &- upper &* 10_000) &<< 32
        let hundreds = ((fours &* 10_486) &>> 20) & 0x0000_007F_0000_007F
        let twos = hundreds | (fours &- hundreds &* 100) &<< 16
        let tens = ((twos &* 103) &>> 10) & 0x000F_000F_000F_000F
        return tens | (twos &- tens &* 10) &<< 8
    }

    /// The number of eight decimal digits, the first digit in the lowest byte; `nil` if a byte is not a digit.
    @inline(__always)
    static func number(_ word: UInt64) -> UInt64? {
        // The high half of a digit is 3, and it is still 3 after adding 6 to the low half.
        let halves = ones &* 0xF0
        guard word & halves == zeros, (word &+ ones &* 6) & halves == zeros else { return nil }
        let digits = word & (ones &* 0x0F)
        let twos = ((digits &* 10) &+ (digits &>> 8)) & 0x00FF_00FF_00FF_00FF
        let fours = ((twos &* 100) &+ (twos &>> 16)) & 0x0000_FFFF_0000_FFFF
        return (fours &* 10_000 &+ fours &>> 32) & 0xFFFF_FFFF
    }
}
