/// SipHash-2-4, a hash of 64 bits under a key of 128 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012).
///
/// Without the key its values cannot be distinguished from random ones, so they serve as authentication codes. It takes
/// its input in parts and allocates nothing.
package struct SipHash24: Sendable {
    private var v0: UInt64
    private var v1: UInt64
    private var v2: UInt64
    private var v3: UInt64
    private var tail: UInt64 = 0
    private var count: UInt64 = 0

    /// Creates an empty hash. `key` contains the two halves of the key's sixteen bytes, each read as a little-endian
    /// word.
    package init(key: (UInt64, UInt64)) {
        v0 = key.0 ^ 0x736f_6d65_7073_6575
        v1 = key.1 ^ 0x646f_7261_6e64_6f6d
        v2 = key.0 ^ 0x6c79_6765_6e65_7261
        v3 = key.1 ^ 0x7465_6462_7974_6573
    }

    /// Adds one byte to the hash.
    package mutating func combine(_ byte: UInt8) {
        tail |= UInt64(byte) << (8 * (count & 7))
        count &+= 1
        if count & 7 == 0 {
            compress(tail)
            tail = 0
        }
    }

    /// Adds the eight bytes of `word` to the hash, the lowest first.
    package mutating func combine(_ word: UInt64) {
        if count & 7 == 0 {
            compress(word)
            count &+= 8
            return
        }
        var rest = word
        for _ in 0..<8 {
            combine(UInt8(truncatingIfNeeded: rest))
            rest >>= 8
        }
    }

    /// Adds bytes to the hash.
    package mutating func combine(_ bytes: UnsafeRawBufferPointer) {
        var offset = 0
        if count & 7 == 0 {
            while bytes.count - offset >= 8 {
                compress(UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)))
                offset += 8
            }
            count &+= UInt64(offset)
        }
        for byte in bytes[offset...] { combine(byte) }
    }

    /// Returns the hash of the added bytes.
    package consuming func finalize() -> UInt64 {
        compress(tail | count << 56)
        v2 ^= 0xff
        for _ in 0..<4 { round() }
        return v0 ^ v1 ^ v2 ^ v3
    }

    private mutating func compress(_ word: UInt64) {
        v3 ^= word
        round()
        round()
        v0 ^= word
    }

    private mutating func round() {
        v0 &+= v1
        v2 &+= v3
        v1 = rotate(v1, 13) ^ v0
        v3 = rotate(v3, 16) ^ v2
        v0 = rotate(v0, 32)
        v2 &+= v1
        v0 &+= v3
        v1 = rotate(v1, 17) ^ v2
        v3 = rotate(v3, 21) ^ v0
        v2 = rotate(v2, 32)
    }

    private func rotate(_ value: UInt64, _ bits: UInt64) -> UInt64 {
        value &<< bits | value &>> (64 &- bits)
    }
}
