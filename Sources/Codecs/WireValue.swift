/// A value that a field can hold: a number, a string, bytes, an enum or a message.
///
/// A value writes and reads itself by one of the functions of ``ValueWriter`` and ``ValueReader``. The formats decide
/// how that looks on the wire. Types of an app can conform, for example to store an identifier as a `string` field:
///
///     struct UserID: WireValue {
///         var text = ""
///         var isDefault: Bool { text.isEmpty }
///         static func wireType(as encoding: IntegerEncoding) -> WireType { .lengthDelimited }
///         func write<W: ValueWriter>(to writer: inout W, as encoding: IntegerEncoding) throws(CodecError) {
///             writer.write(text)
///         }
///         mutating func read<R: ValueReader>(from reader: inout R, as encoding: IntegerEncoding) throws(CodecError) {
///             text = try reader.readString()
///         }
///     }
public protocol WireValue: Sendable {
    /// The default value: zero, `false` or empty.
    init()
    /// Whether the value is the default. A field without presence is not written then. Minus zero is not the default.
    var isDefault: Bool { get }
    /// The wire type of the value in protobuf.
    static func wireType(as encoding: IntegerEncoding) -> WireType
    /// Writes the value.
    func write<W: ValueWriter>(to writer: inout W, as encoding: IntegerEncoding) throws(CodecError)
    /// Reads the value.
    mutating func read<R: ValueReader>(from reader: inout R, as encoding: IntegerEncoding) throws(CodecError)
}

/// A value that can be the key of a map. It writes and reads itself as a string, an integer or a `Bool`. JSON writes
/// each of them as the name of a member, and XML as an attribute.
public protocol WireMapKey: WireValue, Hashable {
    /// Whether the value is written before `other`: numbers by value, strings by UTF-8, `false` before `true`.
    func precedes(_ other: Self) -> Bool
    /// The length of a text in bytes of UTF-8, which ``CodecLimits/maximumKeyLength`` limits. The default is 0.
    var utf8Length: Int { get }
}

extension WireMapKey {
    /// Zero, because the key is not a text.
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

/// The encoding of an integer in protobuf. It has no effect in JSON, in XML or on values of other types.
public enum IntegerEncoding: Sendable, Hashable, CaseIterable {
    /// `int32`, `int64`, `uint32`, `uint64`: short for small values, and ten bytes for negative ones.
    case varint
    /// `sint32`, `sint64`: short for values near zero. For an unsigned integer it is the same as ``varint``.
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
    /// A length, and as many bytes.
    case lengthDelimited = 2
    /// The start of a group. Proto3 cannot declare groups, but a peer can send them.
    case startGroup = 3
    /// The end of a group.
    case endGroup = 4
    /// Four bytes, little-endian.
    case fixed32 = 5
}

/// The functions by which a value writes itself.
///
/// The writers of this package conform. An app calls these functions, and does not conform.
public protocol ValueWriter {
    /// Writes a `Bool`.
    mutating func write(_ value: Bool)
    /// Writes an integer. In JSON an integer of 64 bits is a string of digits. In XML all are digits.
    mutating func write<I: WireInteger>(_ value: I, as encoding: IntegerEncoding)
    /// Writes a 32-bit float. In JSON and XML it has the shortest digits that read as the same value. NaN and infinities are
    /// strings in JSON, and `NaN`, `INF` and `-INF` in XML.
    mutating func write(_ value: Float)
    /// Writes a 64-bit float. In JSON and XML it has the shortest digits that read as the same value. NaN and infinities are
    /// strings in JSON, and `NaN`, `INF` and `-INF` in XML.
    mutating func write(_ value: Double)
    /// Writes a text.
    mutating func write(_ value: String)
    /// Writes bytes. In JSON and XML they are base64 with padding (RFC 4648, section 4).
    mutating func write(_ value: [UInt8])
    /// Writes an enum: its number in protobuf, its name in JSON and XML. A value without a name is a number there too.
    mutating func write<E: WireEnum>(enum value: E)
    /// Writes a nested message. Throws `.tooDeep` beyond the limit.
    mutating func write<M: WireMessage>(message value: M) throws(CodecError)
    /// Writes a JSON value: the value itself in JSON, its text in protobuf and XML. Throws `.tooDeep` beyond the
    /// limit, and `.invalidNumber` for a number that is not finite.
    mutating func write(json value: JSONValue) throws(CodecError)
}

/// The functions by which a value reads itself. Each throws the error of its input.
///
/// The readers of this package conform. An app calls these functions, and does not conform.
public protocol ValueReader {
    /// Reads a `Bool`.
    mutating func readBool() throws(CodecError) -> Bool
    /// Reads an integer. In JSON it is a number or a string. One that the type cannot represent is an error in JSON and XML. In
    /// protobuf a varint that is too large for 32 bits loses its upper bits, as the format specifies.
    mutating func readInteger<I: WireInteger>(as encoding: IntegerEncoding) throws(CodecError) -> I
    /// Reads a 32-bit float.
    mutating func readFloat() throws(CodecError) -> Float
    /// Reads a 64-bit float.
    mutating func readDouble() throws(CodecError) -> Double
    /// Reads a text. Invalid UTF-8 is an error.
    mutating func readString() throws(CodecError) -> String
    /// Reads bytes. In JSON and XML they are base64, standard or URL-safe, with or without padding.
    mutating func readBytes() throws(CodecError) -> [UInt8]
    /// Reads an enum: a number in protobuf, a name or a number in JSON and XML.
    mutating func readEnum<E: WireEnum>() throws(CodecError) -> E
    /// Reads a nested message into `message`.
    mutating func read<M: WireMessage>(message: inout M) throws(CodecError)
    /// Reads a JSON value: the value itself in JSON, its text in protobuf and XML.
    mutating func readJSON() throws(CodecError) -> JSONValue
}

// The scalar types of proto3. Each calls its primitive.

extension Bool: WireMapKey {
    /// Whether the value is `false`.
    @inlinable
    public var isDefault: Bool { !self }
    /// `.varint`.
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
    /// Whether the value is `false` and `other` is `true`.
    public func precedes(_ other: Bool) -> Bool { !self && other }
}

extension WireInteger {
    /// Whether the value is zero.
    @inlinable
    public var isDefault: Bool { self == 0 }
    /// `.varint`, or with ``IntegerEncoding/fixed`` one of the fixed types.
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

/// `int64`, `sint64` or `sfixed64`, on every platform. If `Int` has 32 bits, a value that it cannot represent is an
/// error in reading (``CodecError/Code/numberOutOfRange``).
extension Int: WireInteger {
    /// An integer of 64 bits on every platform.
    public typealias WireForm = Int64
}

/// `uint64` or `fixed64`, on every platform. If `UInt` has 32 bits, a value that it cannot represent is an error in
/// reading (``CodecError/Code/numberOutOfRange``).
extension UInt: WireInteger {
    /// An integer of 64 bits on every platform.
    public typealias WireForm = UInt64
}

extension Float: WireValue {
    /// Whether the value is plus zero.
    @inlinable
    public var isDefault: Bool { bitPattern == 0 }
    /// `.fixed32`.
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
    /// Whether the value is plus zero.
    @inlinable
    public var isDefault: Bool { bitPattern == 0 }
    /// `.fixed64`.
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
    /// Whether the text is empty.
    @inlinable
    public var isDefault: Bool { isEmpty }
    /// `.lengthDelimited`.
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
    /// The length in bytes of UTF-8.
    @inlinable
    public var utf8Length: Int { utf8.count }
    /// Whether the UTF-8 comes before that of `other`. `<` compares by canonical equivalence.
    @inlinable
    public func precedes(_ other: String) -> Bool {
        utf8.withContiguousStorageIfAvailable { left in
            other.utf8.withContiguousStorageIfAvailable { right in Codecs.precedes(left, right) }
        }?.flatMap { $0 } ?? utf8.lexicographicallyPrecedes(other.utf8)
    }
}

extension String {
    /// Replaces the string by `text`.
    ///
    /// In a new message the string is empty and owns nothing. The compiler does not know that, and a release would find
    /// it out again for each field. So a string with the bits of `String()` is not released. An empty string with
    /// reserved room has other bits.
    @inlinable @inline(__always)
    mutating func fill(with text: String) {
        withUnsafeMutablePointer(to: &self) { place in
            if String.isBareEmpty(place) { place.initialize(to: text) } else { place.pointee = text }
        }
    }

