import Primitives

/// Reads a message from XML (XML 1.0, fifth edition), strictly. The schema is that of ``XMLCodec``.
///
/// A visit passes once over the declared fields. Each field takes the next elements of the input while they have the field's
/// name. Elements in the order of their declaration are read in one visit. Each step back in that order needs another visit.
/// If a visit takes no element, the element is unknown. It is skipped, and checked as strictly as an element that is read.
///
/// - A field that occurs twice has its last value, as a whole. The elements of a repeated field or a map need not be adjacent.
///   The last value of a map's key counts. Two keys that differ in their bytes and are equal as `String` are an error.
/// - A oneof that is set twice, by one name or two, is an error.
/// - An element without text is the default of its type. White space around a number, a truth value, an enum and base64 does
///   not count.
/// - An enum is a name or a number. An unknown name counts as absent, for compatibility with newer peers.
/// - Attributes other than `key`, `keyEncoding` and `encoding` are skipped. Prefixes of namespaces need no declaration, and a
///   name with a colon is never that of a field.
/// - Comments and processing instructions are skipped. There is no document type declaration, and so there are no entities but
///   the five that XML predefines.
@usableFromInline
package struct XMLReader: FieldVisitor {
    /// A part of the input. Its count is negative if it is absent.
    @usableFromInline
    struct Part {
        @usableFromInline var start = 0
        @usableFromInline var count = -1

        @inlinable @inline(__always)
        init() {}
        @inlinable @inline(__always)
        init(start: Int, count: Int) { (self.start, self.count) = (start, count) }
    }

    /// A start tag that has been read.
    @usableFromInline
    struct Element {
        /// Absent after the end tag of the parent.
        @usableFromInline var name = Part()
        /// Whether it is a tag like `<text/>`, which has no end tag.
        @usableFromInline var isEmpty = false
        // The values of attributes, as they are in the input.
        @usableFromInline var key = Part()
        @usableFromInline var keyEncoding = Part()
        @usableFromInline var encoding = Part()

        @inlinable @inline(__always)
        init() {}
    }

    @usableFromInline let base: UnsafePointer<UInt8>
    @usableFromInline var position = 0
    /// The end of the input, or its first character that XML does not allow.
    @usableFromInline let end: Int
    /// The error of a read that needs more than there is before `end`.
    let endCode: CodecError.Code
    /// The current element.
    @usableFromInline var element = Element()
    /// The name of the element whose content is being read.
    @usableFromInline var parent = Part()
    /// Whether the content of the current element is still to be read.
    @usableFromInline var isContentNext = false
    /// Whether the key of a map is being read, which is an attribute of the current element.
    @usableFromInline var isReadingKey = false
    /// Whether the last enum that was read has an unknown name.
    @usableFromInline var isUnknownEnum = false
    /// Where the text of the last value begins.
    @usableFromInline var textStart = 0
    @usableFromInline var budget: MessageBudget
    /// Memory for texts that differ from their bytes in the input. Those are never longer than in the input.
    var scratch: ByteSink

    /// A reader of `count` bytes at `base`, which must outlive it. Its creator must call ``release()`` at the end.
    @usableFromInline
    package init(base: UnsafePointer<UInt8>, count: Int, limits: CodecLimits) {
        self.base = base
        let problem = XMLCharacters.firstProblem(UnsafeBufferPointer(start: base, count: count))
        end = problem?.offset ?? count
        endCode = problem?.code ?? .truncated
        budget = MessageBudget(limits)
        // Without capacity, so that the sink allocates memory before it writes.
        scratch = ByteSink(base: UnsafeMutablePointer(mutating: base), capacity: 0)
    }

    /// Reads the one message in `count` bytes at `base`.
    @inlinable
    static func read<M: WireMessage>(
        _ message: inout M,
        base: UnsafePointer<UInt8>,
        count: Int,
        limits: CodecLimits
    ) throws(CodecError) {
        var reader = XMLReader(base: base, count: count, limits: limits)
        defer { reader.release() }
        try reader.readRootTag()
        try reader.read(message: &message)
        try reader.readAfterRoot(count: count)
    }

    @usableFromInline
    func release() { scratch.release() }

    /// An error at the current position. If that is the end, the error is the one of the end.
    @inline(never)
    @usableFromInline
    func failure(_ code: CodecError.Code) -> CodecError {
        position >= end && code == .unexpectedCharacter ? failureAtEnd() : CodecError(code, at: position)
    }

    /// The error of input that ends too early, or that goes on with a character that XML does not allow.
    @inline(never)
    @usableFromInline
    func failureAtEnd() -> CodecError { CodecError(endCode, at: end) }
}

