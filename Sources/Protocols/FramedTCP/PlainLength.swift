import TransportAPI

// Reading and writing the length of plain framing. This code does not allocate.

/// A length that was read, and the number of bytes that encode it.
struct PlainLength: Equatable {
    var headerSize: Int
    var bodySize: Int
}

extension TCPConfiguration.PlainFraming {
    /// Reads the length at the front of `input`. Returns `nil` if it has not arrived completely.
    ///
    /// - Throws: `.protocolViolation` if the length does not fit 32 bits, or should count itself and is too small for
    ///   that.
    func read(_ input: borrowing ByteBuffer) throws(TransportError) -> PlainLength? {
        switch length {
        case .bits16: try input.integer(at: 0, as: UInt16.self).map { raw throws(TransportError) in try fixed(raw) }
        case .bits32: try input.integer(at: 0, as: UInt32.self).map { raw throws(TransportError) in try fixed(raw) }
        case .varint: try varint(input)
        }
    }

    /// Appends the length of a message of `bodySize` bytes. The caller has checked it against the limit.
    func write(_ bodySize: Int, to output: inout ByteBuffer) {
        switch length {
        case .bits16: writeFixed(UInt16(truncatingIfNeeded: bodySize &+ (countsItself ? 2 : 0)), to: &output)
        case .bits32: writeFixed(UInt32(truncatingIfNeeded: bodySize &+ (countsItself ? 4 : 0)), to: &output)
        case .varint:
            var rest = UInt32(truncatingIfNeeded: bodySize)
            while rest >= 0x80 {
                output.append(UInt8(truncatingIfNeeded: rest) | 0x80)
                rest >>= 7
            }
            output.append(UInt8(truncatingIfNeeded: rest))
        }
    }

    private func fixed<T: FixedWidthInteger>(_ raw: T) throws(TransportError) -> PlainLength {
        let size = MemoryLayout<T>.size
        let value = Int(byteOrder == .bigEndian ? raw : raw.byteSwapped)
        guard countsItself else { return PlainLength(headerSize: size, bodySize: value) }
        guard value >= size else {
            throw TransportError(.protocolViolation, .open, "the peer sent a length that does not count itself")
        }
        return PlainLength(headerSize: size, bodySize: value - size)
    }

    private func writeFixed<T: FixedWidthInteger>(_ value: T, to output: inout ByteBuffer) {
        output.append(integer: byteOrder == .bigEndian ? value : value.byteSwapped)
    }

    private func varint(_ input: borrowing ByteBuffer) throws(TransportError) -> PlainLength? {
        var value: UInt64 = 0
        for index in 0..<5 {
            guard let byte = input.byte(at: index) else { return nil }
            value |= UInt64(byte & 0x7f) << UInt64(7 * index)
            guard byte & 0x80 == 0 else { continue }
            guard let size = Int(exactly: value), value <= 0xffff_ffff else { break }
            return PlainLength(headerSize: index + 1, bodySize: size)
        }
        throw TransportError(.protocolViolation, .open, "the peer sent a length of more than 32 bits")
    }
}
