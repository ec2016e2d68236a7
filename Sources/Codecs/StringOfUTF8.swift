/// A string of `bytes`, which are well-formed UTF-8.
///
/// They are neither checked nor repaired again, where the system's library can be told so.
@inline(__always)
func string(wellFormed bytes: UnsafeBufferPointer<UInt8>, isASCII: Bool) -> String {
    guard let source = bytes.baseAddress else { return "" }
    if isASCII, bytes.count <= 15 { return string(shortASCII: source, count: bytes.count) }
    if #available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *) {
        return String(copying: UTF8Span(unchecked: bytes.span, isKnownASCII: isASCII))
    }
    return String(decoding: bytes, as: UTF8.self)
}

/// A string of up to fifteen bytes of ASCII. It fits into the two words of a string, which are checked for ASCII at once and
/// for nothing else; the other initialisers go through them byte by byte.
@inline(__always)
private func string(shortASCII source: UnsafePointer<UInt8>, count: Int) -> String {
    guard count > 0 else { return "" }
    return String(unsafeUninitializedCapacity: count) { target in
        guard let target = target.baseAddress else { return 0 }
        func copy<W: FixedWidthInteger & BitwiseCopyable>(_ offset: Int, _ type: W.Type) {
            let word = UnsafeRawPointer(source).loadUnaligned(fromByteOffset: offset, as: W.self)
            UnsafeMutableRawPointer(target).storeBytes(of: word, toByteOffset: offset, as: W.self)
        }
        // The first and the last word overlap.
        if count >= 8 {
            copy(0, UInt64.self)
            copy(count &- 8, UInt64.self)
        } else if count >= 4 {
            copy(0, UInt32.self)
            copy(count &- 4, UInt32.self)
        } else {
            for index in 0..<count { target[index] = source[index] }
        }
        return count
    }
}
