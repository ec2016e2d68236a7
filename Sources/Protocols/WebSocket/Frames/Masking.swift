/// The masking of payloads that clients send (RFC 6455, section 5.3): byte i is XORed with byte i mod 4 of the key.
///
/// A key is stored as the integer whose lowest byte masks the first byte, on machines of any byte order.
enum Masking {
    /// Copies `source` to `target` and masks or unmasks it. `target` must have room for as many bytes and must not
    /// overlap.
    @inline(__always)
    static func copy(_ source: UnsafeRawBufferPointer, to target: UnsafeMutableRawPointer, key: UInt32) {
        guard let base = source.baseAddress else { return }
        apply(from: base, to: target, count: source.count, key: key)
    }

    /// Masks or unmasks `bytes` in place.
    @inline(__always)
    static func apply(to bytes: UnsafeMutableRawBufferPointer, key: UInt32) {
        guard let base = bytes.baseAddress else { return }
        apply(from: UnsafeRawPointer(base), to: base, count: bytes.count, key: key)
    }

    /// Returns the key for the bytes after the first `count` bytes.
    static func advance(_ key: UInt32, by count: Int) -> UInt32 {
        let bits = UInt32(truncatingIfNeeded: count & 3) * 8
        return bits == 0 ? key : key >> bits | key << (32 - bits)
    }

    private static func apply(
        from source: UnsafeRawPointer,
        to target: UnsafeMutableRawPointer,
        count: Int,
        key: UInt32
    ) {
        let word = (UInt64(key) << 32 | UInt64(key)).littleEndian
        let wide = SIMD4<UInt64>(repeating: word)
        var offset = 0
        while count - offset >= 32 {
            let block = source.loadUnaligned(fromByteOffset: offset, as: SIMD4<UInt64>.self)
            target.storeBytes(of: block ^ wide, toByteOffset: offset, as: SIMD4<UInt64>.self)
            offset += 32
        }
        while count - offset >= 8 {
            let block = source.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
            target.storeBytes(of: block ^ word, toByteOffset: offset, as: UInt64.self)
            offset += 8
        }
        var rest = key
        while offset < count {
            let byte = source.load(fromByteOffset: offset, as: UInt8.self) ^ UInt8(truncatingIfNeeded: rest)
            target.storeBytes(of: byte, toByteOffset: offset, as: UInt8.self)
            rest = rest >> 8 | rest << 24
            offset += 1
        }
    }
}
