import Primitives

/// A string of `bytes`, or `nil` if they are not well-formed UTF-8.
///
/// The bytes are validated once and copied once. `String(validating:as:)` would do the same, but it requests generic
/// metadata from the runtime at each call, which takes longer than everything else. The initialiser that repairs its
/// input works byte by byte.
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

/// A string of one to eight bytes of ASCII, the lowest `count` bytes of `word`.
///
/// They are written in one store, because the string is then made from one load. After several stores, that load would
/// wait until all of them are in memory.
@inline(__always)
func string(ascii word: UInt64, count: Int) -> String {
    String(unsafeUninitializedCapacity: 15) { text in
        guard let target = text.baseAddress else { return 0 }
        UnsafeMutableRawPointer(target).storeBytes(of: word.littleEndian, as: UInt64.self)
        return count
    }
}

/// A string of `bytes`, which the caller has checked to be well-formed UTF-8.
@inline(__always)
func string(wellFormed bytes: UnsafeBufferPointer<UInt8>, isASCII: Bool) -> String {
    if isASCII, bytes.count <= 15 {
        // Such a string is stored inline.
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
