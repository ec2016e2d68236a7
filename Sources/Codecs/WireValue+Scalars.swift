// The scalar types of proto3. Each only names its primitive.

extension Bool: WireMapKey {
    /// Whether it is false.
    @inlinable
    public var isDefault: Bool { !self }
    /// Varint.
    @inlinable
    public static func wireType(as encoding: IntegerEncoding) -> WireType { .varint }
    /// Writes the value.
    @inlinable
    public func write<W: ValueWriter>(to writer: inout W, as encoding: IntegerEncoding) throws(CodecError) {
        writer.write(self)
    }
    /// Reads a value.
    @inlinable
    public mutating func read<R: ValueReader>(from reader: inout R, as encoding: IntegerEncoding) throws(CodecError) {
        self = try reader.readBool()
    }
    /// Whether the value is false and `other` true.
    public func precedes(_ other: Bool) -> Bool { !self && other }
    /// Writes the value as the name of a JSON member.
    public func writeName(to writer: inout JSONWriter) { writer.write(self ? "true" : "false") }
    /// Reads the value from the name of a JSON member.
    public init(name reader: inout JSONReader) throws(CodecError) { self = try reader.readQuotedBool() }
}

extension WireInteger {
    /// Whether it is zero.
    @inlinable
    public var isDefault: Bool { self == 0 }
    /// Varint or fixed.
    @inlinable
    public static func wireType(as encoding: IntegerEncoding) -> WireType {
        guard encoding == .fixed else { return .varint }
        return bitWidth == 32 ? .fixed32 : .fixed64
    }
    /// Writes the value.
    @inlinable
    public func write<W: ValueWriter>(to writer: inout W, as encoding: IntegerEncoding) throws(CodecError) {
        writer.write(self, as: encoding)
    }
    /// Reads a value.
    @inlinable
    public mutating func read<R: ValueReader>(from reader: inout R, as encoding: IntegerEncoding) throws(CodecError) {
        self = try reader.readInteger(as: encoding)
    }
    /// Whether the value is less than `other`.
    @inlinable
    public func precedes(_ other: Self) -> Bool { self < other }
    /// Writes the value as the name of a JSON member.
    @inlinable
    public func writeName(to writer: inout JSONWriter) {
        writer.write(quoted: self)
    }
    /// Reads the value from the name of a JSON member.
    @inlinable
    public init(name reader: inout JSONReader) throws(CodecError) {
        self = try reader.readQuotedInteger()
    }
}

extension Int32: WireInteger {}
extension Int64: WireInteger {}
extension UInt32: WireInteger {}
extension UInt64: WireInteger {}

extension Float: WireValue {
    /// Whether it is plus zero.
    @inlinable
    public var isDefault: Bool { bitPattern == 0 }
    /// Four bytes.
    @inlinable
    public static func wireType(as encoding: IntegerEncoding) -> WireType { .fixed32 }
    /// Writes the value.
    @inlinable
    public func write<W: ValueWriter>(to writer: inout W, as encoding: IntegerEncoding) throws(CodecError) {
        writer.write(self)
    }
    /// Reads a value.
    @inlinable
    public mutating func read<R: ValueReader>(from reader: inout R, as encoding: IntegerEncoding) throws(CodecError) {
        self = try reader.readFloat()
    }
}

extension Double: WireValue {
    /// Whether it is plus zero.
    @inlinable
    public var isDefault: Bool { bitPattern == 0 }
    /// Eight bytes.
    @inlinable
    public static func wireType(as encoding: IntegerEncoding) -> WireType { .fixed64 }
    /// Writes the value.
    @inlinable
    public func write<W: ValueWriter>(to writer: inout W, as encoding: IntegerEncoding) throws(CodecError) {
        writer.write(self)
    }
    /// Reads a value.
    @inlinable
    public mutating func read<R: ValueReader>(from reader: inout R, as encoding: IntegerEncoding) throws(CodecError) {
        self = try reader.readDouble()
    }
}

extension String: WireMapKey {
    /// Whether it is empty.
    @inlinable
    public var isDefault: Bool { isEmpty }
    /// Length-delimited.
    @inlinable
    public static func wireType(as encoding: IntegerEncoding) -> WireType { .lengthDelimited }
    /// Writes the value.
    @inlinable
    public func write<W: ValueWriter>(to writer: inout W, as encoding: IntegerEncoding) throws(CodecError) {
        writer.write(self)
    }
    /// Reads a value.
    @inlinable
    public mutating func read<R: ValueReader>(from reader: inout R, as encoding: IntegerEncoding) throws(CodecError) {
        fill(with: try reader.readString())
    }
    /// Its length in bytes of UTF-8.
    @inlinable
    public var utf8Length: Int { utf8.count }
    /// Whether the value's UTF-8 comes before that of `other`; `<` would compare what Unicode takes for equal.
    @inlinable
    public func precedes(_ other: String) -> Bool {
        utf8.withContiguousStorageIfAvailable { left in
            other.utf8.withContiguousStorageIfAvailable { right in Codecs.precedes(left, right) }
        }?.flatMap { $0 } ?? utf8.lexicographicallyPrecedes(other.utf8)
    }
    /// Writes the value as the name of a JSON member.
    @inlinable
    public func writeName(to writer: inout JSONWriter) {
        writer.write(self)
    }
    /// Reads the value from the name of a JSON member.
    @inlinable
    public init(name reader: inout JSONReader) throws(CodecError) {
        self = try reader.readString()
    }
}

extension String {
    /// Puts `text` in the place of what stands here.
    ///
    /// In a new message that is an empty string, which owns nothing. The compiler can't know that, and the runtime would find it out
    /// anew for each field; so what has the very bits of `String()` is not released. An empty string that has reserved room has
    /// other bits.
    @inlinable @inline(__always)
    mutating func fill(with text: String) {
        withUnsafeMutablePointer(to: &self) { place in
            if String.isBareEmpty(place) { place.initialize(to: text) } else { place.pointee = text }
        }
    }

    /// Whether the string at `place` has the bits of `String()`. `false` where a string is not two words of 64 bits.
    @inlinable @inline(__always)
    static func isBareEmpty(_ place: UnsafePointer<String>) -> Bool {
        guard MemoryLayout<String>.size == MemoryLayout<(UInt64, UInt64)>.size else { return false }
        // As many bytes as the guard has made sure of, and bits that own nothing.
        let empty = unsafeBitCast(String(), to: (UInt64, UInt64).self)
        let words = UnsafeRawPointer(place)
        return words.load(as: UInt64.self) ^ empty.0 | words.load(fromByteOffset: 8, as: UInt64.self) ^ empty.1 == 0
    }
}

/// Bytes: `bytes` in protobuf, base64 in JSON.
extension Array: WireValue where Element == UInt8 {
    /// Whether it is empty.
    @inlinable
    public var isDefault: Bool { isEmpty }
    /// Length-delimited.
    @inlinable
    public static func wireType(as encoding: IntegerEncoding) -> WireType { .lengthDelimited }
    /// Writes the value.
    @inlinable
    public func write<W: ValueWriter>(to writer: inout W, as encoding: IntegerEncoding) throws(CodecError) {
        writer.write(self)
    }
    /// Reads a value.
    @inlinable
    public mutating func read<R: ValueReader>(from reader: inout R, as encoding: IntegerEncoding) throws(CodecError) {
        self = try reader.readBytes()
    }
}
