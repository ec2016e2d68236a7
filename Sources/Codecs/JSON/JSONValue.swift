/// Any JSON value (RFC 8259): a document, or a field whose content the schema does not declare.
///
/// ```swift
/// var profile: JSONValue = ["name": "Ann", "languages": ["is", "en"], "age": 33]
/// profile["age"] = 34
/// let bytes = try profile.json()
/// ```
///
/// As a field of a ``WireMessage`` it is the JSON value itself in JSON. Protobuf has no such type, so there it is a `string`
/// field with the JSON text, and in XML it is an element with that text. The default value is `null`: a field without presence is left out when it is `null`, and a
/// JSON member that is `null` reads as the default. A field of type `JSONValue?` that is `null` therefore reads as `nil`.
///
/// Members of objects keep their order, and a name may occur twice. Two values are equal if they are the same JSON value: the
/// order of members does not matter, the last of several members with one name counts, numbers are compared by value, and
/// texts by their UTF-8.
public struct JSONValue: Sendable {
    /// The type of a value, and its content.
    public enum Kind: Sendable {
        /// `null`.
        case null
        /// `true` or `false`.
        case bool(Bool)
        /// A number that is written without fraction and exponent and fits 64 bits. It is exact.
        case integer(Int64)
        /// Any other number, as the nearest double. Only finite numbers can be written.
        case number(Double)
        /// A string.
        case string(String)
        /// An array.
        case array([JSONValue])
        /// The members of an object in their order.
        case object([Member])
    }

    /// A member of an object.
    public struct Member: Sendable {
        /// The name, without escapes.
        public var name: String
        /// The value.
        public var value: JSONValue
        /// Where the name begins, in bytes from the start of the text that it was read from.
        package let offset: Int

        /// A member with this name and value.
        public init(name: String, value: JSONValue) { self.init(name, value, at: 0) }

        fileprivate init(_ name: String, _ value: JSONValue, at offset: Int) {
            (self.name, self.value, self.offset) = (name, value, offset)
        }
    }

    /// The type of the value, and its content.
    public var kind: Kind
    /// Where the value was read, in bytes from the start of the text; empty for a value that was not read.
    package let range: Range<Int>

    /// `null`.
    public init() { self.init(.null) }

    /// A value with this content.
    public init(_ kind: Kind) { self.init(kind, 0..<0) }

    fileprivate init(_ kind: Kind, _ range: Range<Int>) { (self.kind, self.range) = (kind, range) }
}

// MARK: Text

extension JSONValue {
    /// Reads a JSON text: one value, with white space around it at most.
    ///
    /// - Parameters:
    ///   - json: the text in UTF-8.
    ///   - limits: the limits on length, depth and elements. An element is a member of an object or of an array.
    /// - Throws: the errors of ``JSONCodec`` for text that breaks the format or a limit.
    public init(json: [UInt8], limits: CodecLimits = CodecLimits()) throws(CodecError) {
        guard json.count <= limits.maximumLength else { throw CodecError(.tooLong, at: limits.maximumLength) }
        self = try json.withUnsafeBufferPointer { bytes throws(CodecError) in
            guard let base = bytes.baseAddress else { throw CodecError(.truncated, at: 0) }
            var reader = JSONReader(base: base, count: bytes.count, limits: limits)
            defer { reader.release() }
            return try reader.readDocument()
        }
    }

    /// The value as JSON text in UTF-8, without white space.
    ///
    /// - Throws: `.invalidNumber` for a number that is not finite; `.tooDeep`, `.tooLong` and `.tooManyElements` for a value
    ///   beyond `limits`.
    public func json(limits: CodecLimits = CodecLimits()) throws(CodecError) -> [UInt8] {
        try withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 1024) { scratch throws(CodecError) in
            guard let base = scratch.baseAddress else { return [] }
            var writer = JSONWriter(ByteSink(base: base, capacity: 1024), budget: MessageBudget(limits))
            defer { writer.sink.release() }
            try writer.write(json: self)
            guard writer.sink.count <= limits.maximumLength else { throw CodecError(.tooLong, at: writer.sink.count) }
            return Array(UnsafeBufferPointer(start: writer.sink.base, count: writer.sink.count))
        }
    }
}

