/// A value that a field can hold: a number, a string, bytes, an enum or a message.
///
/// A value says only what it is, in terms of the primitives of ``ValueWriter`` and ``ValueReader``; how that looks on the
/// wire is the format's affair.
public protocol WireValue: Sendable {
    /// The default value of proto3: zero, false, empty.
    init()
    /// Whether the value is the default, which fields without presence leave out. Minus zero is not.
    var isDefault: Bool { get }
    /// How protobuf frames the value.
    static func wireType(as encoding: IntegerEncoding) -> WireType
    /// Writes the value.
    func write<W: ValueWriter>(to writer: inout W, as encoding: IntegerEncoding) throws(CodecError)
    /// Reads the value.
    mutating func read<R: ValueReader>(from reader: inout R, as encoding: IntegerEncoding) throws(CodecError)
}

/// A value that a map can have as its key: a string, an integer or a truth value.
public protocol WireMapKey: WireValue, Hashable {
    /// Whether the value is written before `other`: numbers by their value, strings by their UTF-8, false before true.
    func precedes(_ other: Self) -> Bool
    /// The length of text in bytes of UTF-8, which ``CodecLimits/maximumKeyLength`` limits; 0, the default, for other keys.
    var utf8Length: Int { get }
}

extension WireMapKey {
    /// Zero: the key is no text.
    @inlinable
    public var utf8Length: Int { 0 }
}

/// The integers of protobuf: 32 and 64 bits, signed and unsigned. `Int` and `UInt` have 64 bits on the wire.
///
/// `Int32`, `Int64`, `UInt32`, `UInt64`, `Int` and `UInt` conform. Other types cannot be read or written as integers.
public protocol WireInteger: WireMapKey, FixedWidthInteger {
    /// The integer that protobuf has for the type: `Int64` for `Int`, `UInt64` for `UInt`, and the type itself for the
    /// others.
    associatedtype WireForm: FixedWidthInteger = Self
}

/// How protobuf writes an integer; JSON has but one way. Values that are not integers do not care.
public enum IntegerEncoding: Sendable, Hashable, CaseIterable {
    /// `int32`, `int64`, `uint32`, `uint64`: short for small values, ten bytes for negative ones.
    case varint
    /// `sint32`, `sint64`: short for values near zero. On an unsigned integer it is ``varint``.
    case zigZag
    /// `fixed32`, `sfixed32`, `fixed64`, `sfixed64`: four or eight bytes.
    case fixed
}

/// The wire types of protobuf (Protocol Buffers, "Encoding": Message Structure).
public enum WireType: UInt32, Sendable, Hashable {
    /// A variable-width integer.
    case varint = 0
    /// Eight bytes, little-endian.
    case fixed64 = 1
    /// A length, then as many bytes.
    case lengthDelimited = 2
    /// The start of a group, which proto3 no longer declares but a peer may send.
    case startGroup = 3
    /// The end of a group.
    case endGroup = 4
    /// Four bytes, little-endian.
    case fixed32 = 5
}

/// The primitives that values write themselves with.
public protocol ValueWriter {
    /// Writes a truth value.
    mutating func write(_ value: Bool)
    /// Writes an integer.
    mutating func write<I: WireInteger>(_ value: I, as encoding: IntegerEncoding)
    /// Writes a 32-bit float.
    mutating func write(_ value: Float)
    /// Writes a 64-bit float.
    mutating func write(_ value: Double)
    /// Writes text.
    mutating func write(_ value: String)
    /// Writes bytes.
    mutating func write(_ value: [UInt8])
    /// Writes an enum: its name where the format has names, else its number.
    mutating func write<E: WireEnum>(enum value: E)
    /// Writes a nested message.
    mutating func write<M: WireMessage>(message value: M) throws(CodecError)
    /// Writes a JSON value: as it is in JSON, as a string with its text in protobuf.
    mutating func write(json value: JSONValue) throws(CodecError)
}

