/// SHA-1 (FIPS 180-4, section 6.1). WebSocket's handshake asks for it as a checksum that proves understanding
/// (RFC 6455, section 1.3), not for security; nothing else may use it.
enum SHA1 {
    /// The 20 bytes of the digest of `message`.
    static func digest(_ message: [UInt8]) -> [UInt8] {
        var state: (UInt32, UInt32, UInt32, UInt32, UInt32) =
            (0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0)
        let padded = pad(message)
        var schedule = [UInt32](repeating: 0, count: 80)
        for start in stride(from: 0, to: padded.count, by: 64) {
            for word in 0..<16 {
                schedule[word] = padded[(start + word * 4)..<(start + word * 4 + 4)].reduce(0) { $0 << 8 | UInt32($1) }
            }
            for word in 16..<80 {
                let mixed = schedule[word - 3] ^ schedule[word - 8] ^ schedule[word - 14] ^ schedule[word - 16]
                schedule[word] = rotate(mixed, 1)
            }
            compress(schedule, into: &state)
        }
        return [state.0, state.1, state.2, state.3, state.4].flatMap { word in
            [UInt8(truncatingIfNeeded: word >> 24), UInt8(truncatingIfNeeded: word >> 16)]
                + [UInt8(truncatingIfNeeded: word >> 8), UInt8(truncatingIfNeeded: word)]
        }
    }

    /// The message, a one bit, zeros, and the length in bits, to a multiple of 64 bytes (section 5.1.1).
    private static func pad(_ message: [UInt8]) -> [UInt8] {
        var padded = message
        padded.append(0x80)
        while padded.count % 64 != 56 { padded.append(0) }
        let bits = UInt64(message.count) &* 8
        for shift in stride(from: 56, through: 0, by: -8) {
            padded.append(UInt8(truncatingIfNeeded: bits >> UInt64(shift)))
        }
        return padded
    }

    private static func compress(
        _ schedule: [UInt32],
        into state: inout (UInt32, UInt32, UInt32, UInt32, UInt32)
    ) {
        var (a, b, c, d, e) = state
        for round in 0..<80 {
            let (mixed, constant): (UInt32, UInt32) =
                switch round {
                case 0..<20: ((b & c) | (~b & d), 0x5a82_7999)
                case 20..<40: (b ^ c ^ d, 0x6ed9_eba1)
                case 40..<60: ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc)
                default: (b ^ c ^ d, 0xca62_c1d6)
                }
            let next = rotate(a, 5) &+ mixed &+ e &+ constant &+ schedule[round]
            (a, b, c, d, e) = (next, a, rotate(b, 30), c, d)
        }
        state = (state.0 &+ a, state.1 &+ b, state.2 &+ c, state.3 &+ d, state.4 &+ e)
    }

    private static func rotate(_ word: UInt32, _ count: UInt32) -> UInt32 {
        word << count | word >> (32 - count)
    }
}
