// Strings (RFC 8259, sections 7 and 8.2).

extension JSONReader {
    /// What stands between two quotes, escapes and all.
    @usableFromInline
    struct Token {
        @usableFromInline var bytes: UnsafeBufferPointer<UInt8>
        @usableFromInline var isASCII: Bool
        @usableFromInline var hasEscapes = false
    }

    /// Passes over a string. Its escapes are checked here, its UTF-8 is not.
    @usableFromInline
    mutating func readToken() throws(CodecError) -> Token {
        try expect(UInt8(ascii: "\""))
        let start = position
        var seen: UInt64 = 0
        var hasEscapes = false
        while true {
            var byte: UInt8
            if end - position >= 8 {
                let word = UInt64(littleEndian: UnsafeRawPointer(base + position).loadUnaligned(as: UInt64.self))
                let specials = JSONWord.specials(word)
                guard specials != 0 else {
                    seen |= word
                    position += 8
                    continue
                }
                let plain = specials.trailingZeroBitCount & ~7
                seen |= word & ((1 &<< UInt64(plain)) &- 1)
                position += plain / 8
                byte = base[position]
            } else {
                guard position < end else { throw failure(.truncated) }
                byte = base[position]
                guard JSONWord.isSpecial(byte) else {
                    seen |= UInt64(byte)
                    position += 1
                    continue
                }
            }
            if byte == UInt8(ascii: "\"") { break }
            guard byte == UInt8(ascii: "\\") else { throw failure(.controlCharacter) }
            hasEscapes = true
            try checkEscape()
        }
        let bytes = UnsafeBufferPointer(start: base + start, count: position - start)
        position += 1
        return Token(bytes: bytes, isASCII: seen & JSONWord.highBits == 0, hasEscapes: hasEscapes)
    }

    /// Passes over an escape, and over both halves of a surrogate pair.
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

    /// Passes over `\uXXXX`.
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

    @usableFromInline
    mutating func checkUTF8(_ token: Token) throws(CodecError) {
        guard !token.isASCII, let index = firstInvalidUTF8(token.bytes) else { return }
        position -= token.bytes.count + 1 - index
        throw failure(.invalidUTF8)
    }

    /// Writes `bytes`, which ``readToken()`` has checked, without their escapes. The result is never longer.
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