    /// Whether the string at `place` has the bits of `String()`. `false` if a string is not two words of 64 bits.
    @inlinable @inline(__always)
    static func isBareEmpty(_ place: UnsafePointer<String>) -> Bool {
        guard MemoryLayout<String>.size == MemoryLayout<(UInt64, UInt64)>.size else { return false }
        // The guard has checked the size. The bits of an empty string own nothing.
        let empty = unsafeBitCast(String(), to: (UInt64, UInt64).self)
        let words = UnsafeRawPointer(place)
        return words.load(as: UInt64.self) ^ empty.0 | words.load(fromByteOffset: 8, as: UInt64.self) ^ empty.1 == 0
    }
}

/// Bytes: `bytes` in protobuf, base64 in JSON and XML.
extension Array: WireValue where Element == UInt8 {
    /// Whether there are no bytes.
    @inlinable
    public var isDefault: Bool { isEmpty }
    /// `.lengthDelimited`.
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

/// An enum of proto3. Such an enum is open: an unknown number is kept and written again.
///
/// Conform a structure that stores its `rawValue`, so that no number is lost:
///
///     struct Colour: WireEnum {
///         var rawValue: Int32
///         init(rawValue: Int32) { self.rawValue = rawValue }
///         static let red = Colour(rawValue: 0)
///         static let names: [(number: Int32, name: StaticString)] = [(0, "COLOUR_RED")]
///     }
public protocol WireEnum: WireValue, Hashable, RawRepresentable<Int32> {
    /// The value with this number, which may be unknown. Zero is the default.
    init(rawValue: Int32)
    /// The known numbers with their names in JSON and XML. The lookup is fastest if the numbers are 0, 1, 2 and so on.
    static var names: [(number: Int32, name: StaticString)] { get }
}

extension WireEnum {
    /// The value with the number zero.
    @inlinable
    public init() { self.init(rawValue: 0) }

    /// Whether the number is zero.
    @inlinable
    public var isDefault: Bool { rawValue == 0 }

    /// The name of the number, or `nil` if the number is unknown.
    @inlinable
    public var name: StaticString? {
        let names = Self.names
        if let index = Int(exactly: rawValue), index >= 0, index < names.count, names[index].number == rawValue {
            return names[index].name
        }
        return names.first { $0.number == rawValue }?.name
    }

    /// `.varint`.
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