extension JSONValue: CustomStringConvertible {
    /// The JSON text, or the error that prevents it.
    public var description: String {
        do throws(CodecError) {
            return String(
                decoding: try json(
                    limits: CodecLimits(
                        maximumDepth: .max,
                        maximumLength: .max,
                        maximumCount: .max,
                        maximumElements: .max
                    )
                ),
                as: UTF8.self
            )
        } catch {
            return "\(error)"
        }
    }
}

// MARK: Content

extension JSONValue {
    /// Whether the value is `null`.
    public var isNull: Bool { if case .null = kind { true } else { false } }

    /// `true` or `false`, if the value is one of them.
    public var bool: Bool? { if case .bool(let value) = kind { value } else { nil } }

    /// The number, if the value is one that `Int64` represents exactly: `5` and `5.0` are the same.
    public var integer: Int64? {
        switch kind {
        case .integer(let value): value
        case .number(let value): Int64(exactly: value)
        default: nil
        }
    }

    /// The number, if the value is one. A large integer is rounded to the nearest double.
    public var number: Double? {
        switch kind {
        case .integer(let value): Double(value)
        case .number(let value): value
        default: nil
        }
    }

    /// The text, if the value is a string.
    public var string: String? { if case .string(let value) = kind { value } else { nil } }

    /// The elements, if the value is an array.
    public var array: [JSONValue]? { if case .array(let values) = kind { values } else { nil } }

    /// The members in their order, if the value is an object.
    public var members: [Member]? { if case .object(let members) = kind { members } else { nil } }

    /// The element at `index`; `nil` if the value is no array or has no such element.
    public subscript(index: Int) -> JSONValue? {
        guard case .array(let values) = kind, values.indices.contains(index) else { return nil }
        return values[index]
    }

    /// The value of the member `name`; `nil` if the value is no object or has no such member. Of several members with
    /// this name, the last one counts.
    ///
    /// Setting it leaves one member with this name, and `nil` removes the member. A value that is no object becomes an
    /// object with this one member.
    public subscript(name: String) -> JSONValue? {
        get { members?.last { $0.name.hasSameUTF8(as: name) }?.value }
        set {
            var members = members ?? []
            let first = members.firstIndex { $0.name.hasSameUTF8(as: name) } ?? members.endIndex
            members.removeAll { $0.name.hasSameUTF8(as: name) }
            if let newValue {
                members.insert(Member(name: name, value: newValue), at: first)
            } else if self.members == nil {
                return
            }
            kind = .object(members)
        }
    }
}

// MARK: Literals

extension JSONValue: ExpressibleByNilLiteral, ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral,
    ExpressibleByFloatLiteral, ExpressibleByStringLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    /// `null`.
    public init(nilLiteral: ()) { self.init(.null) }
    /// `true` or `false`.
    public init(booleanLiteral value: Bool) { self.init(.bool(value)) }
    /// An integer.
    public init(integerLiteral value: Int64) { self.init(.integer(value)) }
    /// A number.
    public init(floatLiteral value: Double) { self.init(.number(value)) }
    /// A string.
    public init(stringLiteral value: String) { self.init(.string(value)) }
    /// An array.
    public init(arrayLiteral elements: JSONValue...) { self.init(.array(elements)) }
    /// An object with its members in this order.
    public init(dictionaryLiteral elements: (String, JSONValue)...) {
        self.init(.object(elements.map { Member(name: $0, value: $1) }))
    }

    /// `null`.
    public static var null: JSONValue { JSONValue(.null) }
    /// `true` or `false`.
    public static func bool(_ value: Bool) -> JSONValue { JSONValue(.bool(value)) }
    /// An integer.
    public static func integer(_ value: Int64) -> JSONValue { JSONValue(.integer(value)) }
    /// A number.
    public static func number(_ value: Double) -> JSONValue { JSONValue(.number(value)) }
    /// A string.
    public static func string(_ value: String) -> JSONValue { JSONValue(.string(value)) }
    /// An array.
    public static func array(_ values: [JSONValue]) -> JSONValue { JSONValue(.array(values)) }
    /// An object.
    public static func object(_ members: [Member]) -> JSONValue { JSONValue(.object(members)) }
}

