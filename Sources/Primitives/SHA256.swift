/// SHA-256 (FIPS 180-4, section 6.2) of bytes that come in pieces. It is not for secrets.
package struct SHA256: Sendable {
    /// The fractional parts of the cube roots of the first 64 primes (section 4.2.2), in words of 32 bits.
    private static let constants: [UInt32] = [
        0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
        0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
        0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
        0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
        0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
        0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
        0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
        0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
    ]
    private static let blockLength = 64

    /// The hash of the blocks so far. It begins with the fractional parts of square roots (section 5.3.3).
    private var state: [UInt32] = [
        0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19,
    ]
    /// The bytes that do not fill a block yet.
    private var tail: [UInt8] = []
    /// The number of all bytes.
    private var count: UInt64 = 0

    /// Makes the hash of no bytes.
    package init() {}

    /// Returns the 32 bytes of the digest of `message`.
    package static func digest(_ message: [UInt8]) -> [UInt8] {
        var hash = SHA256()
        hash.add(message)
        return hash.digest
    }

    /// Adds bytes at the end.
    package mutating func add(_ bytes: [UInt8]) {
        count &+= UInt64(bytes.count)
        var start = 0
        if !tail.isEmpty {
            start = min(Self.blockLength - tail.count, bytes.count)
            tail += bytes[..<start]
            guard tail.count == Self.blockLength else { return }
            addBlocks(tail, from: 0)
            tail.removeAll(keepingCapacity: true)
        }
        let end = addBlocks(bytes, from: start)
        tail += bytes[end...]
    }

    /// The 32 bytes of the digest of all bytes so far.
    package var digest: [UInt8] {
        var last = self
        // The padding is a one bit, zeros, and the length in bits (section 5.1.1).
        var padding: [UInt8] = [0x80]
        padding += [UInt8](repeating: 0, count: (119 - Int(count % 64)) % 64)
        withUnsafeBytes(of: (count &* 8).bigEndian) { padding += $0 }
        last.add(padding)
        return last.state.flatMap { word in withUnsafeBytes(of: word.bigEndian) { Array($0) } }
    }

    /// Adds whole blocks, and returns the position after them.
    @discardableResult
    private mutating func addBlocks(_ bytes: [UInt8], from start: Int) -> Int {
        var position = start
        withUnsafeTemporaryAllocation(of: UInt32.self, capacity: 64) { words in
            bytes.withUnsafeBytes { bytes in
                Self.constants.withUnsafeBufferPointer { constants in
                    while bytes.count - position >= Self.blockLength {
                        for index in 0..<16 {
                            let word = bytes.loadUnaligned(fromByteOffset: position + 4 * index, as: UInt32.self)
                            words[index] = UInt32(bigEndian: word)
                        }
                        mix(words, constants)
                        position += Self.blockLength
                    }
                }
            }
        }
        return position
    }

    private mutating func mix(
        _ words: UnsafeMutableBufferPointer<UInt32>,
        _ constants: UnsafeBufferPointer<UInt32>
    ) {
        for index in 16..<64 {
            let (near, far) = (words[index - 15], words[index - 2])
            let first = Self.rotate(near, 7) ^ Self.rotate(near, 18) ^ near >> 3
            let second = Self.rotate(far, 17) ^ Self.rotate(far, 19) ^ far >> 10
            words[index] = words[index - 16] &+ first &+ words[index - 7] &+ second
        }
        var (a, b, c, d) = (state[0], state[1], state[2], state[3])
        var (e, f, g, h) = (state[4], state[5], state[6], state[7])
        for index in 0..<64 {
            let chosen = e & f ^ ~e & g
            let turned = Self.rotate(e, 6) ^ Self.rotate(e, 11) ^ Self.rotate(e, 25)
            let first = h &+ turned &+ chosen &+ constants[index] &+ words[index]
            let majority = a & b ^ a & c ^ b & c
            let second = (Self.rotate(a, 2) ^ Self.rotate(a, 13) ^ Self.rotate(a, 22)) &+ majority
            (h, g, f, e, d, c, b, a) = (g, f, e, d &+ first, c, b, a, first &+ second)
        }
        for (index, word) in [a, b, c, d, e, f, g, h].enumerated() { state[index] &+= word }
    }

    private static func rotate(_ word: UInt32, _ count: UInt32) -> UInt32 { word >> count | word << (32 - count) }
}
