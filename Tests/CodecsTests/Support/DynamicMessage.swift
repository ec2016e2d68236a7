import Codecs

/// A schema that was made up: its messages are those of ``DynamicMessage``, and its text is for protoc.
struct DynamicSchema: Sendable {
    /// The schemas of the messages on each level; see ``DynamicLevel``.
    @TaskLocal static var levels: [[Field]] = [[], [], []]

    /// What a field holds.
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

/// Which schema messages have: those of the outermost hold some of the next, and these some of the innermost.
protocol DynamicLevel: Sendable {
    associatedtype Next: WireMessage
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
    typealias Next = Inner
    static let index = 2
}

/// A message whose fields are known when the program runs.
struct DynamicMessage<Level: DynamicLevel>: WireMessage {
    private var fields: [any DynamicField]

    init() {
        fields = DynamicSchema.levels[Level.index].map { $0.storage(of: Level.Next.self) }
    }

    mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
        for index in fields.indices { try fields[index].visit(&visitor) }
    }
}

/// A field with its value.
private protocol DynamicField: Sendable {
    mutating func visit<V: FieldVisitor>(_ visitor: inout V) throws(CodecError)
}

extension DynamicSchema.Field {
    fileprivate func storage<M: WireMessage>(of message: M.Type) -> any DynamicField {
        func make<T: WireValue>(_ type: T.Type) -> any DynamicField {
            switch shape {
            case .single: Single<T>(field: self)
            case .optional: Maybe<T>(field: self)
            case .packed, .unpacked: Many<T>(field: self)
            case .map(let key): key.keyType.map { entries(of: $0, type) } ?? Many<T>(field: self)
            }
        }
        let type: any WireValue.Type = value == .message ? message : value.type
        return make(type)
    }

    private func entries<K: WireMapKey, T: WireValue>(of key: K.Type, _ type: T.Type) -> any DynamicField {
        Entries<K, T>(field: self)
    }
}

private struct Single<T: WireValue>: DynamicField {
    let field: DynamicSchema.Field
    var value = T()
    mutating func visit<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
        try visitor.field(field.number, field.name, &value, as: field.value.encoding)
    }
}

private struct Maybe<T: WireValue>: DynamicField {
    let field: DynamicSchema.Field
    var value: T?
    mutating func visit<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
        try visitor.field(field.number, field.name, &value, as: field.value.encoding)
    }
}

private struct Many<T: WireValue>: DynamicField {
    let field: DynamicSchema.Field
    var values: [T] = []
    mutating func visit<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
        try visitor.field(field.number, field.name, &values, as: field.value.encoding)
    }
}

private struct Entries<K: WireMapKey, T: WireValue>: DynamicField {
    let field: DynamicSchema.Field
    var values: [K: T] = [:]
    mutating func visit<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
        guard case .map(let key) = field.shape else { return }
        try visitor.field(field.number, field.name, &values, as: field.value.encoding, keys: key.encoding)
    }
}

extension DynamicSchema.Value {
    /// The Swift type; for messages there is none here.
    fileprivate var type: any WireValue.Type {
        switch self {
        case .bytes: [UInt8].self
        case .float: Float.self
        case .double: Double.self
        case .colour: Colour.self
        default: keyType ?? Bool.self
        }
    }

    /// The Swift type, if it may be that of keys.
    fileprivate var keyType: (any WireMapKey.Type)? {
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
