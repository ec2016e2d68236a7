/// A message that declares its fields once, and so can be carried in every wire format.
///
///     struct Greeting: WireMessage {
///         var text = ""
///         var times: Int32 = 0
///         init() {}
///         mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
///             try visitor.field(1, "text", &text)
///             try visitor.field(2, "times", &times)
///         }
///     }
///
/// The declaration is a straight line of calls: the same fields, in ascending number, on every visit. A writer only reads
/// the values; a reader assigns those that the input holds. Names are the lowerCamelCase names of the proto3 JSON mapping.
///
/// A message that is not optional is always written; one that may be absent is declared optional, and ``Indirect`` if it may
/// hold a message of its own type.
public protocol WireMessage: WireValue {
    /// A message with every field at its default.
    init()

    /// Shows every field to `visitor`, in ascending number; ``UnknownFields``, if the message keeps them, last.
    mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError)

    /// Whether ``visitFields(_:)`` does nothing but show stored properties: it assigns none, and calls nothing that does.
    ///
    /// A message that says so is written without a copy, which would count one more reference to each of its strings and
    /// collections. It must be true: a property that a visit assigned during a write would be released twice. Messages with
    /// `weak` properties can't say so. The default is `false`.
    static var unsafeEncodesInPlace: Bool { get }

    /// Makes a visit by a codec of this package, specialised for this type. The package implements it.
    mutating func perform(_ visit: CodecVisit) throws(CodecError)
}

/// What a message shows its fields to: a reader or a writer of one wire format.
///
/// `number` is the protobuf field number, 1 to 536,870,911; `name` the JSON name.
public protocol FieldVisitor {
    /// A field without presence: absent on the wire when it has its default.
    mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T,
        as encoding: IntegerEncoding
    ) throws(CodecError)

    /// A field with presence: absent on the wire when it is `nil`, and only then.
    mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T?,
        as encoding: IntegerEncoding
    ) throws(CodecError)

    /// A member of a oneof, which is declared as one optional enum with a case for each member:
    ///
    ///     enum Source { case url(String), file(Int64) }
    ///     var source: Source?
    ///
    ///     try visitor.oneof(1, "url", &source) { if case .url(let url) = $0 { url } else { nil } } set: { .url($0) }
    ///     try visitor.oneof(2, "file", &source) { if case .file(let file) = $0 { file } else { nil } } set: { .file($0) }
    ///
    /// A member that is set is written also if it has its default. In protobuf the last member that comes counts; in
    /// JSON a oneof that is given twice is refused.
    ///
    /// - Parameters:
    ///   - get: the value of this member; `nil` if `choice` is another.
    ///   - set: the choice that is this member with a value.
    mutating func oneof<Choice, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ choice: inout Choice?,
        as encoding: IntegerEncoding,
        get: (Choice) -> T?,
        set: (T) -> Choice
    ) throws(CodecError)

    /// A repeated field. In protobuf, numbers are written packed unless `packed` is false (`[packed = false]`), and read in
    /// both ways. `packed` means nothing to other types, and to JSON.
    mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [T],
        as encoding: IntegerEncoding,
        packed: Bool
    ) throws(CodecError)

    /// A map, written in the order of its keys, so that equal messages give equal bytes. `encoding` is that of the values.
    mutating func field<K: WireMapKey, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [K: T],
        as encoding: IntegerEncoding,
        keys: IntegerEncoding
    ) throws(CodecError)

    /// An identifier without presence: text that programs use as a key. A reader refuses one that is longer than
    /// ``CodecLimits/maximumKeyLength``. The default implementation has no limit.
    mutating func identifier(_ number: UInt32, _ name: StaticString, _ value: inout String) throws(CodecError)

    /// An identifier with presence.
    mutating func identifier(_ number: UInt32, _ name: StaticString, _ value: inout String?) throws(CodecError)

    /// A repeated field of identifiers. The limit is that of each element.
    mutating func identifier(_ number: UInt32, _ name: StaticString, _ values: inout [String]) throws(CodecError)

    /// Fields that the message does not declare. Formats that cannot keep them leave the storage alone.
    mutating func unknownFields(_ storage: inout UnknownFields) throws(CodecError)
}

