/// Reads a message in the protobuf wire format (Protocol Buffers, "Encoding").
///
/// A visit passes once over the declared fields. Each field takes the next field of the input if it has the same number
/// and wire type. Fields in the order of their numbers, as all common writers send them, are read in one visit. Each
/// step back in that order needs another visit, which is a row of comparisons. If a visit takes no field, the next one
/// is unknown.
///
/// A field with another wire type than its declaration is unknown. If a field without repetition occurs twice, the last
/// value counts, and nested messages are merged. For a key of a map the last value counts. Two keys that differ in
/// their bytes and are equal as `String` are an error.
@usableFromInline
package struct ProtobufReader: FieldVisitor {
    @usableFromInline let base: UnsafePointer<UInt8>
    @usableFromInline var position = 0
    /// Where the current message ends.
    @usableFromInline var end: Int
    /// The tag of the next field; zero at the end of the message.
    @usableFromInline var tag: UInt32 = 0
    @usableFromInline var tagStart = 0
    /// `tagStart` at the beginning of the visit. A nested message leaves a smaller value, which also differs from
    /// `tagStart` and correctly shows progress.
    @usableFromInline var visitStart = -1
    @usableFromInline var budget: MessageBudget

    /// A reader of `count` bytes at `base`, which must outlive it.
    @inlinable
    package init(base: UnsafePointer<UInt8>, count: Int, limits: CodecLimits) {
        self.base = base
        end = count
        budget = MessageBudget(limits)
        // The outermost message. The least depth that can be set is 1.
        _ = budget.enter()
    }

    @inline(never)
    @usableFromInline
    func failure(_ code: CodecError.Code) -> CodecError { CodecError(code, at: position) }
}

extension ProtobufReader {
    /// Reads the fields of the message up to its end.
    @inlinable
    package mutating func readFields<M: WireMessage>(of message: inout M) throws(CodecError) {
        try nextTag()
        while tag != 0 {
            let start = tagStart
            visitStart = start
            try message.visitFields(&self)
            if tagStart == start, tag != 0 {
                try skipField()
                try nextTag()
            }
        }
    }
}

