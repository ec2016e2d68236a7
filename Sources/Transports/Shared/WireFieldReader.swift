/// Some bytes of a captured message, and their meaning.
package struct WireField: Sendable, Hashable {
    package var range: Range<Int>
    package var meaning: String

    package init(range: Range<Int>, meaning: String) {
        (self.range, self.meaning) = (range, meaning)
    }
}

/// Splits a captured message into fields. It removes bytes from the front and records their meaning, and it can unmask
/// a masked payload.
package struct WireFieldReader {
    package private(set) var bytes: [UInt8]
    package private(set) var position = 0
    package private(set) var fields: [WireField] = []

    /// How many bytes at the end are not of the payload.
    package var trailing = 0

    package init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    package var left: Int { max(0, bytes.count - position - trailing) }

    package func peek(_ offset: Int = 0) -> UInt8 {
        position + offset < bytes.count ? bytes[position + offset] : 0
    }

    /// Returns the unsigned integer of the next `count` bytes in network byte order.
    package func number(_ count: Int) -> UInt64 {
        (0..<count).reduce(0) { $0 << 8 | UInt64(peek($1)) }
    }

    package func text(_ count: Int) -> String {
        String(decoding: bytes[position..<min(bytes.count, position + count)], as: UTF8.self)
    }

    package mutating func take(_ count: Int, _ meaning: String) {
        let end = min(bytes.count, position + max(0, count))
        guard end > position else { return }
        fields.append(WireField(range: position..<end, meaning: meaning))
        position = end
    }

    package mutating func unmask(_ key: [UInt8]) {
        for index in position..<bytes.count { bytes[index] ^= key[(index - position) % 4] }
    }

    /// Returns the value and length of a varint of at most ten bytes.
    package func varint(at offset: Int = 0) -> (value: UInt64, count: Int) {
        var value: UInt64 = 0
        for index in 0..<10 {
            let byte = peek(offset + index)
            value |= UInt64(byte & 0x7f) << UInt64(7 * index)
            if byte & 0x80 == 0 { return (value, index + 1) }
        }
        return (value, 10)
    }
}