extension XMLReader {
    /// Reads the child elements of the current element, which is not empty, and its end tag.
    @inlinable
    package mutating func readFields<M: WireMessage>(of message: inout M) throws(CodecError) {
        let outer = parent
        parent = element.name
        try nextElement()
        while element.name.count >= 0 {
            let start = element.name.start
            try message.visitFields(&self)
            guard element.name.count >= 0, element.name.start == start else { continue }
            try skipContent()
            try nextElement()
        }
        parent = outer
    }
}

extension XMLReader {
    /// Whether the current element has the name `name`.
    @inlinable @inline(__always)
    mutating func isNext(_ name: StaticString) -> Bool {
        let count = name.utf8CodeUnitCount
        return element.name.count == count && JSONName.difference(base + element.name.start, name.utf8Start, count) == 0
    }

    /// Reads a value and whatever is left of its element.
    @inlinable @inline(__always)
    mutating func readValue<T: WireValue>(as encoding: IntegerEncoding) throws(CodecError) -> T {
        var value = T()
        try value.read(from: &self, as: encoding)
        if isContentNext { try skipContent() }
        return value
    }

    /// Reads the current element if it has this name.
    @inlinable @inline(__always)
    package mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T,
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        guard isNext(name) else { return }
        do throws(CodecError) {
            value = try readValue(as: encoding)
            isUnknownEnum = false
        } catch {
            throw error.inside(name)
        }
        try nextElement()
    }

    /// Reads the current element if it has this name.
    @inlinable @inline(__always)
    package mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T?,
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        guard isNext(name) else { return }
        do throws(CodecError) {
            let fresh: T = try readValue(as: encoding)
            value = isUnknownEnum ? nil : fresh
            isUnknownEnum = false
        } catch {
            throw error.inside(name)
        }
        try nextElement()
    }

    /// Reads the current element if it has this name. It is an error if the oneof is set already.
    @inlinable @inline(__always)
    package mutating func oneof<Choice, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ choice: inout Choice?,
        as encoding: IntegerEncoding,
        get: (Choice) -> T?,
        set: (T) -> Choice
    ) throws(CodecError) {
        guard isNext(name) else { return }
        do throws(CodecError) {
            let start = element.name.start
            let fresh: T = try readValue(as: encoding)
            if !isUnknownEnum {
                guard choice == nil else { throw CodecError(.repeatedOneof, at: start) }
                choice = set(fresh)
            }
            isUnknownEnum = false
        } catch {
            throw error.inside(name)
        }
        try nextElement()
    }

    /// Reads elements while they have this name.
    @inlinable @inline(__always)
    package mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [T],
        as encoding: IntegerEncoding,
        packed: Bool
    ) throws(CodecError) {
        while isNext(name) {
            do throws(CodecError) {
                try countElement(besides: values.count)
                values.reserveFew()
                let value: T = try readValue(as: encoding)
                if !isUnknownEnum { values.append(value) }
                isUnknownEnum = false
            } catch {
                throw error.inside(name)
            }
            try nextElement()
        }
    }

    /// Reads elements while they have this name. Each is an entry of the map.
    @inlinable @inline(__always)
    package mutating func field<K: WireMapKey, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [K: T],
        as encoding: IntegerEncoding,
        keys: IntegerEncoding
    ) throws(CodecError) {
        while isNext(name) {
            do throws(CodecError) { try readEntry(&values, as: encoding) } catch { throw error.inside(name) }
            try nextElement()
        }
    }

    @inlinable
    mutating func readEntry<K: WireMapKey, T: WireValue>(
        _ values: inout [K: T],
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        let start = element.name.start
        try countElement(besides: values.count)
        let key: K = try readKey()
        guard budget.allowsKey(ofLength: key.utf8Length) else { throw CodecError(.keyTooLong, at: textStart) }
        let value: T = try readValue(as: encoding)
        if !isUnknownEnum, !values.set(value, of: key) { throw CodecError(.ambiguousKey, at: start) }
        isUnknownEnum = false
    }

    /// Reads the key of a map from its attribute.
    @inlinable @inline(__always)
    mutating func readKey<K: WireMapKey>() throws(CodecError) -> K {
        guard element.key.count >= 0 else { throw CodecError(.missingKey, at: element.name.start) }
        var key = K()
        isReadingKey = true
        try key.read(from: &self, as: .varint)
        isReadingKey = false
        return key
    }

    /// Reads the current element if it has this name, and checks the length of its text.
    @inlinable @inline(__always)
    package mutating func identifier(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout String
    ) throws(CodecError) {
        let start = position
        try field(number, name, &value, as: .varint)
        // A text is no longer than the input that it was read from.
        if position &- start > budget.maximumKeyLength { try check(name, identifier: value.utf8.count) }
    }

    /// Reads the current element if it has this name, and checks the length of its text.
    @inlinable @inline(__always)
    package mutating func identifier(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout String?
    ) throws(CodecError) {
        let start = position
        try field(number, name, &value, as: .varint)
        if position &- start > budget.maximumKeyLength { try check(name, identifier: value?.utf8.count ?? 0) }
    }

    /// Throws if an identifier of `length` bytes is longer than the limit.
    @inlinable
    func check(_ name: StaticString, identifier length: Int) throws(CodecError) {
        guard budget.allowsKey(ofLength: length) else { throw failure(.keyTooLong).inside(name) }
    }

    /// Reads elements while they have this name, and checks the length of each text.
    @inlinable
    package mutating func identifier(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [String]
    ) throws(CodecError) {
        let (count, start) = (values.count, position)
        try field(number, name, &values, as: .varint)
        guard position &- start > budget.maximumKeyLength else { return }
        // The field has only appended elements.
        for value in values[count...] { try check(name, identifier: value.utf8.count) }
    }

    /// Does nothing, because unknown elements are skipped.
    @inlinable @inline(__always)
    package mutating func unknownFields(_ storage: inout UnknownFields) {}

    /// Counts one more element of a field that has `count` of them.
    @inlinable @inline(__always)
    mutating func countElement(besides count: Int) throws(CodecError) {
        guard budget.addElement(to: count) else { throw failure(.tooManyElements) }
    }
}

