import Primitives

/// Writes a message as XML (XML 1.0, fifth edition). The schema is that of ``XMLCodec``.
///
/// There is no declaration and no white space. Elements come in the order of their declaration, and entries of maps in the
/// order of their keys, so equal messages have equal bytes. Texts are escaped like in canonical XML (Canonical XML 1.1, section
/// 2.3), but with decimal references.
///
/// The `>` of a start tag is written with the first byte of the content, so that an element without content becomes one tag.
@usableFromInline
package struct XMLWriter: FieldVisitor, ValueWriter {
    @usableFromInline var sink: ByteSink
    @usableFromInline var budget: MessageBudget
    /// Whether the key of a map is being written, as the value of an attribute.
    @usableFromInline var isWritingKey = false
    /// Whether the last key is base64.
    @usableFromInline var isKeyEncoded = false

    /// A writer of a message.
    @inlinable @inline(__always)
    init(_ sink: ByteSink, limits: CodecLimits) {
        self.sink = sink
        budget = MessageBudget(limits)
    }

    @inline(never)
    @usableFromInline
    func failure(_ code: CodecError.Code) -> CodecError { CodecError(code, at: sink.count) }

    /// Writes the outermost message.
    @inlinable @inline(__always)
    mutating func write<M: WireMessage>(root message: M) throws(CodecError) {
        let start = open("message")
        try write(message: message)
        close("message", from: start)
    }

    /// Writes the start tag without its `>`. Returns the argument for ``close(_:from:)``.
    @inlinable @inline(__always)
    mutating func open(_ name: StaticString) -> Int {
        sink.reserve(name.utf8CodeUnitCount + 1)
        sink.put(UInt8(ascii: "<"))
        sink.put(name)
        return sink.count
    }

    /// Writes the end tag, or the end of an empty tag if nothing has been written since `start`.
    @inlinable @inline(__always)
    mutating func close(_ name: StaticString, from start: Int) {
        sink.reserve(name.utf8CodeUnitCount + 3)
        guard sink.count != start else { return sink.put("/>") }
        sink.put("</")
        sink.put(name)
        sink.put(UInt8(ascii: ">"))
    }

    /// Makes room for a value of `count` bytes, and ends the start tag. The value of an attribute has no tag to end.
    @inlinable @inline(__always)
    mutating func begin(_ count: Int) {
        sink.reserve(count &+ 1)
        if !isWritingKey { sink.put(UInt8(ascii: ">")) }
    }
}

extension XMLWriter {
    /// Writes an element with the value.
    @inlinable @inline(__always)
    mutating func write<T: WireValue>(
        _ name: StaticString,
        _ value: T,
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        let start = open(name)
        do throws(CodecError) { try value.write(to: &self, as: encoding) } catch { throw error.inside(name) }
        close(name, from: start)
    }