// MARK: Equality

extension JSONValue: Hashable {
    /// Whether both are the same JSON value.
    public static func == (left: JSONValue, right: JSONValue) -> Bool {
        switch (left.kind, right.kind) {
        case (.null, .null): true
        case (.bool(let left), .bool(let right)): left == right
        case (.integer, .integer), (.integer, .number), (.number, .integer): left.integer == right.integer
        case (.number(let left), .number(let right)): left == right
        case (.string(let left), .string(let right)): left.hasSameUTF8(as: right)
        case (.array(let left), .array(let right)): left == right
        case (.object(let left), .object(let right)): byName(left) == byName(right)
        default: false
        }
    }

    /// Hashes the value. Equal values have equal hashes.
    public func hash(into hasher: inout Hasher) {
        switch kind {
        case .null: break
        case .bool(let value): hasher.combine(value)
        case .integer(let value): hasher.combine(value)
        case .number(let value): if let integer { hasher.combine(integer) } else { hasher.combine(value) }
        case .string(let value): hasher.combine(UTF8Key(value))
        case .array(let values): hasher.combine(values)
        case .object(let members): hasher.combine(Self.byName(members))
        }
    }

    /// The members that count.
    private static func byName(_ members: [Member]) -> [UTF8Key: JSONValue] {
        Dictionary(members.map { (UTF8Key($0.name), $0.value) }) { $1 }
    }
}

// MARK: Codable

extension JSONValue: Codable {
    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    /// Reads any value that the decoder has. The order of an object's members is that of the decoder.
    public init(from decoder: any Decoder) throws {
        if let container = try? decoder.container(keyedBy: Name.self) {
            let members = try container.allKeys.map { name in
                Member(name: name.stringValue, value: try container.decode(JSONValue.self, forKey: name))
            }
            self.init(.object(members))
        } else if var container = try? decoder.unkeyedContainer() {
            var values: [JSONValue] = []
            while !container.isAtEnd { values.append(try container.decode(JSONValue.self)) }
            self.init(.array(values))
        } else {
            self.init(try Self.scalar(try decoder.singleValueContainer()))
        }
    }

    private static func scalar(_ container: any SingleValueDecodingContainer) throws -> Kind {
        if container.decodeNil() { return .null }
        if let value = try? container.decode(Bool.self) { return .bool(value) }
        if let value = try? container.decode(Int64.self) { return .integer(value) }
        if let value = try? container.decode(Double.self) { return .number(value) }
        return .string(try container.decode(String.self))
    }

    /// Writes the value. Of several members with one name, the last one counts.
    public func encode(to encoder: any Encoder) throws {
        switch kind {
        case .object(let members):
            var container = encoder.container(keyedBy: Name.self)
            for member in members { try container.encode(member.value, forKey: Name(stringValue: member.name)) }
        case .array(let values):
            var container = encoder.unkeyedContainer()
            for value in values { try container.encode(value) }
        default:
            var container = encoder.singleValueContainer()
            try encode(into: &container)
        }
    }

    private func encode(into container: inout any SingleValueEncodingContainer) throws {
        switch kind {
        case .bool(let value): try container.encode(value)
        case .integer(let value): try container.encode(value)
        case .number(let value): try container.encode(value)
        case .string(let value): try container.encode(value)
        case .null, .array, .object: try container.encodeNil()
        }
    }
}

