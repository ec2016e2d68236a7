/// Checks text that arrives in pieces for being UTF-8 (RFC 3629, section 4; the Unicode Standard, table 3-7), and says no at
/// the first byte that no continuation could make right (RFC 6455, section 8.1).
///
/// Between pieces it remembers how many continuation bytes are due and what range the next one must lie in.
struct UTF8Validator: Sendable, Hashable {
    private var due: UInt8 = 0
    private var lower: UInt8 = 0x80
    private var upper: UInt8 = 0xbf

    /// Whether the text so far does not end within a code point.
    var isComplete: Bool { due == 0 }

    /// Whether all of `bytes` is well-formed and complete.
    static func isValid(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var validator = UTF8Validator()
        return validator.accept(bytes) && validator.isComplete
    }

    /// Reads the next piece; false if the text cannot be UTF-8 whatever follows. Not to be called again after that.
    mutating func accept(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard let base = bytes.baseAddress else { return true }
        let count = bytes.count
        var offset = 0
        while due > 0, offset < count {
            guard step(base.load(fromByteOffset: offset, as: UInt8.self)) else { return false }
            offset += 1
        }
        while offset < count {
            // Blocks of ASCII are passed over whole; others are read code point by code point.
            while count - offset >= 32, Self.isASCII(base + offset), Self.isASCII(base + offset + 16) { offset += 32 }
            if count - offset >= 16, Self.isASCII(base + offset) { offset += 16 }
            let end = min(offset + 16, count)
            while offset < end {
                let length = Self.codePoint(base + offset, available: count - offset)
                guard length > 0 else {
                    // Broken, or cut off by the end of the piece: the careful way tells which, within four bytes.
                    return acceptByByte(UnsafeRawBufferPointer(start: base + offset, count: count - offset))
                }
                offset += length
            }
        }
        return true
    }

    private mutating func acceptByByte(_ bytes: UnsafeRawBufferPointer) -> Bool {
        for byte in bytes {
            guard step(byte) else { return false }
        }
        return true
    }

    /// Takes one byte.
    private mutating func step(_ byte: UInt8) -> Bool {
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

    private static func isASCII(_ bytes: UnsafeRawPointer) -> Bool {
        let pair = bytes.loadUnaligned(as: UInt64.self) | bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
        return pair & 0x8080_8080_8080_8080 == 0
    }

    /// The length of the well-formed code point at `bytes`; 0 if it is broken or cut off.
    @inline(__always)
    private static func codePoint(_ bytes: UnsafeRawPointer, available: Int) -> Int {
        let lead = bytes.load(as: UInt8.self)
        if lead < 0x80 { return 1 }
        guard available > 1, lead >= 0xc2 else { return 0 }
        let second = bytes.load(fromByteOffset: 1, as: UInt8.self)
        if lead < 0xe0 { return isContinuation(second) ? 2 : 0 }
        guard available > 2, isContinuation(bytes.load(fromByteOffset: 2, as: UInt8.self)) else { return 0 }
        if lead < 0xf0 {
            let (lower, upper): (UInt8, UInt8) = (lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf)
            return second >= lower && second <= upper ? 3 : 0
        }
        guard available > 3, isContinuation(bytes.load(fromByteOffset: 3, as: UInt8.self)), lead <= 0xf4 else {
            return 0
        }
        let (lower, upper): (UInt8, UInt8) = (lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf)
        return second >= lower && second <= upper ? 4 : 0
    }

    private static func isContinuation(_ byte: UInt8) -> Bool { byte & 0xc0 == 0x80 }
}
