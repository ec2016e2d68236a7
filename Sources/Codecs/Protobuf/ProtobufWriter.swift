/// Writes a message in the protobuf wire format (Protocol Buffers, "Encoding").
///
/// Fields come in the order of their declaration, numbers packed, maps in key order: equal messages give equal bytes.
/// The length in front of a nested message is written behind it: one byte is left for it, which nearly always suffices, and
/// the message moves by a few bytes where it does not. That is one pass in place of two.
public struct ProtobufWriter: FieldVisitor, ValueWriter {
    @usableFromInline var sink: ByteSink
    @usableFromInline var depth = 0
    @usableFromInline let maximumDepth: Int

    @inlinable @inline(__always)
    init(_ sink: ByteSink, limits: CodecLimits) {
        self.sink = sink
        maximumDepth = limits.maximumDepth
    }

    @inlinable @inline(__always)
    mutating func writeTag(_ number: UInt32, _ type: WireType) {
        sink.reserve(5)
        sink.put(varint: UInt64(number << 3 | type.rawValue))
    }

    @inlinable @inline(__always)
    mutating func writeVarint(_ value: UInt64) {
        sink.reserve(10)
        sink.put(varint: value)
    }

    @inlinable @inline(__always)
    mutating func write(delimited bytes: UnsafeBufferPointer<UInt8>) {
        sink.reserve(10 + bytes.count)
        sink.put(varint: UInt64(truncatingIfNeeded: bytes.count))
        sink.put(bytes)
    }

    /// Leaves a byte for a length; give what it returns to ``endDelimited(_:)``.
    @inlinable @inline(__always)
    mutating func beginDelimited() -> Int {
        sink.reserve(1)
        sink.count &+= 1
        return sink.count
    }

    /// Writes the length of all that came behind `start` in front of it.
    @inlinable @inline(__always)
    mutating func endDelimited(_ start: Int) {
        let length = sink.count &- start
        guard length < 0x80 else { return endLongDelimited(start) }
        sink.base[start &- 1] = UInt8(truncatingIfNeeded: length)
    }

    @inline(never)
    @usableFromInline
    mutating func endLongDelimited(_ start: Int) {
        let length = sink.count - start
        let shift = (63 - length.leadingZeroBitCount) / 7
        sink.reserve(shift)
        (sink.base + start + shift).update(from: sink.base + start, count: length)
        sink.count = start - 1
        sink.put(varint: UInt64(truncatingIfNeeded: length))
        sink.count += length
    }
}

extension ProtobufWriter {
    /// Writes the field unless it has its default.
    @inlinable @inline(__always)
    public mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T,
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        guard !value.isDefault else { return }
        writeTag(number, T.wireType(as: encoding))
        try value.write(to: &self, as: encoding)
    }

    /// Writes the field if it is present.
    @inlinable @inline(__always)
    public mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T?,
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        guard let value else { return }
        writeTag(number, T.wireType(as: encoding))
        try value.write(to: &self, as: encoding)
    }

    /// Writes the elements, numbers packed.
    @inlinable
    public mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [T],
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        guard !values.isEmpty else { return }
        let type = T.wireType(as: encoding)
        if type == .lengthDelimited {
            for value in values {
                writeTag(number, type)
                try value.write(to: &self, as: encoding)
            }
        } else {
            writeTag(number, .lengthDelimited)
            let start = beginDelimited()
            for value in values { try value.write(to: &self, as: encoding) }
            endDelimited(start)
        }
    }

    /// Writes the entries, each as a message with the key in field 1 and the value in field 2.
    @inlinable
    public mutating func field<K: WireMapKey, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [K: T],
        as encoding: IntegerEncoding,
        keys: IntegerEncoding
    ) throws(CodecError) {
        guard !values.isEmpty else { return }
        try forEachInKeyOrder(values) { key, value throws(CodecError) in
            writeTag(number, .lengthDelimited)
            let start = beginDelimited()
            writeTag(1, K.wireType(as: keys))
            try key.write(to: &self, as: keys)
            writeTag(2, T.wireType(as: encoding))
            try value.write(to: &self, as: encoding)
            endDelimited(start)
        }
    }

    /// Writes the fields that an earlier reader did not know.
    @inlinable
    public mutating func unknownFields(_ storage: inout UnknownFields) {
        storage.bytes.withUnsafeBufferPointer { bytes in
            sink.reserve(bytes.count)
            sink.put(bytes)
        }
    }
}

extension ProtobufWriter {
    /// Writes zero or one.
    @inlinable @inline(__always)
    public mutating func write(_ value: Bool) {
        sink.reserve(1)
        sink.put(value ? 1 : 0)
    }

    /// Writes an integer. Negative numbers as varints are sign-extended to 64 bits, as the format has it.
    @inlinable @inline(__always)
    public mutating func write<I: WireInteger>(_ value: I, as encoding: IntegerEncoding) {
        switch encoding {
        case .zigZag where I.isSigned:
            let folded = I.Magnitude(truncatingIfNeeded: (value &<< 1) ^ (value &>> I(I.bitWidth - 1)))
            writeVarint(UInt64(truncatingIfNeeded: folded))
        case .varint, .zigZag:
            writeVarint(UInt64(truncatingIfNeeded: value))
        case .fixed:
            sink.reserve(8)
            sink.put(littleEndian: value)
        }
    }

    /// Writes four bytes.
    @inlinable @inline(__always)
    public mutating func write(_ value: Float) {
        sink.reserve(4)
        sink.put(littleEndian: value.bitPattern)
    }

    /// Writes eight bytes.
    @inlinable @inline(__always)
    public mutating func write(_ value: Double) {
        sink.reserve(8)
        sink.put(littleEndian: value.bitPattern)
    }

    /// Writes length and UTF-8.
    @inlinable
    public mutating func write(_ value: String) {
        guard value.utf8.withContiguousStorageIfAvailable({ write(delimited: $0) }) == nil else { return }
        Array(value.utf8).withUnsafeBufferPointer { write(delimited: $0) }
    }

    /// Writes length and bytes.
    @inlinable
    public mutating func write(_ value: [UInt8]) {
        value.withUnsafeBufferPointer { write(delimited: $0) }
    }

    /// Writes the number of the value.
    @inlinable @inline(__always)
    public mutating func write<E: WireEnum>(enum value: E) {
        writeVarint(UInt64(truncatingIfNeeded: value.rawValue))
    }

    /// Writes length and fields.
    @inlinable
    public mutating func write<M: WireMessage>(message value: M) throws(CodecError) {
        depth += 1
        guard depth < maximumDepth else { throw CodecError(.tooDeep, at: sink.count) }
        let start = beginDelimited()
        // A visit needs something mutable. The copy shares every buffer and is not written to.
        var value = value
        try value.writeFields(to: &self)
        endDelimited(start)
        depth -= 1
    }
}
