/// The index of the first byte that is not part of well-formed UTF-8 (Unicode, table 3-7; RFC 3629), or `nil`.
///
/// The characters of nearly all scripts are checked four bytes at a time. The rest and the end are checked byte by
/// byte.
package func firstInvalidUTF8(_ bytes: UnsafeBufferPointer<UInt8>) -> Int? {
    let raw = UnsafeRawBufferPointer(bytes)
    let lastWord = bytes.count &- 4
    var index = 0
    while index <= lastWord {
        let word = UInt32(littleEndian: raw.loadUnaligned(fromByteOffset: index, as: UInt32.self))
        if word & 0x00C0_C0F0 == 0x0080_80E0 {
            // Three bytes. These bits of the first two are 0 in an overlong form, and 200D in a surrogate.
            let range = word & 0x200F
            guard range != 0, range != 0x200D else { return index }
            index &+= 3
        } else if word & 0x80 == 0 {
            index &+= (word & 0x8080_8080).trailingZeroBitCount &>> 3
        } else if word & 0xC0E0_C0E0 == 0x80C0_80C0, word & 0x1E != 0, word & 0x001E_0000 != 0 {
            // Two characters of two bytes each, not overlong.
            index &+= 4
        } else {
            let length = lengthOfSequence(bytes, at: index)
            guard length > 0 else { return index }
            index &+= length
        }
    }
    while index < bytes.count {
        let length = bytes[index] < 0x80 ? 1 : lengthOfSequence(bytes, at: index)
        guard length > 0 else { return index }
        index &+= length
    }
    return nil
}

/// The length of the sequence at `index`, which does not begin with ASCII; 0 if it is not well-formed.
func lengthOfSequence(_ bytes: UnsafeBufferPointer<UInt8>, at index: Int) -> Int {
    // The range of the second byte is narrower where others would be overlong, a surrogate, or beyond U+10FFFF.
    let (length, second): (Int, ClosedRange<UInt8>)
    switch bytes[index] {
    case 0xC2...0xDF: (length, second) = (2, 0x80...0xBF)
    case 0xE0: (length, second) = (3, 0xA0...0xBF)
    case 0xED: (length, second) = (3, 0x80...0x9F)
    case 0xE1...0xEF: (length, second) = (3, 0x80...0xBF)
    case 0xF0: (length, second) = (4, 0x90...0xBF)
    case 0xF1...0xF3: (length, second) = (4, 0x80...0xBF)
    case 0xF4: (length, second) = (4, 0x80...0x8F)
    default: return 0
    }
    guard bytes.count &- index >= length, second.contains(bytes[index &+ 1]) else { return 0 }
    for offset in 2..<length where bytes[index &+ offset] & 0xC0 != 0x80 { return 0 }
    return length
}

/// Whether all of `bytes` are ASCII.
@inlinable @inline(__always)
package func isASCII(_ bytes: UnsafeBufferPointer<UInt8>) -> Bool {
    let raw = UnsafeRawBufferPointer(bytes)
    guard bytes.count >= 8 else { return bytes.reduce(0, |) < 0x80 }
    // The last word overlaps the one before.
    guard bytes.count >= 16 else {
        let first = raw.loadUnaligned(as: UInt64.self)
        let last = raw.loadUnaligned(fromByteOffset: bytes.count &- 8, as: UInt64.self)
        return (first | last) & highBits == 0
    }
    var index = bytes.count &- 16
    while true {
        let words = raw.loadUnaligned(fromByteOffset: index, as: SIMD2<UInt64>.self)
        guard (words[0] | words[1]) & highBits == 0 else { return false }
        guard index > 0 else { return true }
        index = max(index &- 16, 0)
    }
}

/// The highest bit of each byte of a word: not set in ASCII.
@inlinable var highBits: UInt64 { 0x8080_8080_8080_8080 }
