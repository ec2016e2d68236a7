/// The rules of well-formed UTF-8 (Unicode, table 3-7; RFC 3629), for sixteen bytes at a time and without a branch.
///
/// Each byte is compared with the three bytes before it, which are loaded from memory. The highest bit of each byte of
/// a result is the verdict on that byte. So texts of all scripts cost the same, and blocks may overlap.
package enum UTF8Blocks {
    private typealias Block = SIMD16<UInt8>

    /// Whether `text` is well-formed. Bytes outside of it are not read.
    package static func areWellFormed(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        let last = text.count &- 16
        guard last >= 3, let base = text.baseAddress else { return firstInvalidUTF8(text) == nil }
        // The first characters are checked one by one, until three bytes precede the next one.
        var start = 0
        while start < 3 {
            let length = base[start] < 0x80 ? 1 : lengthOfSequence(text, at: start)
            guard length > 0 else { return false }
            start &+= length
        }
        // No character may lack its last bytes at the end, where no byte follows that would show it.
        guard base[last &+ 15] < 0xC0, base[last &+ 14] < 0xE0, base[last &+ 13] < 0xF0 else { return false }
        return areWellFormed(base, from: start, last: last)
    }

    /// Whether `base[start..<end]` is well-formed. The byte at `end` must be readable and ASCII, so that no character
    /// ends beyond `end`.
    package static func areWellFormed(_ base: UnsafePointer<UInt8>, from start: Int, to end: Int) -> Bool {
        // The byte at `end` is checked, too, because a character that lacks its last bytes is found at the next byte.
        let last = end - 15
        // The blocks cannot check a range into which a character from before `start` may reach.
        guard start >= 3, last >= 3, (base[start &- 1] | base[start &- 2] | base[start &- 3]) < 0x80 else {
            return firstInvalidUTF8(UnsafeBufferPointer(start: base + start, count: end - start)) == nil
        }
        return areWellFormed(base, from: start, last: last)
    }

    /// Checks all blocks up to the one at `last`.
    @inline(__always)
    private static func areWellFormed(_ base: UnsafePointer<UInt8>, from start: Int, last: Int) -> Bool {
        var wrong = Block()
        var index = start
        while index < last {
            wrong |= check(base + index)
            index &+= 16
        }
        return isClear(wrong | check(base + last)) || areLongWellFormed(base, from: start, last: last)
    }

    /// The same for text that may have characters of four bytes.
    @inline(never)
    private static func areLongWellFormed(_ base: UnsafePointer<UInt8>, from start: Int, last: Int) -> Bool {
        var wrong = Block()
        var index = start
        while index < last {
            wrong |= checkLong(base + index)
            index &+= 16
        }
        return isClear(wrong | checkLong(base + last))
    }

    /// Marks wrong bytes, and bytes that can be right only in a character of four bytes.
    @inline(__always)
    private static func check(_ bytes: UnsafePointer<UInt8>) -> Block {
        let (byte, first) = (load(bytes), load(bytes - 1))
        return misplaced(byte, first, load(bytes - 2), Block())
            | (first & (overlongOrSurrogate(byte, first) | sum(first, 0x10)))
    }

    /// Marks wrong bytes.
    @inline(__always)
    private static func checkLong(_ bytes: UnsafePointer<UInt8>) -> Block {
        let (byte, first, third) = (load(bytes), load(bytes - 1), load(bytes - 3))
        let four = byte & Block(repeating: 0x30)
        let overlong = ((first ^ Block(repeating: 0xF0)) | four) &- Block(repeating: 1)
        // F4 before 90 or more, and everything above F4, is beyond U+10FFFF.
        let isHigh = (sum(four, 0x70) & Block(repeating: 0x80)) &>> Block(repeating: 7)
        return misplaced(byte, first, load(bytes - 2), third & sum(third, 0x10))
            | (first & (overlongOrSurrogate(byte, first) | overlong | (sum(first, 0x0B) &+ isHigh)))
    }

    /// Marks continuation bytes where none may be, and other bytes where a continuation byte must be. It must be one if
    /// the byte before begins a character, if the second byte before begins one of three bytes or more, or if `more` is
    /// set.
    @inline(__always)
    private static func misplaced(_ byte: Block, _ first: Block, _ second: Block, _ more: Block) -> Block {
        let follows = (first & (first &+ first)) | (second & sum(second, 0x20)) | more
        return follows ^ (byte & ((byte &+ byte) ^ Block(repeating: 0xFF)))
    }

    /// Marks overlong forms of two and three bytes, and surrogates, where `first` has its highest bit. A subtraction
    /// that underflows sets that bit. (C0 and C1; E0 and bit 5 not set; ED and bit 5 set.)
    @inline(__always)
    private static func overlongOrSurrogate(_ byte: Block, _ first: Block) -> Block {
        let bit = Block(repeating: 0x20)
        let five = byte & bit
        return ((first ^ Block(repeating: 0xC0)) &- Block(repeating: 2))
            | (((first ^ Block(repeating: 0xE0)) | five) &- Block(repeating: 1))
            | (((first ^ Block(repeating: 0xED)) | (five ^ bit)) &- Block(repeating: 1))
    }

    /// The sum of `addend` and of `bytes` without their highest bit. That bit is set in the sum if a byte is large
    /// enough.
    @inline(__always)
    private static func sum(_ bytes: Block, _ addend: UInt8) -> Block {
        (bytes & Block(repeating: 0x7F)) &+ Block(repeating: addend)
    }

    @inline(__always)
    private static func isClear(_ marks: Block) -> Bool {
        // Sound, because both types are sixteen plain bytes.
        let words = unsafeBitCast(marks, to: SIMD2<UInt64>.self)
        return (words[0] | words[1]) & highBits == 0
    }

    @inline(__always)
    private static func load(_ bytes: UnsafePointer<UInt8>) -> Block {
        UnsafeRawPointer(bytes).loadUnaligned(as: Block.self)
    }
}
