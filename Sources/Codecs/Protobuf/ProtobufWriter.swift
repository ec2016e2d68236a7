/// Writes a message in the protobuf wire format (Protocol Buffers, "Encoding").
///
/// Fields come in the order of their declaration, and entries of maps in the order of their keys, so equal messages
/// have equal bytes. Repeated numbers are packed unless they are declared otherwise. The length of a nested message is
/// written after the message, so that one pass suffices. One byte is left for it, which is nearly always enough. A
/// longer length moves the message by a few bytes.
@usableFromInline
package struct ProtobufWriter: FieldVisitor, ValueWriter {
    @usableFromInline var sink: ByteSink
    @usableFromInline var budget: MessageBudget

    @inlinable @inline(__always)
    init(_ sink: ByteSink, limits: CodecLimits) {
        self.sink = sink
        budget = MessageBudget(limits)
        // The outermost message. The least depth that can be set is 1.
        _ = budget.enter()
    }

    @inline(never)
    @usableFromInline
    func failure(_ code: CodecError.Code) -> CodecError { CodecError(code, at: sink.count) }

    @inlinable @inline(__always)
    mutating func writeTag(_ number: UInt32, _ type: WireType) {
        sink.reserve(5)
        sink.put(varint: UInt64(number << 3 | type.rawValue))
    }

    @inlinable @inline(__always)
    mutating func writeVarint(_ value: UInt64) {
        sink.reserve(10)
        guard value >= 0x80 else { return sink.put(UInt8(truncatingIfNeeded: value)) }
        writeLongVarint(value)
    }

    /// Writes a varint of more than one byte into reserved room.
    @inline(never)
    @usableFromInline
    mutating func writeLongVarint(_ value: UInt64) {
        guard value < 1 &<< 56 else { return sink.put(varint: value) }
        // Seven bits for each byte: the word is split into halves, quarters and eighths.
        var word = value & 0x0FFF_FFFF | (value & 0x00FF_FFFF_F000_0000) &<< 4
        word = word & 0x0000_3FFF_0000_3FFF | (word & 0x0FFF_C000_0FFF_C000) &<< 2
        word = word & 0x007F_007F_007F_007F | (word & 0x3F80_3F80_3F80_3F80) &<< 1
        // Every byte but the last has the bit that says that another one follows.
        let last = (63 &- word.leadingZeroBitCount) & ~7
        word |= 0x8080_8080_8080_8080 & (1 &<< UInt64(truncatingIfNeeded: last) &- 1)
        UnsafeMutableRawPointer(sink.base + sink.count).storeBytes(of: word.littleEndian, as: UInt64.self)
        sink.count &+= last &>> 3 &+ 1
    }

    @inlinable @inline(__always)
    mutating func write(delimited bytes: UnsafeBufferPointer<UInt8>) {
        sink.reserve(10 + bytes.count)
        sink.put(varint: UInt64(truncatingIfNeeded: bytes.count))
        sink.put(bytes)
    }

    /// Leaves one byte for a length. Returns the argument for ``endDelimited(_:)``.
    @inlinable @inline(__always)
    mutating func beginDelimited() -> Int {
        sink.reserve(1)
        sink.count &+= 1
        return sink.count
    }

    /// Writes the length of the output since `start` in front of it.
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
    package mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T,
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        guard !value.isDefault else { return }
        writeTag(number, T.wireType(as: encoding))
        do throws(CodecError) { try value.write(to: &self, as: encoding) } catch { throw error.inside(name) }
    }

    /// Writes the field unless it is `nil`.
    @inlinable @inline(__always)
    package mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T?,
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        guard value != nil else { return }
        writeTag(number, T.wireType(as: encoding))
        do throws(CodecError) { try value?.write(to: &self, as: encoding) } catch { throw error.inside(name) }
    }

    /// Writes the member if it is the one that is set.
    @inlinable @inline(__always)
    package mutating func oneof<Choice, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ choice: inout Choice?,
        as encoding: IntegerEncoding,
        get: (Choice) -> T?,
        set: (T) -> Choice
    ) throws(CodecError) {
        guard let choice, let value = get(choice) else { return }
        writeTag(number, T.wireType(as: encoding))
        do throws(CodecError) { try value.write(to: &self, as: encoding) } catch { throw error.inside(name) }
    }

    /// Writes the elements. Numbers are packed unless the field is declared otherwise.
    @inlinable
    package mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [T],
        as encoding: IntegerEncoding,
        packed: Bool
    ) throws(CodecError) {
        guard !values.isEmpty else { return }
        do throws(CodecError) {
            try writeElements(number, values, as: encoding, packed: packed)
        } catch {
            throw error.inside(name)
        }
    }

    @inlinable @inline(__always)
    mutating func writeElements<T: WireValue>(
        _ number: UInt32,
        _ values: [T],
        as encoding: IntegerEncoding,
        packed: Bool
    ) throws(CodecError) {
        guard budget.addElements(values.count) else { throw failure(.tooManyElements) }
        let type = T.wireType(as: encoding)
        if type == .lengthDelimited || !packed {
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

    /// Writes the entries. Each is a message with the key in field 1 and the value in field 2.
    @inlinable
    package mutating func field<K: WireMapKey, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [K: T],
        as encoding: IntegerEncoding,
        keys: IntegerEncoding
    ) throws(CodecError) {
        guard !values.isEmpty else { return }
        do throws(CodecError) {
            try writeEntries(number, values, as: encoding, keys: keys)
        } catch {
            throw error.inside(name)
        }
    }

    @inlinable @inline(__always)
    mutating func writeEntries<K: WireMapKey, T: WireValue>(
        _ number: UInt32,
        _ values: [K: T],
        as encoding: IntegerEncoding,
        keys: IntegerEncoding
    ) throws(CodecError) {
        guard budget.addElements(values.count) else { throw failure(.tooManyElements) }
        try forEachInKeyOrder(values) { key, value throws(CodecError) in
            writeTag(number, .lengthDelimited)
            let start = beginDelimited()
            writeTag(1, K.wireType(as: keys))
            try key.write(to: &self, as: keys)
            if sink.count &- start > budget.maximumKeyLength, !budget.allowsKey(ofLength: key.utf8Length) {
                throw failure(.keyTooLong)
            }
            writeTag(2, T.wireType(as: encoding))
            try value.write(to: &self, as: encoding)
            endDelimited(start)
        }
    }

    /// Writes the field unless it has its default, and checks its length.
    @inlinable @inline(__always)
    package mutating func identifier(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout String
    ) throws(CodecError) {
        let start = sink.count
        try field(number, name, &value, as: .varint)
        // A text is no longer than the output that it was written to.
        if sink.count &- start > budget.maximumKeyLength { try check(name, identifier: value.utf8.count) }
    }

    /// Writes the field unless it is `nil`, and checks its length.
    @inlinable @inline(__always)
    package mutating func identifier(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout String?
    ) throws(CodecError) {
        let start = sink.count
        try field(number, name, &value, as: .varint)
        if sink.count &- start > budget.maximumKeyLength { try check(name, identifier: value?.utf8.count ?? 0) }
    }

    /// Writes the elements, and checks the length of each.
    @inlinable
    package mutating func identifier(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [String]
    ) throws(CodecError) {
        let start = sink.count
        try field(number, name, &values, as: .varint)
        guard sink.count &- start > budget.maximumKeyLength else { return }
        for value in values { try check(name, identifier: value.utf8.count) }
    }

    /// Throws if an identifier of `length` bytes is longer than the limit.
    @inline(never)
    @usableFromInline
    func check(_ name: StaticString, identifier length: Int) throws(CodecError) {
        guard budget.allowsKey(ofLength: length) else { throw failure(.keyTooLong).inside(name) }
    }

    /// Writes the fields that a reader kept.
    @inlinable @inline(__always)
    package mutating func unknownFields(_ storage: inout UnknownFields) {
        guard !storage.bytes.isEmpty else { return }
        write(raw: storage.bytes)
    }

    @inlinable
    mutating func write(raw bytes: [UInt8]) {
        sink.reserve(bytes.count)
        bytes.withUnsafeBufferPointer { sink.put($0) }
    }
}

