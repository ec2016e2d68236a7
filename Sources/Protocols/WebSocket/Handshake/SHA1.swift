/// SHA-1 (FIPS 180-4, section 6.1). The WebSocket handshake uses it as a checksum (RFC 6455, section 1.3), not for
/// security. Other code must not use it.
enum SHA1 {
    private typealias State = (UInt32, UInt32, UInt32, UInt32, UInt32)

    /// Returns the 20 bytes of the digest of `message`.
    static func digest(_ message: [UInt8]) -> [UInt8] {
        var state: State = (0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0)
        pad(message).withUnsafeBytes { padded in
            withUnsafeTemporaryAllocation(of: UInt32.self, capacity: 80) { schedule in
                schedule.initialize(repeating: 0)
                for start in stride(from: 0, to: padded.count, by: 64) {
                    for word in 0..<16 {
                        let bytes = padded.loadUnaligned(fromByteOffset: start + word * 4, as: UInt32.self)
                        schedule[word] = UInt32(bigEndian: bytes)
                    }
                    for word in 16..<80 {
                        let mixed = schedule[word - 3] ^ schedule[word - 8] ^ schedule[word - 14] ^ schedule[word - 16]
                        schedule[word] = rotate(mixed, 1)
                    }
                    compress(UnsafeBufferPointer(schedule), into: &state)
                }
            }
        }
        var digest: [UInt8] = []
        digest.reserveCapacity(20)
        for word in [state.0, state.1, state.2, state.3, state.4] {
            withUnsafeBytes(of: word.bigEndian) { digest.append(contentsOf: $0) }
        }
        return digest
    }

    /// Returns the message with its padding (section 5.1.1): a one bit, zeros, and the length in bits, up to a multiple
    /// of 64 bytes.
    private static func pad(_ message: [UInt8]) -> [UInt8] {
        let zeros = (119 - message.count % 64) % 64
        var padded: [UInt8] = []
        padded.reserveCapacity(message.count + zeros + 9)
        padded += message
        padded.append(0x80)
        padded.append(contentsOf: repeatElement(0, count: zeros))
        withUnsafeBytes(of: (UInt64(message.count) &* 8).bigEndian) { padded.append(contentsOf: $0) }
        return padded
    }

    private static func compress(_ schedule: UnsafeBufferPointer<UInt32>, into state: inout State) {
        var turned = state
        for round in 0..<20 {
            let chosen = (turned.1 & turned.2) | (~turned.1 & turned.3)
            turn(&turned, chosen, 0x5a82_7999, schedule[round])
        }
        for round in 20..<40 {
            let parity = turned.1 ^ turned.2 ^ turned.3
            turn(&turned, parity, 0x6ed9_eba1, schedule[round])
        }
        for round in 40..<60 {
            let majority = (turned.1 & turned.2) | (turned.1 & turned.3) | (turned.2 & turned.3)
            turn(&turned, majority, 0x8f1b_bcdc, schedule[round])
        }
        for round in 60..<80 {
            let parity = turned.1 ^ turned.2 ^ turned.3
            turn(&turned, parity, 0xca62_c1d6, schedule[round])
        }
        state.0 &+= turned.0
        state.1 &+= turned.1
        state.2 &+= turned.2
        state.3 &+= turned.3
        state.4 &+= turned.4
    }

    @inline(__always)
    private static func turn(_ state: inout State, _ mixed: UInt32, _ constant: UInt32, _ word: UInt32) {
        let next = rotate(state.0, 5) &+ mixed &+ state.4 &+ constant &+ word
        state = (next, state.0, rotate(state.1, 30), state.2, state.3)
    }

    @inline(__always)
    private static func rotate(_ word: UInt32, _ count: UInt32) -> UInt32 {
        word &<< count | word &>> (32 &- count)
    }
}