// MARK: The formats

extension JSONValue: WireValue {
    /// Whether the value is `null`.
    public var isDefault: Bool { isNull }
    /// Length-delimited: a `string` field with the JSON text.
    public static func wireType(as encoding: IntegerEncoding) -> WireType { .lengthDelimited }
    /// Writes the value.
    ///
    /// - Throws: `.invalidNumber` for a number that is not finite; `.tooDeep` and `.tooManyElements` beyond the limits.
    public func write<W: ValueWriter>(to writer: inout W, as encoding: IntegerEncoding) throws(CodecError) {
        try writer.write(json: self)
    }
    /// Reads a value.
    public mutating func read<R: ValueReader>(from reader: inout R, as encoding: IntegerEncoding) throws(CodecError) {
        self = try reader.readJSON()
    }
}

extension JSONWriter {
    /// Writes the value. Its arrays and objects count as levels of the message.
    @usableFromInline
    package mutating func write(json value: JSONValue) throws(CodecError) {
        switch value.kind {
        case .null: writePlain("null")
        case .bool(let value): write(value)
        case .integer(let value): writeDigits(value)
        case .number(let value):
            guard value.isFinite else { throw failure(.invalidNumber) }
            write(value)
        case .string(let value): write(value)
        case .array(let values):
            try open(UInt8(ascii: "["))
            guard budget.addElements(values.count) else { throw failure(.tooManyElements) }
            for (index, value) in values.enumerated() {
                separate(index)
                try write(json: value)
            }
            close(UInt8(ascii: "]"))
        case .object(let members):
            try open(UInt8(ascii: "{"))
            guard budget.addElements(members.count) else { throw failure(.tooManyElements) }
            for (index, member) in members.enumerated() {
                separate(index)
                write(member.name)
                sink.reserve(1)
                sink.put(UInt8(ascii: ":"))
                try write(json: member.value)
            }
            close(UInt8(ascii: "}"))
        }
    }

    private mutating func separate(_ index: Int) {
        guard index > 0 else { return }
        sink.reserve(1)
        sink.put(UInt8(ascii: ","))
    }
}

extension JSONReader {
    /// Reads the one value that the input holds.
    fileprivate mutating func readDocument() throws(CodecError) -> JSONValue {
        skipWhiteSpace()
        let value = try readJSON()
        skipWhiteSpace()
        guard position == end else { throw failure(.trailingBytes) }
        return value
    }

    /// Reads a value of any type. The limit on depth bounds the recursion.
    @usableFromInline
    package mutating func readJSON() throws(CodecError) -> JSONValue {
        guard position < end else { throw failure(.truncated) }
        let start = position
        let kind: JSONValue.Kind =
            switch base[position] {
            case UInt8(ascii: "\""): .string(try readString())
            case UInt8(ascii: "{"): .object(try readMembers())
            case UInt8(ascii: "["): .array(try readValues())
            case UInt8(ascii: "t"), UInt8(ascii: "f"): .bool(try readBool())
            case UInt8(ascii: "n"): try readNullKind()
            case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): try readNumberKind()
            default: throw failure(.unexpectedCharacter)
            }
        return JSONValue(kind, start..<position)
    }

    private mutating func readNullKind() throws(CodecError) -> JSONValue.Kind {
        try expectWord("null")
        return .null
    }

    /// Reads a number. One that no double can represent is an error at its beginning.
    private mutating func readNumberKind() throws(CodecError) -> JSONValue.Kind {
        let number = try readNumber()
        if let integer = number.int64 { return .integer(integer) }
        do throws(CodecError) {
            return .number(try double(number))
        } catch {
            throw CodecError(error.code, at: number.start)
        }
    }

    private mutating func readValues() throws(CodecError) -> [JSONValue] {
        var values: [JSONValue] = []
        try open(UInt8(ascii: "["))
        var hasMore = try !closes(UInt8(ascii: "]"))
        while hasMore {
            try countElement(besides: values.count)
            values.append(try readJSON())
            hasMore = try continues(before: UInt8(ascii: "]"))
        }
        budget.leave()
        return values
    }

    private mutating func readMembers() throws(CodecError) -> [JSONValue.Member] {
        var members: [JSONValue.Member] = []
        try open(UInt8(ascii: "{"))
        var hasMore = try !closes(UInt8(ascii: "}"))
        while hasMore {
            try countElement(besides: members.count)
            let start = position
            let name = try readString()
            try expectColon()
            members.append(JSONValue.Member(name, try readJSON(), at: start))
            hasMore = try continues(before: UInt8(ascii: "}"))
        }
        budget.leave()
        return members
    }
}

