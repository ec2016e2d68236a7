/// The rules of well-formed UTF-8 (Unicode, table 3-7; RFC 3629), for sixteen bytes at a time and without a branch.
///
/// Each byte is held against the three before it, which are loaded as they stand in memory; what is said of it is said by its
/// highest bit. So texts of all scripts cost the same, and blocks may overlap.
enum UTF8Blocks {
    private typealias Block = SIMD16<UInt8>

    /// Whether `base[start..<end]` is well-formed, provided that all before `start` is, and that there ends no character
    /// beyond `end`: what stands at `end` is ASCII and can be read.
    static func areWellFormed(_ base: UnsafePointer<UInt8>, from start: Int, to end: Int) -> Bool {
        // The byte at `end` is looked at, because a character that lacks its last bytes is found at what follows.
        let last = end - 15
        guard start >= 3, last >= 3 else {
            return firstInvalidUTF8(UnsafeBufferPointer(start: base + start, count: end - start)) == nil
        }
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
        let six = byte &+ byte
        return (follows(first, load(bytes - 2)) ^ (byte & inverted(six))) | secondIsWrong(first, six &+ six)
            | above(0xEF, first)
    }

    @inline(__always)
    private static func checkLong(_ bytes: UnsafePointer<UInt8>) -> Block {
        let (byte, first) = (load(bytes), load(bytes - 1))
        let six = byte &+ byte
        let five = six &+ six
        let rest = five | (five &+ five)
        let follows = follows(first, load(bytes - 2)) | above(0xEF, load(bytes - 3))
        // F0 leaves overlong forms to what follows, F4 what is beyond U+10FFFF, and those above F4 all.
        return (follows ^ (byte & inverted(six))) | secondIsWrong(first, five) | above(0xF4, first)
            | (isOne(of: 1, from: 0xF0, first) & inverted(rest)) | (isOne(of: 1, from: 0xF4, first) & rest)
    }

    /// Whether a byte belongs to a character that the first before it began, or the second before it with three bytes or more.
    @inline(__always)
    private static func follows(_ first: Block, _ second: Block) -> Block {
        let six = second &+ second
        return (first & (first &+ first)) | (second & six & (six &+ six))
    }

    /// C0 and C1 are overlong with whatever follows; E0 if bit 5 of what follows is not set; ED is a surrogate if it is.
    @inline(__always)
    private static func secondIsWrong(_ first: Block, _ five: Block) -> Block {
        isOne(of: 2, from: 0xC0, first) | (isOne(of: 1, from: 0xE0, first) & inverted(five))
            | (isOne(of: 1, from: 0xED, first) & five)
    }

    /// Marks the bytes from `least` on, `count` of them. (`least` is even unless `count` is one.)
    @inline(__always)
    private static func isOne(of count: UInt8, from least: UInt8, _ bytes: Block) -> Block {
        let distance = bytes ^ Block(repeating: least)
        return (distance &- Block(repeating: count)) & inverted(distance)
    }

    /// Marks the bytes above `limit`, which is not less than 80: without its highest bit the sum has one again.
    @inline(__always)
    private static func above(_ limit: UInt8, _ bytes: Block) -> Block {
        bytes & ((bytes & Block(repeating: 0x7F)) &+ Block(repeating: 0xFF &- limit))
    }

    @inline(__always)
    private static func inverted(_ bytes: Block) -> Block { bytes ^ Block(repeating: 0xFF) }

    @inline(__always)
    private static func isClear(_ marks: Block) -> Bool {
        let words = unsafeBitCast(marks, to: SIMD2<UInt64>.self)
        return (words[0] | words[1]) & JSONWord.highBits == 0
    }

    @inline(__always)
    private static func load(_ bytes: UnsafePointer<UInt8>) -> Block {
        UnsafeRawPointer(bytes).loadUnaligned(as: Block.self)
    }
}