extension FieldVisitor {
    /// An identifier without presence, with no limit on its length.
    @inlinable @inline(__always)
    public mutating func identifier(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout String
    ) throws(CodecError) {
        try field(number, name, &value, as: .varint)
    }

    /// An identifier with presence, with no limit on its length.
    @inlinable @inline(__always)
    public mutating func identifier(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout String?
    ) throws(CodecError) {
        try field(number, name, &value, as: .varint)
    }

    /// A repeated field of identifiers, with no limit on their length.
    @inlinable @inline(__always)
    public mutating func identifier(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [String]
    ) throws(CodecError) {
        try field(number, name, &values, as: .varint)
    }

    /// A field without presence; integers as varints.
    @inlinable @inline(__always)
    public mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T
    ) throws(CodecError) {
        try field(number, name, &value, as: .varint)
    }

    /// A field with presence; integers as varints.
    @inlinable @inline(__always)
    public mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T?
    ) throws(CodecError) {
        try field(number, name, &value, as: .varint)
    }

    /// A member of a oneof; integers as varints.
    @inlinable @inline(__always)
    public mutating func oneof<Choice, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ choice: inout Choice?,
        get: (Choice) -> T?,
        set: (T) -> Choice
    ) throws(CodecError) {
        try oneof(number, name, &choice, as: .varint, get: get, set: set)
    }

    /// A repeated field; integers as varints.
    @inlinable @inline(__always)
    public mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [T]
    ) throws(CodecError) {
        try field(number, name, &values, as: .varint, packed: true)
    }

    /// A repeated field, numbers packed.
    @inlinable @inline(__always)
    public mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [T],
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        try field(number, name, &values, as: encoding, packed: true)
    }

    /// A repeated field, packed or not; integers as varints.
    @inlinable @inline(__always)
    public mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [T],
        packed: Bool
    ) throws(CodecError) {
        try field(number, name, &values, as: .varint, packed: packed)
    }

    /// A map; integers as varints.
    @inlinable @inline(__always)
    public mutating func field<K: WireMapKey, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [K: T]
    ) throws(CodecError) {
        try field(number, name, &values, as: .varint, keys: .varint)
    }

    /// A map; integers that are keys as varints.
    @inlinable @inline(__always)
    public mutating func field<K: WireMapKey, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [K: T],
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        try field(number, name, &values, as: encoding, keys: .varint)
    }

    /// A map; integers that are values as varints.
    @inlinable @inline(__always)
    public mutating func field<K: WireMapKey, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [K: T],
        keys: IntegerEncoding
    ) throws(CodecError) {
        try field(number, name, &values, as: .varint, keys: keys)
    }
}

extension WireMessage {
    /// Visits may do what they like.
    @inlinable
    public static var unsafeEncodesInPlace: Bool { false }

    /// Calls `body`, which only reads, with something mutable that has the fields of the message: a visit needs that.
    ///
    /// It is the message's bits in another place, without references of their own, if the type allows it. Not the message where
    /// it stands: several threads may write it at the same time, and to each of them a visit looks like a change.
    @inlinable @inline(__always)
    func visited(_ body: (inout Self) throws(CodecError) -> Void) throws(CodecError) {
        guard Self.unsafeEncodesInPlace else {
            var copy = self
            return try body(&copy)
        }
        try withUnsafePointer(to: self) { message throws(CodecError) in
            try withUnsafeTemporaryAllocation(of: Self.self, capacity: 1) { place throws(CodecError) in
                guard let base = place.baseAddress else { return }
                UnsafeMutableRawPointer(base).copyMemory(from: message, byteCount: MemoryLayout<Self>.size)
                try body(&base.pointee)
            }
        }
    }

    /// A message has no default of its own to be left out for.
    @inlinable
    public var isDefault: Bool { false }

    /// Length-delimited.
    @inlinable
    public static func wireType(as encoding: IntegerEncoding) -> WireType { .lengthDelimited }

    /// Writes the message as a nested one.
    @inlinable
    public func write<W: ValueWriter>(to writer: inout W, as encoding: IntegerEncoding) throws(CodecError) {
        try writer.write(message: self)
    }

    /// Reads a nested message.
    @inlinable
    public mutating func read<R: ValueReader>(from reader: inout R, as encoding: IntegerEncoding) throws(CodecError) {
        try reader.read(message: &self)
    }
}