extension JSONReader.Number {
    /// The number, if it is written as an integer and fits. Minus zero is none, because an integer has no sign for it.
    fileprivate var int64: Int64? {
        guard isInteger, isExact else { return nil }
        guard isNegative else { return Int64(exactly: mantissa) }
        guard mantissa > 0, mantissa <= 1 << 63 else { return nil }
        return Int64(truncatingIfNeeded: 0 &- mantissa)
    }
}

extension ProtobufWriter {
    /// Writes the length of the JSON text, then the text.
    @usableFromInline
    package mutating func write(json value: JSONValue) throws(CodecError) {
        let start = beginDelimited()
        try writeText(of: value)
        endDelimited(start)
    }

    private mutating func writeText(of value: JSONValue) throws(CodecError) {
        var writer = JSONWriter(sink, budget: budget)
        // The caller releases the sink, also after an error.
        defer { (sink, budget) = (writer.sink, writer.budget) }
        try writer.write(json: value)
    }
}

extension ProtobufReader {
    /// Reads a length, and a JSON text of that length. The empty text, which is the default of a `string`, is `null`.
    @usableFromInline
    package mutating func readJSON() throws(CodecError) -> JSONValue {
        let bytes = try readDelimited()
        guard let base = bytes.baseAddress, !bytes.isEmpty else { return JSONValue() }
        var reader = JSONReader(base: base, count: bytes.count, budget: budget)
        defer {
            budget = reader.budget
            reader.release()
        }
        do throws(CodecError) {
            return try reader.readDocument()
        } catch {
            throw CodecError(error.code, at: position - bytes.count + error.offset)
        }
    }
}

extension XMLWriter {
    /// Writes the JSON text.
    @usableFromInline
    package mutating func write(json value: JSONValue) throws(CodecError) {
        let start = sink.count
        begin(0)
        try writeText(of: value)
        let text = UnsafeBufferPointer(start: sink.base + start + 1, count: sink.count - start - 1)
        let hasMarkup = text.contains {
            $0 == UInt8(ascii: "<") || $0 == UInt8(ascii: ">") || $0 == UInt8(ascii: "&")
        }
        guard hasMarkup || XMLCharacters.firstForbidden(text) != nil else { return }
        let copy = Array(text)
        sink.count = start
        copy.withUnsafeBufferPointer { write(utf8: $0) }
    }

    private mutating func writeText(of value: JSONValue) throws(CodecError) {
        var writer = JSONWriter(sink, budget: budget)
        // The caller releases the sink, also after an error.
        defer { (sink, budget) = (writer.sink, writer.budget) }
        try writer.write(json: value)
    }
}

extension XMLReader {
    /// Reads a JSON text. An element without text, which is the default of a string, is `null`.
    @usableFromInline
    package mutating func readJSON() throws(CodecError) -> JSONValue {
        guard let text = try readWord(), let base = text.baseAddress else { return JSONValue() }
        var reader = JSONReader(base: base, count: text.count, budget: budget)
        defer {
            budget = reader.budget
            reader.release()
        }
        do throws(CodecError) {
            return try reader.readDocument()
        } catch {
            throw CodecError(error.code, at: offset(of: error.offset, in: text))
        }
    }
}
