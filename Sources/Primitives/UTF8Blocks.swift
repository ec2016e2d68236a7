/// The rules of well-formed UTF-8 (Unicode, table 3-7; RFC 3629), for sixteen bytes at a time and without a branch.
///
/// Each byte is held against the three before it, which are loaded as they stand in memory; what is said of it is said by its
/// highest bit. So texts of all scripts cost the same, and blocks may overlap.
package enum UTF8Blocks {
    private typealias Block = SIMD16<UInt8>

    /// Whether `text` is well-formed, whatever stands around it.
    package static func areWellFormed(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        let last = text.count &- 16
        guard last >= 3, let base = text.baseAddress else { return firstInvalidUTF8(text) == nil }
        // Whole characters, before which nothing can be missing, until there are three bytes to look back at.
        var start = 0
        while start < 3 {
            let length = base[start] < 0x80 ? 1 : lengthOfSequence(text, at: start)
            guard length > 0 else { return false }
            start &+= length
        }
        // No character may lack its last bytes at the end, where nothing follows.
        guard base[last &+ 15] < 0xC0, base[last &+ 14] < 0xE0, base[last &+ 13] < 0xF0 else { return false }
        return areWellFormed(base, from: start, last: last)
    }

    /// Whether `base[start..<end]` is well-formed, provided that no character ends beyond `end`: what stands at `end`
    /// is ASCII and can be read.
    package static func areWellFormed(_ base: UnsafePointer<UInt8>, from start: Int, to end: Int) -> Bool {
        // The byte at `end` is looked at, because a character that lacks its last bytes is found at what follows.
        let last = end - 15
        // Where a character may reach in from before `start`, the blocks could not tell.
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

    /// Marks what is wrong, and what may be right only in a character of four bytes.
    @inline(__always)
    private static func check(_ bytes: UnsafePointer<UInt8>) -> Block {
        let (byte, first) = (load(bytes), load(bytes - 1))
        return misplaced(byte, first, load(bytes - 2), Block())
            | (first & (overlongOrSurrogate(byte, first) | sum(first, 0x10)))
    }

    /// Marks what is wrong.
    @inline(__always)
    private static func checkLong(_ bytes: UnsafePointer<UInt8>) -> Block {
        let (byte, first, third) = (load(bytes), load(bytes - 1), load(bytes - 3))
        let four = byte & Block(repeating: 0x30)
        let overlong = ((first ^ Block(repeating: 0xF0)) | four) &- Block(repeating: 1)
        // F4 and what is not less than 90, or more than F4, is beyond U+10FFFF.
        let isHigh = (sum(four, 0x70) & Block(repeating: 0x80)) &>> Block(repeating: 7)
        return misplaced(byte, first, load(bytes - 2), third & sum(third, 0x10))
            | (first & (overlongOrSurrogate(byte, first) | overlong | (sum(first, 0x0B) &+ isHigh)))
    }

    /// Marks the bytes that go on with nothing, and those that do not where they have to, because the first before them
    /// began a character, the second one of three bytes or more, or `more` says so.
    @inline(__always)
    private static func misplaced(_ byte: Block, _ first: Block, _ second: Block, _ more: Block) -> Block {
        let follows = (first & (first &+ first)) | (second & sum(second, 0x20)) | more
        return follows ^ (byte & ((byte &+ byte) ^ Block(repeating: 0xFF)))
    }

    /// Marks overlong forms of two and three bytes, and surrogates, where `first` has its highest bit: a difference that is
    /// too small borrows one. (C0 and C1; E0 and bit 5 not set; ED and bit 5 set.)
    @inline(__always)
    private static func overlongOrSurrogate(_ byte: Block, _ first: Block) -> Block {
        let bit = Block(repeating: 0x20)
        let five = byte & bit
        return ((first ^ Block(repeating: 0xC0)) &- Block(repeating: 2))
            | (((first ^ Block(repeating: 0xE0)) | five) &- Block(repeating: 1))
            | (((first ^ Block(repeating: 0xED)) | (five ^ bit)) &- Block(repeating: 1))
    }

    /// The sum without the highest bit of `bytes`: it has one again if they are great enough.
    @inline(__always)
    private static func sum(_ bytes: Block, _ addend: UInt8) -> Block {
        (bytes & Block(repeating: 0x7F)) &+ Block(repeating: addend)
    }

    @inline(__always)
    private static func isClear(_ marks: Block) -> Bool {
        // The same sixteen bytes: both types are plain bits of one size.
        let words = unsafeBitCast(marks, to: SIMD2<UInt64>.self)
        return (words[0] | words[1]) & highBits == 0
    }

    @inline(__always)
    private static func load(_ bytes: UnsafePointer<UInt8>) -> Block {
        UnsafeRawPointer(bytes).loadUnaligned(as: Block.self)
    }
}
