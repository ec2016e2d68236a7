import Codecs

/// A schema that is defined at run time. Its messages are ``DynamicMessage`` values, and its text is input for protoc.
struct DynamicSchema: Sendable {
    /// The schemas of the messages on each level; see ``DynamicLevel``.
    @TaskLocal static var levels: [[Field]] = [[], [], []]

    /// The type of a field's value.
    enum Value: Sendable, CaseIterable {
        case bool, string, bytes, float, double, int32, int64, uint32, uint64, sint32, sint64
        case fixed32, fixed64, sfixed32, sfixed64, colour, message
    }

    enum Shape: Sendable {
        case single, optional, packed, unpacked
        case map(Value)
    }

    struct Field: Sendable {
        var number: UInt32
        var name: StaticString
        var value: Value
        var shape: Shape
    }
}

/// The level of a message, which selects its schema. Outermost messages contain middle ones, and these innermost ones.
protocol DynamicLevel: Sendable {
    associatedtype Next: WireMessage, DrawnValue
    static var index: Int { get }
}

enum Outermost: DynamicLevel {
    typealias Next = DynamicMessage<Middle>
    static let index = 0
}

enum Middle: DynamicLevel {
    typealias Next = DynamicMessage<Innermost>
    static let index = 1
}

enum Innermost: DynamicLevel {
    // The type is not used, because innermost messages contain no messages.
    typealias Next = DynamicMessage<Innermost>
    static let index = 2
}

/// A message whose fields are defined at run time.
struct DynamicMessage<Level: DynamicLevel>: WireMessage {
    private var fields: [any DynamicField]

    init() {
        fields = DynamicSchema.levels[Level.index].map { $0.storage(of: Level.Next.self) }
    }

    mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
        for index in fields.indices { try fields[index].visit(&visitor) }
    }
}

extension DynamicMessage: DrawnValue {
    static func drawn(by random: inout SeededGenerator) -> Self {
        var message = Self()
        // An outermost message can contain many others, so fewer of its fields are filled.
        for index in message.fields.indices where random.oneIn(Level.index == 0 ? 4 : 2) {
            message.fields[index].draw(&random)
        }
        return message
    }

    /// The fields that are present, by their numbers.
    var literal: String { "{\(fields.compactMap(\.literal).joined(separator: ","))}" }
}

/// A field with its value.
private protocol DynamicField: Sendable {
    var field: DynamicSchema.Field { get }
    /// The value as a Python literal, or `nil` if the field is absent.
    var valueLiteral: String? { get }
    mutating func draw(_ random: inout SeededGenerator)
    mutating func visit<V: FieldVisitor>(_ visitor: inout V) throws(CodecError)
}

extension DynamicField {
    fileprivate var literal: String? { valueLiteral.map { "\(field.number):\($0)" } }
}

extension DynamicSchema.Field {
    fileprivate func storage<M: WireMessage & DrawnValue>(of message: M.Type) -> any DynamicField {
        func make<T: DrawnValue>(_ type: T.Type) -> any DynamicField {
            switch shape {
            case .single: Single<T>(field: self)
            case .optional: Maybe<T>(field: self)
            case .packed, .unpacked: Many<T>(field: self)
            case .map(let key): key.keyType.map { entries(of: $0, type) } ?? Many<T>(field: self)
            }
        }
        let type: any DrawnValue.Type = value == .message ? message : value.type
        return make(type)
    }

    private func entries<K: WireMapKey & DrawnValue, T: DrawnValue>(of key: K.Type, _ type: T.Type) -> any DynamicField
    {
        Entries<K, T>(field: self)
    }
}

private struct Single<T: DrawnValue>: DynamicField {
    let field: DynamicSchema.Field
    var value = T()
    var valueLiteral: String? { value.isDefault ? nil : value.literal }
    mutating func draw(_ random: inout SeededGenerator) { value = .drawn(by: &random) }
    mutating func visit<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
        try visitor.field(field.number, field.name, &value, as: field.value.encoding)
    }
}

private struct Maybe<T: DrawnValue>: DynamicField {
    let field: DynamicSchema.Field
    var value: T?
    var valueLiteral: String? { value?.literal }
    mutating func draw(_ random: inout SeededGenerator) { value = random.oneIn(4) ? T() : .drawn(by: &random) }
    mutating func visit<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
        try visitor.field(field.number, field.name, &value, as: field.value.encoding)
    }
}

private struct Many<T: DrawnValue>: DynamicField {
    let field: DynamicSchema.Field
    var values: [T] = []
    var valueLiteral: String? { values.isEmpty ? nil : "[\(values.map(\.literal).joined(separator: ","))]" }
    mutating func draw(_ random: inout SeededGenerator) { values = random.list { .drawn(by: &$0) } }
    mutating func visit<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
        if case .unpacked = field.shape {
            try visitor.field(field.number, field.name, &values, as: field.value.encoding, packed: false)
        } else {
            try visitor.field(field.number, field.name, &values, as: field.value.encoding)
        }
    }
}

private struct Entries<K: WireMapKey & DrawnValue, T: DrawnValue>: DynamicField {
    let field: DynamicSchema.Field
    var values: [K: T] = [:]
    var valueLiteral: String? {
        let entries = values.map { "\($0.literal):\($1.literal)" }.sorted()
        return entries.isEmpty ? nil : "{\(entries.joined(separator: ","))}"
    }
    mutating func draw(_ random: inout SeededGenerator) {
        values = random.map { random in
            var key: K
            repeat { key = .drawn(by: &random) } while key.utf8Length > CodecLimits().maximumKeyLength
            return (key, .drawn(by: &random))
        }
    }
    mutating func visit<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
        guard case .map(let key) = field.shape else { return }
        try visitor.field(field.number, field.name, &values, as: field.value.encoding, keys: key.encoding)
    }
}

extension DynamicSchema.Value {
    /// The Swift type. Messages have none here.
    fileprivate var type: any DrawnValue.Type {
        switch self {
        case .bytes: [UInt8].self
        case .float: Float.self
        case .double: Double.self
        case .colour: Colour.self
        default: keyType ?? Bool.self
        }
    }

    /// The Swift type, or `nil` if it cannot be the type of a map key.
    fileprivate var keyType: (any (WireMapKey & DrawnValue).Type)? {
        switch self {
        case .bool: Bool.self
        case .string: String.self
        case .int32, .sint32, .sfixed32: Int32.self
        case .int64, .sint64, .sfixed64: Int64.self
        case .uint32, .fixed32: UInt32.self
        case .uint64, .fixed64: UInt64.self
        default: nil
        }
    }

    var isKey: Bool { keyType != nil }

    var encoding: IntegerEncoding {
        switch self {
        case .sint32, .sint64: .zigZag
        case .fixed32, .fixed64, .sfixed32, .sfixed64: .fixed
        default: .varint
        }
    }
}