extension ProtobufWriter {
    /// Writes zero or one.
    @inlinable @inline(__always)
    package mutating func write(_ value: Bool) {
        sink.reserve(1)
        sink.put(value ? 1 : 0)
    }

    /// Writes an integer. A negative number as a varint is sign-extended to 64 bits, as the format specifies.
    @inlinable @inline(__always)
    package mutating func write<I: WireInteger>(_ value: I, as encoding: IntegerEncoding) {
        // The form on the wire is at least as wide.
        let value = I.WireForm(truncatingIfNeeded: value)
        switch encoding {
        case .zigZag where I.isSigned:
            let sign = value &>> I.WireForm(I.WireForm.bitWidth - 1)
            let folded = I.WireForm.Magnitude(truncatingIfNeeded: (value &<< 1) ^ sign)
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
    package mutating func write(_ value: Float) {
        sink.reserve(4)
        sink.put(littleEndian: value.bitPattern)
    }

    /// Writes eight bytes.
    @inlinable @inline(__always)
    package mutating func write(_ value: Double) {
        sink.reserve(8)
        sink.put(littleEndian: value.bitPattern)
    }

    /// Writes the length and the UTF-8.
    @inlinable
    package mutating func write(_ value: String) {
        let (start, count) = (sink.count, value.utf8.count)
        sink.reserve(10 &+ count)
        sink.put(varint: UInt64(truncatingIfNeeded: count))
        // The closure releases nothing, so the compiler retains nothing for it.
        let target = sink.base + sink.count
        let copied: Void? = value.utf8.withContiguousStorageIfAvailable { source in
            if let start = source.baseAddress { copyBytes(start, count: count, to: target) }
        }
        guard copied == nil else { return sink.count &+= count }
        sink.count = start
        writeForeign(value)
    }

    /// Writes a string that is not stored as contiguous UTF-8.
    @inline(never)
    @usableFromInline
    mutating func writeForeign(_ value: String) {
        Array(value.utf8).withUnsafeBufferPointer { write(delimited: $0) }
    }

    /// Writes the length and the bytes.
    @inlinable
    package mutating func write(_ value: [UInt8]) {
        value.withUnsafeBufferPointer { write(delimited: $0) }
    }

    /// Writes the number of the enum.
    @inlinable @inline(__always)
    package mutating func write<E: WireEnum>(enum value: E) {
        writeVarint(UInt64(truncatingIfNeeded: value.rawValue))
    }

    /// Writes the length and the fields.
    @inlinable
    package mutating func write<M: WireMessage>(message value: M) throws(CodecError) {
        guard budget.enter() else { throw failure(.tooDeep) }
        let start = beginDelimited()
        try value.visited { value throws(CodecError) in try visit(&value) }
        endDelimited(start)
        budget.leave()
    }
}
