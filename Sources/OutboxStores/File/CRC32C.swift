/// The cyclic redundancy check of the Castagnoli polynomial (RFC 3720, section 12.1 and appendix B.4). It finds every
/// burst of up to 32 damaged bits, and misses any other damage once in four thousand million times.
struct CRC32C {
    /// The value of the bytes so far.
    var value: UInt32 { ~state }

    private var state = UInt32.max

    /// Adds bytes.
    mutating func add(_ bytes: UnsafeRawBufferPointer) {
        var state = state
        var rest = bytes[...]
        Self.tables.withUnsafeBufferPointer { tables in
            // Eight bytes at a time, with a table for each place.
            while rest.count >= 8 {
                let word = UInt64(littleEndian: bytes.loadUnaligned(fromByteOffset: rest.startIndex, as: UInt64.self))
                let mixed = word ^ UInt64(state)
                state = 0
                for place in 0..<8 {
                    let byte = Int(truncatingIfNeeded: mixed >> UInt64(8 * place)) & 0xff
                    state ^= tables[(7 - place) << 8 | byte]
                }
                rest = rest.dropFirst(8)
            }
            for byte in rest { state = (state >> 8) ^ tables[Int(UInt8(truncatingIfNeeded: state) ^ byte)] }
        }
        self.state = state
    }

    /// Returns the value of these bytes.
    static func of(_ bytes: UnsafeRawBufferPointer) -> UInt32 {
        var sum = CRC32C()
        sum.add(bytes)
        return sum.value
    }

    /// Eight tables of 256 numbers: the first for the last byte of eight, and so on.
    private static let tables: [UInt32] = {
        var tables: [UInt32] = []
        for byte in UInt32(0)..<256 {
            var value = byte
            for _ in 0..<8 { value = value & 1 == 0 ? value >> 1 : (value >> 1) ^ 0x82f6_3b78 }
            tables.append(value)
        }
        for index in 256..<2048 {
            let shorter = tables[index - 256]
            tables.append((shorter >> 8) ^ tables[Int(shorter & 0xff)])
        }
        return tables
    }()
}
