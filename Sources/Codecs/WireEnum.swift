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
