import Primitives

// Strings (RFC 8259, sections 7 and 8.2).
//
// A block of sixteen bytes is cast to two words in several places. Both types are plain bits of the same size.

extension JSONReader {
    /// The content of a string with its escapes.
    @usableFromInline
    struct Token {
        @usableFromInline var bytes: UnsafeBufferPointer<UInt8>
        @usableFromInline var isASCII: Bool
        @usableFromInline var hasEscapes = false
    }

    /// Reads a string. Its escapes are checked, its UTF-8 is not.
    @usableFromInline
    mutating func readToken() throws(CodecError) -> Token {
        try expect(UInt8(ascii: "\""))
        let start = position
        var seen = passPlain()
        var hasEscapes = false
        while true {
            guard position < end else { throw failure(.truncated) }
            if base[position] == UInt8(ascii: "\"") { break }
            guard base[position] == UInt8(ascii: "\\") else { throw failure(.controlCharacter) }
            hasEscapes = true
            try checkEscape()
            seen |= passPlain()
        }
        let bytes = UnsafeBufferPointer(start: base + start, count: position &- start)
        position &+= 1
        return Token(bytes: bytes, isASCII: seen & JSONWord.highBits == 0, hasEscapes: hasEscapes)
    }

    /// Moves to the next quote, backslash or control character, or to the end. Returns the bits that are set in any
    /// byte that it passes, combined into eight bytes.
    @inline(__always)
    private mutating func passPlain() -> UInt64 {
        var index = position
        var seen = SIMD2<UInt64>()
        while end &- index >= 16 {
            let block = UnsafeRawPointer(base + index).loadUnaligned(as: SIMD16<UInt8>.self)
            // Both types are plain bits of the same size.
            let words = unsafeBitCast(block, to: SIMD2<UInt64>.self)
            let (low, high) = JSONWord.specials(block)
            guard low | high != 0 else {
                seen |= words
                index &+= 16
                continue
            }
            // Only the bytes before the special one count.
            if low != 0 {
                position = index &+ low.trailingZeroBitCount / 8
                return seen[0] | seen[1] | JSONWord.passed(UInt64(littleEndian: words[0]), low)
            }
            position = index &+ 8 &+ high.trailingZeroBitCount / 8
            return seen[0] | seen[1] | words[0] | JSONWord.passed(UInt64(littleEndian: words[1]), high)
        }
        position = index
        return seen[0] | seen[1] | passLast()
    }

    /// The same for the end of the input, where fewer than sixteen bytes are left.
    @inline(never)
    private mutating func passLast() -> UInt64 {
        guard end >= 16, position < end else { return passTiny() }
        // The last sixteen bytes, of which those before `position` are cleared.
        let block = UnsafeRawPointer(base + (end &- 16)).loadUnaligned(as: SIMD16<UInt8>.self)
        let words = unsafeBitCast(block, to: SIMD2<UInt64>.self)
        let before = UInt64(truncatingIfNeeded: 16 &- (end &- position)) &* 8
        let low = before < 64 ? UInt64.max &<< before : 0
        let high = before < 64 ? UInt64.max : UInt64.max &<< before
        var marks = JSONWord.specials(block)
        marks = (marks.low & low, marks.high & high)
        let (first, second) = (UInt64(littleEndian: words[0]) & low, UInt64(littleEndian: words[1]) & high)
        if marks.low != 0 {
            position = end &- 16 &+ marks.low.trailingZeroBitCount / 8
            return JSONWord.passed(first, marks.low)
        }
        if marks.high != 0 {
            position = end &- 8 &+ marks.high.trailingZeroBitCount / 8
            return first | JSONWord.passed(second, marks.high)
        }
        position = end
        return first | second
    }

    /// The same for an input of fewer than sixteen bytes.
    private mutating func passTiny() -> UInt64 {
        var seen: UInt8 = 0
        while position < end, !JSONWord.isSpecial(base[position]) {
            seen |= base[position]
            position &+= 1
        }
        return UInt64(seen)
    }

