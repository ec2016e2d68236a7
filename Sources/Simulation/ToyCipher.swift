/// The records of one direction. It hides bytes from a reader of the wire, and protects nothing.
struct ToyCipher {
    var key: UInt64 = 0
    /// The number of the next record.
    var sequence: UInt64 = 0

    private static let step: UInt64 = 0x9e37_79b9_7f4a_7c15

    /// The output function of SplitMix64.
    static func mix(_ value: UInt64) -> UInt64 {
        var z = value
        z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
        z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
        return z ^ (z >> 31)
    }

    private var start: UInt64 { Self.mix(key &+ (sequence &+ 1) &* Self.step) }

    /// Combines the bytes of a record with a stream of words of key and sequence. The same call restores them.
    func hide(_ bytes: UnsafeMutableRawBufferPointer) {
        var state = start
        var index = 0
        while index < bytes.count {
            state &+= Self.step
            var word = Self.mix(state)
            if index + 8 <= bytes.count {
                word ^= bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                bytes.storeBytes(of: word, toByteOffset: index, as: UInt64.self)
            } else {
                for rest in index..<bytes.count {
                    bytes[rest] ^= UInt8(truncatingIfNeeded: word)
                    word >>= 8
                }
            }
            index += 8
        }
    }

    /// The check value of a record, of which no bit can change without effect.
    func check(_ bytes: UnsafeRawBufferPointer, type: UInt8) -> UInt64 {
        var sum = start ^ UInt64(type) << 32 ^ UInt64(bytes.count)
        var index = 0
        while index < bytes.count {
            var word: UInt64 = 0
            if index + 8 <= bytes.count {
                word = bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            } else {
                for rest in index..<bytes.count { word = word << 8 | UInt64(bytes[rest]) }
            }
            sum = Self.mix(sum ^ word)
            index += 8
        }
        return sum
    }
}

extension UInt64 {
    var bytes: [UInt8] { (0..<8).map { UInt8(truncatingIfNeeded: self >> (8 * UInt64($0))) } }
}

extension [UInt8] {
    /// The eight bytes at `index` as a number; 0 for missing ones.
    func word(at index: Int) -> UInt64 {
        dropFirst(index).prefix(8).reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }
}

extension SimulationRandom {
    mutating func bytes(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8(truncatingIfNeeded: next()) }
    }
}
