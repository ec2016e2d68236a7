/// Base64 (RFC 4648, sections 4 and 5).
package enum Base64 {
    /// Encodes with padding.
    package static func encode(_ bytes: [UInt8]) -> [UInt8] {
        bytes.withUnsafeBufferPointer { source in
            [UInt8](unsafeUninitializedCapacity: (source.count + 2) / 3 * 4) { target, count in
                count = target.baseAddress.map { encode(source, into: $0) } ?? 0
            }
        }
    }

    /// Encodes with padding and returns the number of bytes written. `target` must have room for four bytes for every
    /// three bytes of the source, rounded up.
    package static func encode(_ source: UnsafeBufferPointer<UInt8>, into target: UnsafeMutablePointer<UInt8>) -> Int {
        let alphabet: StaticString = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
        let symbols = alphabet.utf8Start
        var read = 0
        var written = 0
        while source.count - read >= 3 {
            let group = Int(source[read]) << 16 | Int(source[read + 1]) << 8 | Int(source[read + 2])
            target[written] = symbols[group >> 18]
            target[written + 1] = symbols[group >> 12 & 63]
            target[written + 2] = symbols[group >> 6 & 63]
            target[written + 3] = symbols[group & 63]
            read += 3
            written += 4
        }
        let left = source.count - read
        guard left > 0 else { return written }
        let group = Int(source[read]) << 16 | (left == 2 ? Int(source[read + 1]) << 8 : 0)
        target[written] = symbols[group >> 18]
        target[written + 1] = symbols[group >> 12 & 63]
        target[written + 2] = left == 2 ? symbols[group >> 6 & 63] : UInt8(ascii: "=")
        target[written + 3] = UInt8(ascii: "=")
        return written + 4
    }

    /// Decodes the standard or the URL-safe alphabet, with complete padding or without any. Returns `nil` for any other
    /// character and for an impossible length. Before padding, the unused bits must be zero (section 3.5). Without
    /// padding they are ignored, because protobuf's conformance tests require it (`-_` is one byte).
    package static func decode(_ source: UnsafeBufferPointer<UInt8>) -> [UInt8]? {
        var count = source.count
        if count > 0, count % 4 == 0, source[count - 1] == UInt8(ascii: "=") {
            count -= source[count - 2] == UInt8(ascii: "=") ? 2 : 1
        }
        let isPadded = count != source.count
        let left = count % 4
        guard left != 1 else { return nil }
        let length = count / 4 * 3 + (left == 0 ? 0 : left - 1)
        // An array without capacity is the empty one that all threads share, which must not be initialised.
        guard length > 0 else { return [] }
        var isValid = true
        let bytes = [UInt8](unsafeUninitializedCapacity: length) { target, written in
            var read = 0
            var wrong: UInt32 = 0
            while count - read >= 4 {
                let group =
                    value(source[read]) << 18 | value(source[read + 1]) << 12
                    | value(source[read + 2]) << 6 | value(source[read + 3])
                wrong |= group
                target[written] = UInt8(truncatingIfNeeded: group >> 16)
                target[written + 1] = UInt8(truncatingIfNeeded: group >> 8)
                target[written + 2] = UInt8(truncatingIfNeeded: group)
                read += 4
                written += 3
            }
            if left > 0 {
                let third = left == 3 ? value(source[read + 2]) << 6 : 0
                let group = value(source[read]) << 18 | value(source[read + 1]) << 12 | third
                wrong |= group
                if isPadded, group & (left == 3 ? 0xFF : 0xFFFF) != 0 { isValid = false }
                target[written] = UInt8(truncatingIfNeeded: group >> 16)
                if left == 3 { target[written + 1] = UInt8(truncatingIfNeeded: group >> 8) }
                written = length
            }
            if wrong & 0xFF00_0000 != 0 { isValid = false }
        }
        return isValid ? bytes : nil
    }

    /// The six bits of a symbol. For any other character the high byte is set, also after a shift by up to 18 bits.
    private static func value(_ symbol: UInt8) -> UInt32 {
        // One character for each byte from "+" to "z": its value plus 32, or "~".
        let table: StaticString =
            ##"^~^~_TUVWXYZ[\]~~~~~~~ !"#$%&'()*+,-./0123456789~~~~_~:;<=>?@ABCDEFGHIJKLMNOPQRS"##
        let index = Int(symbol) - 43
        guard index >= 0, index < table.utf8CodeUnitCount else { return 0xFFFF_FFC0 }
        let value = UInt32(table.utf8Start[index]) - 32
        return value < 64 ? value : 0xFFFF_FFC0
    }
}