    /// Reads a string of up to fifteen bytes of ASCII without escapes, as most strings are. Returns `nil` and does not
    /// move for any other string.
    @inline(__always)
    mutating func readShort() -> String? {
        let left = end &- position &- 1
        guard left > 0, base[position] == UInt8(ascii: "\"") else { return nil }
        let source = base + position + 1
        // The last strings of a message are short too, and fewer than sixteen bytes follow them.
        let block =
            left >= 16
            ? UnsafeRawPointer(source).loadUnaligned(as: SIMD16<UInt8>.self) : JSONWord.padded(source, count: left)
        let words = unsafeBitCast(block, to: SIMD2<UInt64>.self)
        let (first, second) = (UInt64(littleEndian: words[0]), UInt64(littleEndian: words[1]))
        let (low, high) = JSONWord.specials(block)
        guard low | high != 0 else { return nil }
        let isOneWord = low != 0
        let count = isOneWord ? low.trailingZeroBitCount / 8 : 8 &+ high.trailingZeroBitCount / 8
        let seen = isOneWord ? JSONWord.passed(first, low) : first | JSONWord.passed(second, high)
        guard seen & JSONWord.highBits == 0, base[position &+ 1 &+ count] == UInt8(ascii: "\"") else { return nil }
        defer { position &+= count &+ 2 }
        if isOneWord { return Codecs.string(ascii: first, count: count) }
        return Codecs.string(wellFormed: UnsafeBufferPointer(start: source, count: count), isASCII: true)
    }

    /// Reads an escape, or both escapes of a surrogate pair.
    private mutating func checkEscape() throws(CodecError) {
        guard end - position >= 2 else {
            position = end
            throw failure(.truncated)
        }
        switch base[position + 1] {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            position += 2
        case UInt8(ascii: "u"):
            let first = try checkUnit()
            guard first & 0xF800 == 0xD800 else { return }
            guard first < 0xDC00 else { throw failure(.loneSurrogate) }
            guard position < end else { throw failure(.truncated) }
            guard base[position] == UInt8(ascii: "\\") else { throw failure(.loneSurrogate) }
            guard end - position >= 2 else {
                position = end
                throw failure(.truncated)
            }
            guard base[position + 1] == UInt8(ascii: "u"), try checkUnit() & 0xFC00 == 0xDC00
            else { throw failure(.loneSurrogate) }
        default: throw failure(.invalidEscape)
        }
    }

    /// Reads `\uXXXX`.
    private mutating func checkUnit() throws(CodecError) -> UInt32 {
        var unit: UInt32 = 0
        for offset in 2..<6 {
            guard offset < end - position else {
                position = end
                throw failure(.truncated)
            }
            guard let digit = Self.hexValue(base[position + offset]) else { throw failure(.invalidEscape) }
            unit = unit << 4 | digit
        }
        position += 6
        return unit
    }

    private static func hexValue(_ byte: UInt8) -> UInt32? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(byte - UInt8(ascii: "0"))
        case UInt8(ascii: "a")...UInt8(ascii: "f"): UInt32(byte - UInt8(ascii: "a") + 10)
        case UInt8(ascii: "A")...UInt8(ascii: "F"): UInt32(byte - UInt8(ascii: "A") + 10)
        default: nil
        }
    }

    /// Checks the UTF-8 of the string that was read last, which ends before a quote.
    @usableFromInline
    mutating func checkUTF8(_ token: Token) throws(CodecError) {
        let count = token.bytes.count
        guard !token.isASCII, !UTF8Blocks.areWellFormed(base, from: position - 1 - count, to: position - 1),
            let index = firstInvalidUTF8(token.bytes)
        else { return }
        position -= count + 1 - index
        throw failure(.invalidUTF8)
    }

    /// Writes `bytes` without their escapes, which ``readToken()`` has checked. The result is never longer.
    static func unescape(_ bytes: UnsafeBufferPointer<UInt8>, into target: UnsafeMutablePointer<UInt8>) -> Int {
        var read = 0
        var count = 0
        func nextUnit() -> UInt32 {
            var unit: UInt32 = 0
            for offset in 2..<6 where read + offset < bytes.count {
                unit = unit << 4 | (hexValue(bytes[read + offset]) ?? 0)
            }
            read += 6
            return unit
        }
        while read < bytes.count {
            let byte = bytes[read]
            guard byte == UInt8(ascii: "\\"), read + 1 < bytes.count else {
                target[count] = byte
                read += 1
                count += 1
                continue
            }
            if bytes[read + 1] == UInt8(ascii: "u") {
                var scalar = nextUnit()
                if scalar & 0xFC00 == 0xD800 { scalar = 0x10000 + (scalar & 0x3FF) << 10 + (nextUnit() & 0x3FF) }
                for unit in UTF8.encode(Unicode.Scalar(scalar) ?? "\u{FFFD}") ?? .init() {
                    target[count] = unit
                    count += 1
                }
            } else {
                target[count] = plain(bytes[read + 1])
                read += 2
                count += 1
            }
        }
        return count
    }

    private static func plain(_ escape: UInt8) -> UInt8 {
        switch escape {
        case UInt8(ascii: "b"): 0x08
        case UInt8(ascii: "f"): 0x0C
        case UInt8(ascii: "n"): 0x0A
        case UInt8(ascii: "r"): 0x0D
        case UInt8(ascii: "t"): 0x09
        default: escape
        }
    }
}
