/// The character classes of XML (XML 1.0, fifth edition, sections 2.2 and 2.3). The codec of messages and the streams of
/// XMPP both read with them.
package enum XMLSyntax {
    /// Whether a document may contain the character (production 2).
    package static func isAllowed(_ scalar: UInt32) -> Bool {
        switch scalar {
        case 0x09, 0x0A, 0x0D, 0x20...0xD7FF, 0xE000...0xFFFD, 0x10000...0x10FFFF: true
        default: false
        }
    }

    /// Whether a forbidden character begins at `index` of well-formed UTF-8: a control character, U+FFFE or U+FFFF.
    @inlinable @inline(__always)
    package static func isForbidden(_ text: UnsafeBufferPointer<UInt8>, at index: Int) -> Bool {
        let byte = text[index]
        if byte < 0x20 { return byte != 0x09 && byte != 0x0A && byte != 0x0D }
        return byte == 0xEF && index &+ 2 < text.count && text[index &+ 1] == 0xBF && text[index &+ 2] | 1 == 0xBF
    }

    /// Whether the byte is white space (production 3).
    @inlinable @inline(__always)
    package static func isWhiteSpace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x0A || byte == 0x09 || byte == 0x0D
    }

    /// Whether a name may contain the character, or begin with it (productions 4 and 4a).
    package static func isInName(_ scalar: UInt32, asFirst isFirst: Bool) -> Bool {
        switch scalar {
        case 0x61...0x7A, 0x41...0x5A, 0x5F, 0x3A: true
        case 0x2D, 0x2E, 0x30...0x39, 0xB7, 0x300...0x36F, 0x203F...0x2040: !isFirst
        case 0xC0...0xD6, 0xD8...0xF6, 0xF8...0x2FF, 0x370...0x37D, 0x37F...0x1FFF, 0x200C...0x200D, 0x2070...0x218F,
            0x2C00...0x2FEF, 0x3001...0xD7FF, 0xF900...0xFDCF, 0xFDF0...0xFFFD, 0x10000...0xEFFFF:
            true
        default: false
        }
    }

    /// The number of bytes of the name at the beginning of `text`, which is well-formed UTF-8; 0 if no name begins there.
    package static func lengthOfName(_ text: UnsafeBufferPointer<UInt8>) -> Int {
        var index = 0
        while index < text.count {
            let (scalar, count) = scalar(text, at: index)
            guard isInName(scalar, asFirst: index == 0) else { break }
            index += count
        }
        return index
    }

    /// The character at `index` of well-formed UTF-8, and its length. The length never exceeds the rest of the text.
    @inline(__always)
    private static func scalar(_ text: UnsafeBufferPointer<UInt8>, at index: Int) -> (value: UInt32, count: Int) {
        let first = UInt32(text[index])
        guard first >= 0x80 else { return (first, 1) }
        let count = min(first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2, text.count &- index)
        var value = first & (0x7F &>> UInt32(truncatingIfNeeded: count))
        for offset in 1..<max(count, 1) { value = value &<< 6 | UInt32(text[index &+ offset] & 0x3F) }
        return (value, count)
    }
}
