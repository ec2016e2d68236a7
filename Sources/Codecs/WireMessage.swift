/// A message that declares its fields once and can be carried in every wire format.
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
/// The declaration is a straight line of calls. Every visit passes the same fields in the order of their numbers. A
/// writer only reads the values. A reader assigns the values that its input contains. The names are the lowerCamelCase
/// names of the proto3 JSON mapping, also in XML.
///
/// A nested message that is not optional is always written. Declare one that can be absent as optional, or as
/// ``Indirect`` if it can contain a message of its own type.
///
/// A wrong declaration is an error at the first use of the type (``CodecError/Code/invalidSchema``). Two fields must not
/// have one number or one name. A number is from 1 to 536,870,911, except 19,000 to 19,999, which protobuf reserves. The
/// `init()` must not set a field to another value than its default. The types of nested messages are checked
/// too, except those inside a ``WireValue`` of the app.
public protocol WireMessage: WireValue {
    /// A message with every field at its default: zero, `false`, empty or `nil`. A field with that value is not written,
    /// and a reader leaves a field that its input lacks as `init()` has set it.
    init()

    /// Passes every field to `visitor` in the order of the numbers. A property of type ``UnknownFields`` comes last.
    mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError)

    /// Whether ``visitFields(_:)`` only passes stored properties: it assigns no property, and calls nothing that assigns
    /// one. The default is `false`.
    ///
    /// A message of a type with `true` is written without a copy, which would retain each of its strings and
    /// collections. A wrong `true` is unsafe: a property that a visit assigns during a write is released twice. A type
    /// with a `weak` property must return `false`.
    static var unsafeEncodesInPlace: Bool { get }

    /// Makes a visit by a codec of this package, specialised for this type. The package implements it.
    mutating func perform(_ visit: CodecVisit) throws(CodecError)
}

/// The visitor of a message's fields: a reader or a writer of one wire format.
///
/// `number` is the protobuf field number: 1 to 536,870,911 without 19,000 to 19,999. `name` is the JSON name. Both are
/// unique in a message. The functions without `encoding` use ``IntegerEncoding/varint``.
public protocol FieldVisitor {
    /// A field without presence. It is not written if it has its default.
    mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T,
        as encoding: IntegerEncoding
    ) throws(CodecError)

    /// A field with presence. It is not written if it is `nil`.
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
    /// The member that is set is written even if it has its default. In protobuf the last member in the input counts.
    /// In JSON and XML a second member is an error (``CodecError/Code/repeatedOneof``).
    ///
    /// - Parameters:
    ///   - number: The number of the member in protobuf.
    ///   - name: The name of the member in JSON and XML.
    ///   - choice: The enum, which is `nil` if no member is set.
    ///   - encoding: How protobuf encodes an integer.
    ///   - get: returns the value of this member, or `nil` if `choice` is another member.
    ///   - set: returns the choice that is this member with the value.
    mutating func oneof<Choice, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ choice: inout Choice?,
        as encoding: IntegerEncoding,
        get: (Choice) -> T?,
        set: (T) -> Choice
    ) throws(CodecError)

    /// A repeated field. In protobuf, numbers are written packed unless `packed` is `false` (`[packed = false]` in a
    /// proto file). They are read both packed and unpacked. `packed` has no effect on other types or in JSON.
    mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [T],
        as encoding: IntegerEncoding,
        packed: Bool
    ) throws(CodecError)

    /// A map. It is written in the order of its keys. `encoding` is for integers that are values, `keys` for those that
    /// are keys.
    mutating func field<K: WireMapKey, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [K: T],
        as encoding: IntegerEncoding,
        keys: IntegerEncoding
    ) throws(CodecError)

    /// An identifier without presence: a text that programs use as a key. A codec of this package neither reads nor writes
    /// one that is longer than ``CodecLimits/maximumKeyLength``. The default implementation has no limit.
    mutating func identifier(_ number: UInt32, _ name: StaticString, _ value: inout String) throws(CodecError)

    /// An identifier with presence; see above.
    mutating func identifier(_ number: UInt32, _ name: StaticString, _ value: inout String?) throws(CodecError)

    /// A repeated field of identifiers. The limit applies to each element.
    mutating func identifier(_ number: UInt32, _ name: StaticString, _ values: inout [String]) throws(CodecError)

    /// The fields that the message type does not declare. A visitor whose format cannot keep them does nothing.
    mutating func unknownFields(_ storage: inout UnknownFields) throws(CodecError)
}

extension FieldVisitor {
    /// An identifier without presence. This implementation has no limit on its length.
    @inlinable @inline(__always)
    public mutating func identifier(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout String
    ) throws(CodecError) {
        try field(number, name, &value, as: .varint)
    }

    /// An identifier with presence. This implementation has no limit on its length.
    @inlinable @inline(__always)
    public mutating func identifier(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout String?
    ) throws(CodecError) {
        try field(number, name, &value, as: .varint)
    }

    /// A repeated field of identifiers. This implementation has no limit on their length.
    @inlinable @inline(__always)
    public mutating func identifier(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [String]
    ) throws(CodecError) {
        try field(number, name, &values, as: .varint)
    }

    /// A field without presence. Integers are varints.
    @inlinable @inline(__always)
    public mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T
    ) throws(CodecError) {
        try field(number, name, &value, as: .varint)
    }

    /// A field with presence. Integers are varints.
    @inlinable @inline(__always)
    public mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T?
    ) throws(CodecError) {
        try field(number, name, &value, as: .varint)
    }

    /// A member of a oneof. Integers are varints.
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

    /// A repeated field. Integers are varints. Numbers are packed.
    @inlinable @inline(__always)
    public mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [T]
    ) throws(CodecError) {
        try field(number, name, &values, as: .varint, packed: true)
    }

    /// A repeated field. Numbers are packed.
    @inlinable @inline(__always)
    public mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [T],
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        try field(number, name, &values, as: encoding, packed: true)
    }

    /// A repeated field, packed or not. Integers are varints.
    @inlinable @inline(__always)
    public mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [T],
        packed: Bool
    ) throws(CodecError) {
        try field(number, name, &values, as: .varint, packed: packed)
    }

    /// A map. Integers are varints.
    @inlinable @inline(__always)
    public mutating func field<K: WireMapKey, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [K: T]
    ) throws(CodecError) {
        try field(number, name, &values, as: .varint, keys: .varint)
    }

    /// A map. Integers that are keys are varints.
    @inlinable @inline(__always)
    public mutating func field<K: WireMapKey, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [K: T],
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        try field(number, name, &values, as: encoding, keys: .varint)
    }

    /// A map. Integers that are values are varints.
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
    /// `false`, because a visit may do anything.
    @inlinable
    public static var unsafeEncodesInPlace: Bool { false }

    /// Calls `body`, which only reads, with a mutable value that has the fields of the message. A visit needs a mutable
    /// value.
    ///
    /// If the type allows it, this is a bitwise copy without references of its own. It is not the message itself,
    /// because several threads can write one message at the same time, and a visit counts as a modification.
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

    /// `false`, because a nested message is written even if all of its fields have their defaults.
    @inlinable
    public var isDefault: Bool { false }

    /// Length-delimited.
    @inlinable
    public static func wireType(as encoding: IntegerEncoding) -> WireType { .lengthDelimited }

    /// Writes a nested message.
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
