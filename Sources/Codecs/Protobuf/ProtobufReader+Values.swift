extension ProtobufReader: ValueReader {
    /// Reads a varint; anything but zero is true.
    @inlinable @inline(__always)
    public mutating func readBool() throws(CodecError) -> Bool { try readVarint() != 0 }

    /// Reads an integer. A varint too large for 32 bits loses its upper half, as the format has it.
    @inlinable @inline(__always)
    public mutating func readInteger<I: WireInteger>(as encoding: IntegerEncoding) throws(CodecError) -> I {
        switch encoding {
        case .zigZag where I.isSigned:
            let folded = I.Magnitude(truncatingIfNeeded: try readVarint())
            return I(truncatingIfNeeded: (folded &>> 1) ^ (0 &- (folded & 1)))
        case .varint, .zigZag:
            return I(truncatingIfNeeded: try readVarint())
        case .fixed:
            return try readLittleEndian()
        }
    }

    /// Reads four bytes.
    @inlinable @inline(__always)
    public mutating func readFloat() throws(CodecError) -> Float { Float(bitPattern: try readLittleEndian()) }

    /// Reads eight bytes.
    @inlinable @inline(__always)
    public mutating func readDouble() throws(CodecError) -> Double { Double(bitPattern: try readLittleEndian()) }

    /// Reads length and UTF-8.
    @inlinable
    public mutating func readString() throws(CodecError) -> String {
        let bytes = try readDelimited()
        guard let text = string(utf8: bytes) else {
            position -= bytes.count
            throw failure(.invalidUTF8)
        }
        return text
    }

    /// Reads length and bytes.
    @inlinable
    public mutating func readBytes() throws(CodecError) -> [UInt8] { Array(try readDelimited()) }

    /// Reads the number of a value.
    @inlinable @inline(__always)
    public mutating func readEnum<E: WireEnum>() throws(CodecError) -> E {
        E(rawValue: Int32(truncatingIfNeeded: try readVarint()))
    }

    /// Reads a nested message and merges it into `message`.
    @inlinable
    public mutating func read<M: WireMessage>(message: inout M) throws(CodecError) {
        let length = try readLength()
        depth += 1
        guard depth < maximumDepth else { throw failure(.tooDeep) }
        let outerEnd = end
        end = position + length
        try message.readFields(from: &self)
        end = outerEnd
        depth -= 1
    }
}

extension ProtobufReader {
    /// Reads the tag of the next field, or notes the end of the message.
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
        // Field number zero. Illegal wire types match no field and are found where the field is skipped.
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

    /// A varint of any length, at most ten bytes and 64 bits.
    @inline(never)
    @usableFromInline
    mutating func readLongVarint() throws(CodecError) -> UInt64 {
        guard end &- position >= 8 else { return try readVarintByByte() }
        let word = UInt64(littleEndian: UnsafeRawPointer(base + position).loadUnaligned(as: UInt64.self))
        // The highest bit of each byte says whether another one follows.
        let lasts = ~word & 0x8080_8080_8080_8080
        guard lasts != 0 else { return try readVarintByByte() }
        position &+= lasts.trailingZeroBitCount &>> 3 &+ 1
        // All bits up to the first of the marks; then the sevens are pushed together, in pairs, fours and eights.
        var value = word & (lasts ^ (lasts &- 1)) & 0x7F7F_7F7F_7F7F_7F7F
        value = (value & 0x007F_007F_007F_007F) | (value & 0x7F00_7F00_7F00_7F00) &>> 1
        value = (value & 0x0000_3FFF_0000_3FFF) | (value & 0x3FFF_0000_3FFF_0000) &>> 2
        return (value & 0x0FFF_FFFF) | (value &>> 4 & 0x00FF_FFFF_F000_0000)
    }

    /// The same near the end of the input, and for more than eight bytes.
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

    /// A length that the input holds.
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

    /// How many varints stand between here and the end: each has one byte without the continuation bit.
    @usableFromInline
    func countVarints() -> Int {
        var count = 0
        for index in position..<end where base[index] < 0x80 { count += 1 }
        return count
    }

    /// Passes over the value of the field whose tag has been read.
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
        depth += 1
        guard depth < maximumDepth else { throw failure(.tooDeep) }
        while true {
            guard position < end else { throw failure(.truncated) }
            guard let inner = UInt32(exactly: try readVarint()), inner >= 8 else { throw failure(.invalidFieldNumber) }
            if inner == endTag { break }
            try skipValue(of: inner)
        }
        depth -= 1
    }
}