extension XMLReader: ValueReader {
    /// Reads `true`, `false`, `1` or `0`.
    @usableFromInline
    package mutating func readBool() throws(CodecError) -> Bool {
        guard let text = try readWord() else { return false }
        if JSONReader.equal(text, "true") || JSONReader.equal(text, "1") { return true }
        guard JSONReader.equal(text, "false") || JSONReader.equal(text, "0") else {
            throw CodecError(.wrongType, at: textStart)
        }
        return false
    }

    /// Reads the digits of an integer.
    @inlinable
    package mutating func readInteger<I: WireInteger>(as encoding: IntegerEncoding) throws(CodecError) -> I {
        guard let text = try readWord() else { return 0 }
        return try integer(text)
    }

    /// Reads a number, `NaN`, `INF` or `-INF`.
    @usableFromInline
    package mutating func readFloat() throws(CodecError) -> Float {
        guard let text = try readWord() else { return 0 }
        if let special = Self.nonFinite(text) { return Float(special) }
        guard let value = Float(try decimal(text)), value.isFinite else {
            throw CodecError(.numberOutOfRange, at: textStart)
        }
        return value
    }

    /// Reads a number, `NaN`, `INF` or `-INF`.
    @usableFromInline
    package mutating func readDouble() throws(CodecError) -> Double {
        guard let text = try readWord() else { return 0 }
        if let special = Self.nonFinite(text) { return special }
        guard let value = Double(try decimal(text)), value.isFinite else {
            throw CodecError(.numberOutOfRange, at: textStart)
        }
        return value
    }

    /// Reads a text.
    @usableFromInline
    package mutating func readString() throws(CodecError) -> String {
        guard let text = string(utf8: try readText()) else { throw CodecError(.invalidUTF8, at: textStart) }
        return text
    }

    /// Reads base64.
    @usableFromInline
    package mutating func readBytes() throws(CodecError) -> [UInt8] {
        // In one expression, the reader would be copied before it has the place of the text.
        let text = try readPlainText()
        return try base64(text)
    }

    /// Reads the name or the number of an enum.
    @inlinable
    package mutating func readEnum<E: WireEnum>() throws(CodecError) -> E {
        guard let text = try readWord() else { return E() }
        if let number = JSONReader.number(text, of: E.self) { return E(rawValue: number) }
        if Self.beginsNumber(text) { return E(rawValue: try integer(text)) }
        isUnknownEnum = true
        return E()
    }

    /// Reads a nested message, or the outermost one.
    @inlinable
    package mutating func read<M: WireMessage>(message: inout M) throws(CodecError) {
        guard isContentNext, !isReadingKey else { throw failure(.wrongType) }
        isContentNext = false
        guard budget.enter() else { throw failure(.tooDeep) }
        if !element.isEmpty { try visit(&message) }
        budget.leave()
    }
}
