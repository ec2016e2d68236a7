/// Checks text that arrives in pieces for well-formed UTF-8 (RFC 3629, section 4; the Unicode Standard, table 3-7). It
/// refuses the first piece after which the text cannot be well-formed any more (RFC 6455, section 8.1).
package struct UTF8Validator: Sendable, Hashable {
    /// The number of continuation bytes that the last character lacks, and the range of the next one.
    private var due: UInt8 = 0
    private var lower: UInt8 = 0x80
    private var upper: UInt8 = 0xbf

    package init() {}

    /// Whether the text so far does not end within a character.
    package var isComplete: Bool { due == 0 }

    /// Whether `bytes` are well-formed and complete.
    package static func isValid(_ bytes: UnsafeRawBufferPointer) -> Bool {
        isWellFormed(bytes.assumingMemoryBound(to: UInt8.self))
    }

    /// Checks the next piece. Returns `false` if the text cannot be UTF-8, whatever follows. It must not be called
    /// again after that.
    package mutating func accept(_ piece: UnsafeRawBufferPointer) -> Bool {
        let bytes = piece.assumingMemoryBound(to: UInt8.self)
        var start = 0
        while due > 0, start < bytes.count {
            guard accept(bytes[start]) else { return false }
            start += 1
        }
        // A character that continues in the next piece is checked byte by byte.
        let end = bytes.count - Self.lengthCutOff(bytes, from: start)
        guard Self.isWellFormed(UnsafeBufferPointer(rebasing: bytes[start..<end])) else { return false }
        return bytes[end...].allSatisfy { accept($0) }
    }

    private mutating func accept(_ byte: UInt8) -> Bool {
        if due > 0 {
            guard byte >= lower, byte <= upper else { return false }
            (due, lower, upper) = (due - 1, 0x80, 0xbf)
            return true
        }
        switch byte {
        case 0x00...0x7f: break
        case 0xc2...0xdf: due = 1
        case 0xe0: (due, lower) = (2, 0xa0)  // no overlong forms
        case 0xed: (due, upper) = (2, 0x9f)  // no surrogates
        case 0xe1...0xef: due = 2
        case 0xf0: (due, lower) = (3, 0x90)  // no overlong forms
        case 0xf1...0xf3: due = 3
        case 0xf4: (due, upper) = (3, 0x8f)  // nothing above U+10FFFF
        default: return false
        }
        return true
    }

    private static func isWellFormed(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        isASCII(bytes) || UTF8Blocks.areWellFormed(bytes)
    }

    /// The number of bytes at the end that belong to an incomplete character.
    private static func lengthCutOff(_ bytes: UnsafeBufferPointer<UInt8>, from start: Int) -> Int {
        for length in 1...3 where length <= bytes.count - start {
            let byte = bytes[bytes.count - length]
            if byte & 0xc0 == 0x80 { continue }
            let needed = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1
            return needed > length ? length : 0
        }
        return 0
    }
}