extension ProtobufReader {
    /// Reads the next field if it has this number.
    @inlinable @inline(__always)
    package mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T,
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        guard tag == number << 3 | T.wireType(as: encoding).rawValue else { return }
        do throws(CodecError) { try value.read(from: &self, as: encoding) } catch { throw error.inside(name) }
        try nextTag()
    }

    /// Reads the next field if it has this number.
    @inlinable @inline(__always)
    package mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T?,
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        guard tag == number << 3 | T.wireType(as: encoding).rawValue else { return }
        var present = value.take() ?? T()
        do throws(CodecError) { try present.read(from: &self, as: encoding) } catch { throw error.inside(name) }
        value = present
        try nextTag()
    }

    /// Reads the next field if it has this number. The last member of a oneof counts. A message that is set already is
    /// merged.
    @inlinable @inline(__always)
    package mutating func oneof<Choice, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ choice: inout Choice?,
        as encoding: IntegerEncoding,
        get: (Choice) -> T?,
        set: (T) -> Choice
    ) throws(CodecError) {
        guard tag == number << 3 | T.wireType(as: encoding).rawValue else { return }
        var value = choice.flatMap(get) ?? T()
        do throws(CodecError) { try value.read(from: &self, as: encoding) } catch { throw error.inside(name) }
        choice = set(value)
        try nextTag()
    }

    /// Reads elements, packed or not, while the next field has this number.
    @inlinable @inline(__always)
    package mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [T],
        as encoding: IntegerEncoding,
        packed: Bool
    ) throws(CodecError) {
        let type = T.wireType(as: encoding)
        if tag == number << 3 | type.rawValue {
            try readElements(name, &values, as: encoding)
        } else if type != .lengthDelimited, tag == number << 3 | WireType.lengthDelimited.rawValue {
            do throws(CodecError) { try readPacked(&values, as: encoding) } catch { throw error.inside(name) }
            try nextTag()
        }
    }

    /// Reads entries of the map while the next field has this number.
    @inlinable @inline(__always)
    package mutating func field<K: WireMapKey, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [K: T],
        as encoding: IntegerEncoding,
        keys: IntegerEncoding
    ) throws(CodecError) {
        guard tag == number << 3 | WireType.lengthDelimited.rawValue else { return }
        let expected = tag
        repeat {
            do throws(CodecError) { try readEntry(&values, as: encoding, keys: keys) } catch {
                throw error.inside(name)
            }
            try nextTag()
        } while tag == expected
    }

    /// Reads the next field if it has this number, and checks its length.
    @inlinable @inline(__always)
    package mutating func identifier(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout String
    ) throws(CodecError) {
        let start = position
        try field(number, name, &value, as: .varint)
        // A text is no longer than the input that it was read from.
        if position &- start > budget.maximumKeyLength { try check(name, identifier: value.utf8.count) }
    }

    /// Reads the next field if it has this number, and checks its length.
    @inlinable @inline(__always)
    package mutating func identifier(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout String?
    ) throws(CodecError) {
        let start = position
        try field(number, name, &value, as: .varint)
        if position &- start > budget.maximumKeyLength { try check(name, identifier: value?.utf8.count ?? 0) }
    }

    /// Throws if an identifier of `length` bytes is longer than the limit.
    @inlinable
    func check(_ name: StaticString, identifier length: Int) throws(CodecError) {
        guard budget.allowsKey(ofLength: length) else { throw failure(.keyTooLong).inside(name) }
    }

    /// Reads elements while the next field has this number, and checks the length of each.
    @inlinable
    package mutating func identifier(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [String]
    ) throws(CodecError) {
        let (count, start) = (values.count, position)
        try field(number, name, &values, as: .varint)
        guard position &- start > budget.maximumKeyLength else { return }
        // The field has only appended elements.
        for value in values[count...] { try check(name, identifier: value.utf8.count) }
    }

    /// Keeps the next field if no declared field has taken it in this visit.
    @inlinable
    package mutating func unknownFields(_ storage: inout UnknownFields) throws(CodecError) {
        guard tag != 0, tagStart == visitStart else { return }
        let start = tagStart
        try skipField()
        storage.append(UnsafeBufferPointer(start: base + start, count: position - start))
        try nextTag()
    }

    @inlinable
    mutating func readElements<T: WireValue>(
        _ name: StaticString,
        _ values: inout [T],
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        let expected = tag
        repeat {
            do throws(CodecError) {
                guard budget.addElement(to: values.count) else { throw failure(.tooManyElements) }
                values.reserveFew()
                var value = T()
                try value.read(from: &self, as: encoding)
                values.append(value)
            } catch {
                throw error.inside(name)
            }
            try nextTag()
        } while tag == expected
    }

    @inlinable
    mutating func readPacked<T: WireValue>(_ values: inout [T], as encoding: IntegerEncoding) throws(CodecError) {
        let length = try readLength()
        let outerEnd = end
        end = position + length
        let count: Int
        switch T.wireType(as: encoding) {
        case .fixed32: count = length / 4
        case .fixed64: count = length / 8
        default: count = countVarints()
        }
        guard budget.addElements(count, to: values.count) else { throw failure(.tooManyElements) }
        // Only for the first run of elements. An exact reservation for each of many short runs would copy every time.
        if values.isEmpty { values.reserveCapacity(count) }
        for _ in 0..<count {
            var value = T()
            try value.read(from: &self, as: encoding)
            values.append(value)
        }
        guard position == end else { throw failure(.lengthOutOfBounds) }
        end = outerEnd
    }

    @inlinable
    mutating func readEntry<K: WireMapKey, T: WireValue>(
        _ values: inout [K: T],
        as encoding: IntegerEncoding,
        keys: IntegerEncoding
    ) throws(CodecError) {
        guard budget.addElement(to: values.count) else { throw failure(.tooManyElements) }
        let outerEnd = end
        end = try readLength() + position
        var key = K()
        var value = T()
        try nextTag()
        while tag != 0 {
            if tag == 1 << 3 | K.wireType(as: keys).rawValue {
                try key.read(from: &self, as: keys)
            } else if tag == 2 << 3 | T.wireType(as: encoding).rawValue {
                try value.read(from: &self, as: encoding)
            } else {
                try skipField()
            }
            try nextTag()
        }
        guard budget.allowsKey(ofLength: key.utf8Length) else { throw failure(.keyTooLong) }
        guard values.set(value, of: key) else { throw failure(.ambiguousKey) }
        end = outerEnd
    }
}