    /// Writes the element unless the value is its default.
    @inlinable @inline(__always)
    package mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T,
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        guard !value.isDefault else { return }
        try write(name, value, as: encoding)
    }

    /// Writes the element unless the value is `nil`.
    @inlinable @inline(__always)
    package mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T?,
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        guard let value else { return }
        try write(name, value, as: encoding)
    }

    /// Writes the element if it is the one that is set.
    @inlinable @inline(__always)
    package mutating func oneof<Choice, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ choice: inout Choice?,
        as encoding: IntegerEncoding,
        get: (Choice) -> T?,
        set: (T) -> Choice
    ) throws(CodecError) {
        guard let choice, let value = get(choice) else { return }
        try write(name, value, as: encoding)
    }

    /// Writes an element for each value.
    @inlinable
    package mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [T],
        as encoding: IntegerEncoding,
        packed: Bool
    ) throws(CodecError) {
        guard !values.isEmpty else { return }
        guard budget.addElements(values.count) else { throw failure(.tooManyElements).inside(name) }
        for value in values { try write(name, value, as: encoding) }
    }

    /// Writes an element for each entry, with the key as its attribute.
    @inlinable
    package mutating func field<K: WireMapKey, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [K: T],
        as encoding: IntegerEncoding,
        keys: IntegerEncoding
    ) throws(CodecError) {
        guard !values.isEmpty else { return }
        do throws(CodecError) { try writeEntries(name, values, as: encoding) } catch { throw error.inside(name) }
    }

    @inlinable @inline(__always)
    mutating func writeEntries<K: WireMapKey, T: WireValue>(
        _ name: StaticString,
        _ values: [K: T],
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        guard budget.addElements(values.count) else { throw failure(.tooManyElements) }
        try forEachInKeyOrder(values) { key, value throws(CodecError) in
            _ = open(name)
            try write(key: key)
            let start = sink.count
            try value.write(to: &self, as: encoding)
            close(name, from: start)
        }
    }

    /// Writes the key of an entry as an attribute.
    @inlinable @inline(__always)
    mutating func write<K: WireMapKey>(key: K) throws(CodecError) {
        let start = sink.count
        sink.reserve(6)
        sink.put(" key=\"")
        (isWritingKey, isKeyEncoded) = (true, false)
        try key.write(to: &self, as: .varint)
        isWritingKey = false
        // A key is no longer than the output that it was written to.
        if sink.count &- start > budget.maximumKeyLength, !budget.allowsKey(ofLength: key.utf8Length) {
            throw failure(.keyTooLong)
        }
        sink.reserve(22)
        sink.put(UInt8(ascii: "\""))
        if isKeyEncoded { sink.put(" keyEncoding=\"base64\"") }
    }

    /// Writes the element unless the value is empty, and checks its length.
    @inlinable @inline(__always)
    package mutating func identifier(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout String
    ) throws(CodecError) {
        let start = sink.count
        try field(number, name, &value, as: .varint)
        // A text is no longer than the output that it was written to.
        if sink.count &- start > budget.maximumKeyLength { try check(name, identifier: value.utf8.count) }
    }

    /// Writes the element unless the value is `nil`, and checks its length.
    @inlinable @inline(__always)
    package mutating func identifier(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout String?
    ) throws(CodecError) {
        let start = sink.count
        try field(number, name, &value, as: .varint)
        if sink.count &- start > budget.maximumKeyLength { try check(name, identifier: value?.utf8.count ?? 0) }
    }

    /// Writes the elements, and checks the length of each.
    @inlinable
    package mutating func identifier(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [String]
    ) throws(CodecError) {
        let start = sink.count
        try field(number, name, &values, as: .varint)
        guard sink.count &- start > budget.maximumKeyLength else { return }
        for value in values { try check(name, identifier: value.utf8.count) }
    }

    /// Throws if an identifier of `length` bytes is longer than the limit.
    @inline(never)
    @usableFromInline
    func check(_ name: StaticString, identifier length: Int) throws(CodecError) {
        guard budget.allowsKey(ofLength: length) else { throw failure(.keyTooLong).inside(name) }
    }

    /// Does nothing, because XML cannot contain them.
    @inlinable @inline(__always)
    package mutating func unknownFields(_ storage: inout UnknownFields) {}
}

extension XMLWriter {
    /// Writes `true` or `false`.
    @inlinable @inline(__always)
    package mutating func write(_ value: Bool) {
        begin(8)
        sink.put(value ? "true" : "false")
    }

    /// Writes the digits.
    @inlinable @inline(__always)
    package mutating func write<I: WireInteger>(_ value: I, as encoding: IntegerEncoding) {
        begin(0)
        sink.put(decimal: UInt64(value.magnitude), isNegative: value < 0)
    }

    /// Writes the shortest digits that read as the same value.
    @inlinable
    package mutating func write(_ value: Float) { write(number: value.description, of: Double(value)) }

    /// Writes the shortest digits that read as the same value.
    @inlinable
    package mutating func write(_ value: Double) { write(number: value.description, of: value) }

    /// Writes the description of a number, or the word that XML Schema has for one that is not finite.
    @usableFromInline
    mutating func write(number description: String, of value: Double) {
        var text = value.isFinite ? description : value.isNaN ? "NaN" : value < 0 ? "-INF" : "INF"
        text.withUTF8 { bytes in
            begin(bytes.count)
            sink.put(bytes)
        }
    }