/// The primitives that values read themselves with.
public protocol ValueReader {
    /// Reads a truth value.
    mutating func readBool() throws(CodecError) -> Bool
    /// Reads an integer.
    mutating func readInteger<I: WireInteger>(as encoding: IntegerEncoding) throws(CodecError) -> I
    /// Reads a 32-bit float.
    mutating func readFloat() throws(CodecError) -> Float
    /// Reads a 64-bit float.
    mutating func readDouble() throws(CodecError) -> Double
    /// Reads text; valid UTF-8 or an error.
    mutating func readString() throws(CodecError) -> String
    /// Reads bytes.
    mutating func readBytes() throws(CodecError) -> [UInt8]
    /// Reads the number of an enum's value.
    mutating func readEnum<E: WireEnum>() throws(CodecError) -> E
    /// Reads a nested message into `message`.
    mutating func read<M: WireMessage>(message: inout M) throws(CodecError)
    /// Reads a JSON value: as it is in JSON, from a string with its text in protobuf.
    mutating func readJSON() throws(CodecError) -> JSONValue
}

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
}

extension WireInteger {
    /// Whether it is zero.
    @inlinable
    public var isDefault: Bool { self == 0 }
    /// Varint or fixed.
    @inlinable
    public static func wireType(as encoding: IntegerEncoding) -> WireType {
        guard encoding == .fixed else { return .varint }
        return WireForm.bitWidth == 32 ? .fixed32 : .fixed64
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
}

extension Int32: WireInteger {}
extension Int64: WireInteger {}
extension UInt32: WireInteger {}
extension UInt64: WireInteger {}

/// An `int64`, `sint64` or `sfixed64`. Where `Int` has 32 bits, a greater value is an error when it is read
/// (``CodecError/Code/numberOutOfRange``).
extension Int: WireInteger {
    /// An integer of 64 bits on every platform.
    public typealias WireForm = Int64
}

/// A `uint64` or `fixed64`. Where `UInt` has 32 bits, a greater value is an error when it is read
/// (``CodecError/Code/numberOutOfRange``).
extension UInt: WireInteger {
    /// An integer of 64 bits on every platform.
    public typealias WireForm = UInt64
}

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
}

extension String {
    /// Puts `text` in the place of what stands here.
    ///
    /// In a new message that is an empty string, which owns nothing. The compiler can't know that, and the runtime
    /// would find it out anew for each field; so what has the very bits of `String()` is not released. An empty string
    /// that has reserved room has other bits.
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

/// An enum of proto3, which is open: a number that this version does not know is kept, and written again.
///
/// Conform a structure with a stored `rawValue`, so that no number is lost:
///
///     struct Colour: WireEnum {
///         var rawValue: Int32
///         init(rawValue: Int32) { self.rawValue = rawValue }
///         static let red = Colour(rawValue: 0)
///         static let names: [(number: Int32, name: StaticString)] = [(0, "COLOUR_RED")]
///     }
public protocol WireEnum: WireValue, Hashable, RawRepresentable<Int32> {
    /// The value with this number, known or not. Zero is the default.
    init(rawValue: Int32)
    /// The names of the known numbers, as JSON writes them. Cheapest when the numbers run from zero up without a gap.
    static var names: [(number: Int32, name: StaticString)] { get }
}

extension WireEnum {
    /// Zero.
    @inlinable
    public init() { self.init(rawValue: 0) }

    /// Whether the number is zero.
    @inlinable
    public var isDefault: Bool { rawValue == 0 }

    /// The name of the number, if it is known.
    @inlinable
    public var name: StaticString? {
        let names = Self.names
        if let index = Int(exactly: rawValue), index >= 0, index < names.count, names[index].number == rawValue {
            return names[index].name
        }
        return names.first { $0.number == rawValue }?.name
    }

    /// Varint.
    @inlinable
    public static func wireType(as encoding: IntegerEncoding) -> WireType { .varint }

    /// Writes the value.
    @inlinable
    public func write<W: ValueWriter>(to writer: inout W, as encoding: IntegerEncoding) throws(CodecError) {
        writer.write(enum: self)
    }

    /// Reads a value.
    @inlinable
    public mutating func read<R: ValueReader>(from reader: inout R, as encoding: IntegerEncoding) throws(CodecError) {
        self = try reader.readEnum()
    }
}