extension ProtobufReader: ValueReader {
    /// Reads a varint. Any value but zero is `true`.
    @inlinable @inline(__always)
    package mutating func readBool() throws(CodecError) -> Bool { try readVarint() != 0 }

    /// Reads an integer. A varint that is too large for 32 bits loses its upper bits, as the format specifies.
    @inlinable @inline(__always)
    package mutating func readInteger<I: WireInteger>(as encoding: IntegerEncoding) throws(CodecError) -> I {
        switch encoding {
        case .zigZag where I.isSigned:
            let folded = I.WireForm.Magnitude(truncatingIfNeeded: try readVarint())
            return try narrowed(I.WireForm(truncatingIfNeeded: (folded &>> 1) ^ (0 &- (folded & 1))))
        case .varint, .zigZag:
            return try narrowed(I.WireForm(truncatingIfNeeded: try readVarint()))
        case .fixed:
            let value: I.WireForm = try readLittleEndian()
            return try narrowed(value)
        }
    }

    /// The value in the type of its field. Only an `Int` or a `UInt` of 32 bits is narrower than the value on the wire.
    @inlinable @inline(__always)
    package func narrowed<W: FixedWidthInteger, I: FixedWidthInteger>(_ value: W) throws(CodecError) -> I {
        guard let narrowed = I(exactly: value) else { throw failure(.numberOutOfRange) }
        return narrowed
    }

    /// Reads four bytes.
    @inlinable @inline(__always)
    package mutating func readFloat() throws(CodecError) -> Float { Float(bitPattern: try readLittleEndian()) }

    /// Reads eight bytes.
    @inlinable @inline(__always)
    package mutating func readDouble() throws(CodecError) -> Double { Double(bitPattern: try readLittleEndian()) }

    /// Reads a length and UTF-8.
    @inlinable
    package mutating func readString() throws(CodecError) -> String {
        let bytes = try readDelimited()
        guard let text = string(utf8: bytes) else {
            position -= bytes.count
            throw failure(.invalidUTF8)
        }
        return text
    }

    /// Reads a length and bytes.
    @inlinable
    package mutating func readBytes() throws(CodecError) -> [UInt8] { Array(try readDelimited()) }

    /// Reads the number of an enum.
    @inlinable @inline(__always)
    package mutating func readEnum<E: WireEnum>() throws(CodecError) -> E {
        E(rawValue: Int32(truncatingIfNeeded: try readVarint()))
    }

    /// Reads a nested message and merges it into `message`.
    @inlinable
    package mutating func read<M: WireMessage>(message: inout M) throws(CodecError) {
        let length = try readLength()
        guard budget.enter() else { throw failure(.tooDeep) }
        let outerEnd = end
        end = position + length
        try visit(&message)
        end = outerEnd
        budget.leave()
    }
}

extension ProtobufReader {
    /// Reads the tag of the next field. Sets `tag` to zero at the end of the message.
    @inlinable @inline(__always)
    mutating func nextTag() throws(CodecError) {
        tagStart = position
        guard position < end else {
            tag = 0
            return
        }
        let byte = base[position]
        guard byte < 0x80 else {
            tag = try readLongTag()
            return
        }
        // Field number zero is an error here. A wire type that does not exist matches no field, and is an error when
        // the field is skipped.
        guard byte >= 8 else { throw failure(.invalidFieldNumber) }
        position &+= 1
        tag = UInt32(byte)
    }

    @inline(never)
    @usableFromInline
    mutating func readLongTag() throws(CodecError) -> UInt32 {
        guard let tag = UInt32(exactly: try readLongVarint()), tag >= 8 else {
            position = tagStart
            throw failure(.invalidFieldNumber)
        }
        return tag
    }

    @inlinable @inline(__always)
    mutating func readVarint() throws(CodecError) -> UInt64 {
        if position < end {
            let byte = base[position]
            if byte < 0x80 {
                position &+= 1
                return UInt64(byte)
            }
        }
        return try readLongVarint()
    }

