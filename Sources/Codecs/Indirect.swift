/// An optional message that is stored on the heap, so that a message can contain one of its own type:
///
///     struct Comment: WireMessage {
///         var text = ""
///         @Indirect var answer: Comment?
///         mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
///             try visitor.field(1, "text", &text)
///             try visitor.field(2, "answer", &_answer)
///         }
///     }
///
/// On the wire it is an optional message. ``CodecLimits/maximumDepth`` limits the nesting. An absent message takes the
/// memory of one reference.
@propertyWrapper
public struct Indirect<Wrapped: WireMessage>: Sendable {
    // Copies of the message can share it, because it never changes.
    @usableFromInline
    final class Storage: Sendable {
        @usableFromInline let value: Wrapped

        @inlinable
        init(_ value: Wrapped) { self.value = value }
    }

    @usableFromInline var storage: Storage?

    /// An absent message.
    @inlinable
    public init() {}

    /// Stores the message, if there is one.
    @inlinable
    public init(wrappedValue: Wrapped?) { storage = wrappedValue.map { Storage($0) } }

    /// The message, if there is one.
    @inlinable
    public var wrappedValue: Wrapped? {
        get { storage?.value }
        set { storage = newValue.map { Storage($0) } }
    }
}

extension Indirect: WireValue {
    /// Whether the message is absent.
    @inlinable
    public var isDefault: Bool { storage == nil }

    /// Length-delimited.
    @inlinable
    public static func wireType(as encoding: IntegerEncoding) -> WireType { .lengthDelimited }

    /// Writes the message.
    @inlinable
    public func write<W: ValueWriter>(to writer: inout W, as encoding: IntegerEncoding) throws(CodecError) {
        try storage?.value.write(to: &writer, as: encoding)
    }

    /// Reads a message. In protobuf it is merged into the present one.
    @inlinable
    public mutating func read<R: ValueReader>(from reader: inout R, as encoding: IntegerEncoding) throws(CodecError) {
        var message = storage?.value ?? Wrapped()
        try message.read(from: &reader, as: encoding)
        storage = Storage(message)
    }
}

extension Indirect: MessageContainer {
    static var messageType: any WireMessage.Type { Wrapped.self }
}

extension Indirect: Equatable where Wrapped: Equatable {
    /// Whether both are absent, or have equal messages.
    @inlinable
    public static func == (left: Indirect, right: Indirect) -> Bool { left.wrappedValue == right.wrappedValue }
}

extension Indirect: Hashable where Wrapped: Hashable {
    /// Hashes the message.
    @inlinable
    public func hash(into hasher: inout Hasher) { hasher.combine(wrappedValue) }
}
