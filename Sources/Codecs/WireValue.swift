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
    /// Writes the value as the name of a JSON member.
    func writeName(to writer: inout JSONWriter)
    /// Reads the value from the name of a JSON member.
    init(name reader: inout JSONReader) throws(CodecError)
}

extension WireMapKey {
    /// Zero: the key is no text.
    @inlinable
    public var utf8Length: Int { 0 }
}

/// The integers of protobuf: 32 and 64 bits, signed and unsigned.
public protocol WireInteger: WireMapKey, FixedWidthInteger {}

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
}