    /// Reads a varint of any length, at most ten bytes and 64 bits.
    @inline(never)
    @usableFromInline
    mutating func readLongVarint() throws(CodecError) -> UInt64 {
        guard end &- position >= 8 else { return try readVarintByByte() }
        let word = UInt64(littleEndian: UnsafeRawPointer(base + position).loadUnaligned(as: UInt64.self))
        // The highest bit of each byte says whether another byte follows.
        let lasts = ~word & 0x8080_8080_8080_8080
        guard lasts != 0 else { return try readVarintByByte() }
        position &+= lasts.trailingZeroBitCount &>> 3 &+ 1
        // All bits up to the first mark. The groups of seven bits are then joined in pairs, fours and eights.
        var value = word & (lasts ^ (lasts &- 1)) & 0x7F7F_7F7F_7F7F_7F7F
        value = (value & 0x007F_007F_007F_007F) | (value & 0x7F00_7F00_7F00_7F00) &>> 1
        value = (value & 0x0000_3FFF_0000_3FFF) | (value & 0x3FFF_0000_3FFF_0000) &>> 2
        return (value & 0x0FFF_FFFF) | (value &>> 4 & 0x00FF_FFFF_F000_0000)
    }

    /// The same byte by byte, for the end of the input and for more than eight bytes.
    mutating func readVarintByByte() throws(CodecError) -> UInt64 {
        var value: UInt64 = 0
        var shift: UInt64 = 0
        while position < end {
            let byte = base[position]
            guard shift < 63 || byte <= 1 else { throw failure(.varintOverflow) }
            position += 1
            value |= UInt64(byte & 0x7F) &<< shift
            if byte < 0x80 { return value }
            shift += 7
        }
        throw failure(.truncated)
    }

    @inlinable @inline(__always)
    mutating func readLittleEndian<I: FixedWidthInteger>() throws(CodecError) -> I {
        guard end &- position >= MemoryLayout<I>.size else { throw failure(.truncated) }
        let value = UnsafeRawPointer(base + position).loadUnaligned(as: I.self)
        position &+= MemoryLayout<I>.size
        return I(littleEndian: value)
    }

    /// Reads a length, which must not exceed the rest of the message.
    @inlinable @inline(__always)
    mutating func readLength() throws(CodecError) -> Int {
        let length = try readVarint()
        guard length <= UInt64(truncatingIfNeeded: end &- position) else { throw failure(.truncated) }
        return Int(truncatingIfNeeded: length)
    }

    @inlinable @inline(__always)
    mutating func readDelimited() throws(CodecError) -> UnsafeBufferPointer<UInt8> {
        let length = try readLength()
        let bytes = UnsafeBufferPointer(start: base + position, count: length)
        position &+= length
        return bytes
    }

    /// The number of varints up to the end. Each has one byte without the continuation bit.
    @usableFromInline
    func countVarints() -> Int {
        var count = 0
        for index in position..<end where base[index] < 0x80 { count += 1 }
        return count
    }

    /// Skips the value of the field whose tag has been read.
    @inline(never)
    @usableFromInline
    mutating func skipField() throws(CodecError) { try skipValue(of: tag) }

    private mutating func skipValue(of tag: UInt32) throws(CodecError) {
        switch WireType(rawValue: tag & 7) {
        case .varint: _ = try readVarint()
        case .fixed64: let _: UInt64 = try readLittleEndian()
        case .fixed32: let _: UInt32 = try readLittleEndian()
        case .lengthDelimited: _ = try readDelimited()
        case .startGroup: try skipGroup(endingWith: tag & ~7 | WireType.endGroup.rawValue)
        case .endGroup: throw failure(.unmatchedGroup)
        case nil: throw failure(.invalidWireType)
        }
    }

    private mutating func skipGroup(endingWith endTag: UInt32) throws(CodecError) {
        guard budget.enter() else { throw failure(.tooDeep) }
        while true {
            guard position < end else { throw failure(.truncated) }
            guard let inner = UInt32(exactly: try readVarint()), inner >= 8 else { throw failure(.invalidFieldNumber) }
            if inner == endTag { break }
            try skipValue(of: inner)
        }
        budget.leave()
    }
}
