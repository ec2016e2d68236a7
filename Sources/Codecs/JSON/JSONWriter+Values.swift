extension JSONWriter {
    /// Writes `true` or `false`.
    @inlinable @inline(__always)
    public mutating func write(_ value: Bool) {
        sink.reserve(8)
        sink.put(value ? "true" : "false")
    }

    /// Writes a number, or a string of digits if it has 64 bits.
    @inlinable @inline(__always)
    public mutating func write<I: WireInteger>(_ value: I, as encoding: IntegerEncoding) {
        if I.bitWidth > 32 { write(quoted: value) } else { writeDigits(value) }
    }

    @inlinable @inline(__always)
    mutating func write<I: WireInteger>(quoted value: I) {
        sink.reserve(22)
        sink.put(UInt8(ascii: "\""))
        writeDigits(value)
        sink.put(UInt8(ascii: "\""))
    }

    @inlinable @inline(__always)
    mutating func writeDigits<I: WireInteger>(_ value: I) {
        writeDigits(UInt64(value.magnitude), isNegative: value < 0)
    }

    @usableFromInline
    mutating func writeDigits(_ magnitude: UInt64, isNegative: Bool) {
        sink.reserve(22)
        if isNegative { sink.put(UInt8(ascii: "-")) }
        var digits = 1
        var bound: UInt64 = 10
        while digits < 20, magnitude >= bound {
            digits += 1
            bound = digits < 20 ? bound &* 10 : bound
        }
        var rest = magnitude
        var index = sink.count + digits
        sink.count = index
        repeat {
            index -= 1
            let (quotient, digit) = rest.quotientAndRemainder(dividingBy: 10)
            sink.base[index] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: digit)
            rest = quotient
        } while rest > 0
    }

    /// Writes the shortest digits that give the same value back.
    @inlinable
    public mutating func write(_ value: Float) {
        if value.isFinite { writePlain(value.description) } else { writeNonFinite(Double(value)) }
    }

    /// Writes the shortest digits that give the same value back.
    @inlinable
    public mutating func write(_ value: Double) {
        if value.isFinite { writePlain(value.description) } else { writeNonFinite(value) }
    }

    @usableFromInline
    mutating func writeNonFinite(_ value: Double) {
        writePlain(value.isNaN ? "\"NaN\"" : value < 0 ? "\"-Infinity\"" : "\"Infinity\"")
    }

    @usableFromInline
    mutating func writePlain(_ text: String) {
        var text = text
        text.withUTF8 { bytes in
            sink.reserve(bytes.count)
            sink.put(bytes)
        }
    }

    /// Writes a string; only what must be is escaped (RFC 8259, section 7).
    @inlinable
    public mutating func write(_ value: String) {
        guard value.utf8.withContiguousStorageIfAvailable({ write(utf8: $0) }) == nil else { return }
        Array(value.utf8).withUnsafeBufferPointer { write(utf8: $0) }
    }

    /// Copies eight bytes at a time up to the next that needs an escape.
    @usableFromInline
    mutating func write(utf8 text: UnsafeBufferPointer<UInt8>) {
        let count = text.count
        sink.reserve(count + 2)
        sink.put(UInt8(ascii: "\""))
        guard let source = text.baseAddress else { return sink.put(UInt8(ascii: "\"")) }
        var index = 0
        while count - index >= 8 {
            let word = UnsafeRawPointer(source + index).loadUnaligned(as: UInt64.self)
            UnsafeMutableRawPointer(sink.base + sink.count).storeBytes(of: word, as: UInt64.self)
            let specials = JSONWord.specials(UInt64(littleEndian: word))
            if specials == 0 {
                index += 8
                sink.count += 8
            } else {
                let plain = specials.trailingZeroBitCount / 8
                index += plain + 1
                sink.count += plain
                writeEscape(source[index - 1], remaining: count - index)
            }
        }
        while index < count {
            let byte = source[index]
            index += 1
            if JSONWord.isSpecial(byte) {
                writeEscape(byte, remaining: count - index)
            } else {
                sink.put(byte)
            }
        }
        sink.put(UInt8(ascii: "\""))
    }

    /// Writes an escape, and makes room again for the `remaining` bytes and the closing quote.
    @inline(never)
    private mutating func writeEscape(_ byte: UInt8, remaining: Int) {
        sink.reserve(remaining + 7)
        sink.put(UInt8(ascii: "\\"))
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"): sink.put(byte)
        case 0x08: sink.put(UInt8(ascii: "b"))
        case 0x09: sink.put(UInt8(ascii: "t"))
        case 0x0A: sink.put(UInt8(ascii: "n"))
        case 0x0C: sink.put(UInt8(ascii: "f"))
        case 0x0D: sink.put(UInt8(ascii: "r"))
        default:
            let digits: StaticString = "0123456789abcdef"
            sink.put("u00")
            sink.put(digits.utf8Start[Int(byte >> 4)])
            sink.put(digits.utf8Start[Int(byte & 15)])
        }
    }

    /// Writes base64 with padding (RFC 4648, section 4).
    @inlinable
    public mutating func write(_ value: [UInt8]) {
        value.withUnsafeBufferPointer { write(base64: $0) }
    }

    @usableFromInline
    mutating func write(base64 bytes: UnsafeBufferPointer<UInt8>) {
        sink.reserve((bytes.count + 2) / 3 * 4 + 2)
        sink.put(UInt8(ascii: "\""))
        sink.count += Base64.encode(bytes, into: sink.base + sink.count)
        sink.put(UInt8(ascii: "\""))
    }

    /// Writes the name, or the number if it has none.
    @inlinable
    public mutating func write<E: WireEnum>(enum value: E) {
        guard let name = value.name else { return writeDigits(value.rawValue) }
        sink.reserve(name.utf8CodeUnitCount + 2)
        sink.put(UInt8(ascii: "\""))
        sink.put(name)
        sink.put(UInt8(ascii: "\""))
    }

    /// Writes an object.
    @inlinable
    public mutating func write<M: WireMessage>(message value: M) throws(CodecError) {
        try open(UInt8(ascii: "{"))
        // A visit needs something mutable. The copy shares every buffer and is not written to.
        var value = value
        try value.writeFields(to: &self)
        close(UInt8(ascii: "}"))
    }
}