    /// Writes a text with its escapes, or as base64 if XML cannot represent it.
    @inlinable @inline(__always)
    package mutating func write(_ value: String) {
        guard value.utf8.withContiguousStorageIfAvailable({ write(utf8: $0) }) == nil else { return }
        write(foreign: value)
    }

    /// Writes a string that is not stored as contiguous UTF-8.
    @inline(never)
    @usableFromInline
    mutating func write(foreign value: String) {
        Array(value.utf8).withUnsafeBufferPointer { write(utf8: $0) }
    }

    @usableFromInline
    mutating func write(utf8 text: UnsafeBufferPointer<UInt8>) {
        guard let source = text.baseAddress, !text.isEmpty else { return }
        let start = sink.count
        begin(text.count + 8)
        guard !putEscaped(source, text.count) else { return }
        sink.count = start
        if isWritingKey {
            isKeyEncoded = true
        } else {
            sink.reserve(18)
            sink.put(" encoding=\"base64\"")
        }
        write(base64: text)
    }

    /// Writes a text with its escapes. Returns `false` at a character that XML cannot represent. There is room for the text and
    /// eight bytes more.
    private mutating func putEscaped(_ source: UnsafePointer<UInt8>, _ count: Int) -> Bool {
        var index = 0
        while index < count {
            let step = min(count &- index, 8)
            let word = JSONWord.loaded(source + index, count: step)
            // The bytes beyond those that are plain are overwritten later.
            UnsafeMutableRawPointer(sink.base + sink.count).storeBytes(of: word.littleEndian, as: UInt64.self)
            let marks = XMLCharacters.escapes(word)
            guard marks != 0 else {
                sink.count &+= step
                index &+= step
                continue
            }
            let plain = marks.trailingZeroBitCount / 8
            sink.count &+= plain
            index &+= plain
            guard putMark(source + index, count &- index) else { return false }
            index &+= 1
        }
        return true
    }

    /// Writes the first byte at `source`, where `count` bytes are left, with an escape if it needs one. Reserves room again for
    /// the rest and eight bytes more.
    @inline(never)
    private mutating func putMark(_ source: UnsafePointer<UInt8>, _ count: Int) -> Bool {
        guard !XMLCharacters.isForbidden(UnsafeBufferPointer(start: source, count: count), at: 0) else { return false }
        // The longest escape has six bytes.
        sink.reserve(count + 14)
        switch source[0] {
        case UInt8(ascii: "&"): sink.put("&amp;")
        case UInt8(ascii: "<"): sink.put("&lt;")
        case UInt8(ascii: ">"): sink.put("&gt;")
        case 0x0D: sink.put("&#13;")
        // A reader turns white space in an attribute into spaces (section 3.3.3).
        case 0x09 where isWritingKey: sink.put("&#9;")
        case 0x0A where isWritingKey: sink.put("&#10;")
        case UInt8(ascii: "\"") where isWritingKey: sink.put("&quot;")
        default: sink.put(source[0])
        }
        return true
    }

    /// Writes base64 with padding (RFC 4648, section 4).
    @inlinable
    package mutating func write(_ value: [UInt8]) {
        value.withUnsafeBufferPointer { write(base64: $0) }
    }

    @usableFromInline
    mutating func write(base64 bytes: UnsafeBufferPointer<UInt8>) {
        guard !bytes.isEmpty else { return }
        begin((bytes.count + 2) / 3 * 4)
        sink.count += Base64.encode(bytes, into: sink.base + sink.count)
    }

    /// Writes the name of the value, or its number if it has no name.
    @inlinable
    package mutating func write<E: WireEnum>(enum value: E) {
        guard let name = value.name else { return write(value.rawValue, as: .varint) }
        write(utf8: UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
    }

    /// Writes the fields of a message.
    @inlinable
    package mutating func write<M: WireMessage>(message value: M) throws(CodecError) {
        guard budget.enter() else { throw failure(.tooDeep) }
        let start = sink.count
        begin(0)
        try value.visited { value throws(CodecError) in try visit(&value) }
        // A message without fields is an empty tag.
        if sink.count == start &+ 1 { sink.count = start }
        budget.leave()
    }
}
