import Primitives

/// A string of `bytes`, or `nil` if they are not well-formed UTF-8.
///
/// They are validated once, here, and copied once. `String(validating:as:)` would do, but asks the runtime for generic
/// metadata at every call, which costs more than all the rest; the initialiser that repairs goes byte by byte.
@usableFromInline @inline(__always)
func string(utf8 bytes: UnsafeBufferPointer<UInt8>) -> String? {
    if let base = bytes.baseAddress, 1...8 ~= bytes.count {
        let word = JSONWord.loaded(base, count: bytes.count)
        if word & JSONWord.highBits == 0 { return string(ascii: word, count: bytes.count) }
    }
    let isASCII = isASCII(bytes)
    guard isASCII || UTF8Blocks.areWellFormed(bytes) else { return nil }
    return string(wellFormed: bytes, isASCII: isASCII)
}

/// A string of one to eight bytes of ASCII, the lowest `count` of `word`.
///
/// They are written as one word, since that is how the string is made of them: for one that was written in parts, the processor
/// would wait until all parts are in memory.
@inline(__always)
func string(ascii word: UInt64, count: Int) -> String {
    String(unsafeUninitializedCapacity: 15) { text in
        guard let target = text.baseAddress else { return 0 }
        UnsafeMutableRawPointer(target).storeBytes(of: word.littleEndian, as: UInt64.self)
        return count
    }
}

/// A string of `bytes`, which are well-formed UTF-8.
@inline(__always)
func string(wellFormed bytes: UnsafeBufferPointer<UInt8>, isASCII: Bool) -> String {
    if isASCII, bytes.count <= 15 {
        // Stands within the string itself.
        return String(unsafeUninitializedCapacity: 15) { text in
            guard let target = text.baseAddress, let source = bytes.baseAddress else { return 0 }
            copyBytes(source, count: bytes.count, to: target)
            return bytes.count
        }
    }
    if #available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *) {
        return String(copying: UTF8Span(unchecked: bytes.span, isKnownASCII: isASCII))
    }
    return String(decoding: bytes, as: UTF8.self)
}
