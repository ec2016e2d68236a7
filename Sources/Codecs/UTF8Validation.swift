/// Where the first byte stands that is not part of well-formed UTF-8 (Unicode, table 3-7; RFC 3629), or `nil`.
///
/// For text that is passed over or read in place; text that becomes a `String` is checked by its initialiser.
func firstInvalidUTF8(_ bytes: UnsafeBufferPointer<UInt8>) -> Int? {
    var index = 0
    while index < bytes.count {
        let lead = bytes[index]
        guard lead >= 0x80 else {
            index += 1
            continue
        }
        // The second byte's range is narrower where it would be overlong, a surrogate, or beyond U+10FFFF.
        let (length, second): (Int, ClosedRange<UInt8>)
        switch lead {
        case 0xC2...0xDF: (length, second) = (2, 0x80...0xBF)
        case 0xE0: (length, second) = (3, 0xA0...0xBF)
        case 0xED: (length, second) = (3, 0x80...0x9F)
        case 0xE1...0xEF: (length, second) = (3, 0x80...0xBF)
        case 0xF0: (length, second) = (4, 0x90...0xBF)
        case 0xF1...0xF3: (length, second) = (4, 0x80...0xBF)
        case 0xF4: (length, second) = (4, 0x80...0x8F)
        default: return index
        }
        guard bytes.count - index >= length, second.contains(bytes[index + 1]) else { return index }
        for offset in 2..<max(length, 2) where bytes[index + offset] & 0xC0 != 0x80 { return index }
        index += length
    }
    return nil
}

/// A string of `bytes`, or `nil` if they are not well-formed UTF-8.
///
/// `String(validating:as:)` would do, but asks the runtime for generic metadata at every call, which costs more than all
/// the rest. The initialiser that repairs is concrete; what it repaired does not come out as it went in.
@usableFromInline
func string(utf8 bytes: UnsafeBufferPointer<UInt8>) -> String? {
    let text = String(decoding: bytes, as: UTF8.self)
    let isSame = text.utf8.withContiguousStorageIfAvailable { decoded in
        guard decoded.count == bytes.count else { return false }
        let left = UnsafeRawBufferPointer(decoded)
        let right = UnsafeRawBufferPointer(bytes)
        var index = 0
        while bytes.count - index >= 8 {
            guard
                left.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                    == right.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            else { return false }
            index += 8
        }
        while index < bytes.count {
            guard left[index] == right[index] else { return false }
            index += 1
        }
        return true
    }
    return isSame == true ? text : nil
}
