import Primitives

/// Writes a message as JSON (RFC 8259) by the proto3 JSON mapping.
///
/// Integers of 64 bits are strings. Bytes are base64 with padding. Enums are names, or numbers if the name is unknown.
/// NaN and the infinities are strings. There is no white space. Members come in the order of their declaration, and
/// entries of maps in the order of their keys, so equal messages have equal bytes.
@usableFromInline
package struct JSONWriter: FieldVisitor, ValueWriter {
    @usableFromInline var sink: ByteSink
    @usableFromInline var budget: MessageBudget

    /// A writer of a message, or of a part of one, which has this budget left.
    @inlinable @inline(__always)
    init(_ sink: ByteSink, budget: MessageBudget) {
        self.sink = sink
        self.budget = budget
    }

    @inline(never)
    @usableFromInline
    func failure(_ code: CodecError.Code) -> CodecError { CodecError(code, at: sink.count) }

    @inlinable @inline(__always)
    mutating func open(_ bracket: UInt8) throws(CodecError) {
        guard budget.enter() else { throw failure(.tooDeep) }
        sink.reserve(2)
        sink.put(bracket)
    }

    @inlinable @inline(__always)
    mutating func close(_ bracket: UInt8) {
        budget.leave()
        sink.reserve(1)
        sink.put(bracket)
    }

    /// Writes a comma and the name. The first member has no comma: the byte before it is the opening brace, with which
    /// no value ends.
    @inlinable @inline(__always)
    mutating func writeName(_ name: StaticString) {
        sink.reserve(name.utf8CodeUnitCount + 4)
        if sink.base[sink.count &- 1] != UInt8(ascii: "{") { sink.put(UInt8(ascii: ",")) }
        sink.put(UInt8(ascii: "\""))
        sink.put(name)
        sink.put(UInt8(ascii: "\""))
        sink.put(UInt8(ascii: ":"))
    }
}

extension JSONWriter {
    /// Writes the member unless it has its default.
    @inlinable @inline(__always)
    package mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T,
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        guard !value.isDefault else { return }
        writeName(name)
        do throws(CodecError) { try value.write(to: &self, as: encoding) } catch { throw error.inside(name) }
    }

    /// Writes the member unless it is `nil`.
    @inlinable @inline(__always)
    package mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T?,
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        guard value != nil else { return }
        writeName(name)
        do throws(CodecError) { try value?.write(to: &self, as: encoding) } catch { throw error.inside(name) }
    }

    /// Writes the member if it is the one that is set.
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
        writeName(name)
        do throws(CodecError) { try value.write(to: &self, as: encoding) } catch { throw error.inside(name) }
    }

    /// Writes an array unless it is empty.
    @inlinable
    package mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [T],
        as encoding: IntegerEncoding,
        packed: Bool
    ) throws(CodecError) {
        guard !values.isEmpty else { return }
        writeName(name)
        do throws(CodecError) { try writeElements(values, as: encoding) } catch { throw error.inside(name) }
    }

    @inlinable @inline(__always)
    mutating func writeElements<T: WireValue>(_ values: [T], as encoding: IntegerEncoding) throws(CodecError) {
        try open(UInt8(ascii: "["))
        guard budget.addElements(values.count) else { throw failure(.tooManyElements) }
        var isFirst = true
        for value in values {
            if !isFirst {
                sink.reserve(1)
                sink.put(UInt8(ascii: ","))
            }
            isFirst = false
            try value.write(to: &self, as: encoding)
        }
        close(UInt8(ascii: "]"))
    }

    /// Writes an object unless it is empty.
    @inlinable
    package mutating func field<K: WireMapKey, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [K: T],
        as encoding: IntegerEncoding,
        keys: IntegerEncoding
    ) throws(CodecError) {
        guard !values.isEmpty else { return }
        writeName(name)
        do throws(CodecError) { try writeEntries(values, as: encoding) } catch { throw error.inside(name) }
    }

    @inlinable @inline(__always)
    mutating func writeEntries<K: WireMapKey, T: WireValue>(
        _ values: [K: T],
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        try open(UInt8(ascii: "{"))
        guard budget.addElements(values.count) else { throw failure(.tooManyElements) }
        var isFirst = true
        try forEachInKeyOrder(values) { key, value throws(CodecError) in
            if !isFirst {
                sink.reserve(1)
                sink.put(UInt8(ascii: ","))
            }
            isFirst = false
            let start = sink.count
            try write(key: key)
            if sink.count &- start > budget.maximumKeyLength, !budget.allowsKey(ofLength: key.utf8Length) {
                throw failure(.keyTooLong)
            }
            sink.reserve(1)
            sink.put(UInt8(ascii: ":"))
            try value.write(to: &self, as: encoding)
        }
        close(UInt8(ascii: "}"))
    }

    /// Writes the member unless it has its default, and checks its length.
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

    /// Writes the member unless it is `nil`, and checks its length.
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

    /// Writes the key of a map. It is a string, whatever its type.
    @inlinable @inline(__always)
    mutating func write<K: WireMapKey>(key: K) throws(CodecError) {
        let start = sink.count
        try key.write(to: &self, as: .varint)
        if sink.base[start] != UInt8(ascii: "\"") { quote(from: start) }
    }

    /// Puts the output from `start` on between quotes.
    @inline(never)
    @usableFromInline
    mutating func quote(from start: Int) {
        sink.reserve(2)
        let count = sink.count - start
        (sink.base + start + 1).update(from: sink.base + start, count: count)
        sink.base[start] = UInt8(ascii: "\"")
        sink.count += 1
        sink.put(UInt8(ascii: "\""))
    }

    /// Does nothing, because JSON cannot contain them.
    @inlinable @inline(__always)
    package mutating func unknownFields(_ storage: inout UnknownFields) {}
}

extension JSONWriter {
    /// Writes `true` or `false`.
    @inlinable @inline(__always)
    package mutating func write(_ value: Bool) {
        sink.reserve(8)
        sink.put(value ? "true" : "false")
    }

    /// Writes a number, or a string of digits if the integer has 64 bits.
    @inlinable @inline(__always)
    package mutating func write<I: WireInteger>(_ value: I, as encoding: IntegerEncoding) {
        if I.WireForm.bitWidth > 32 { write(quoted: value) } else { writeDigits(value) }
    }

    @inlinable @inline(__always)
    mutating func write<I: WireInteger>(quoted value: I) {
        sink.reserve(22)
        sink.put(UInt8(ascii: "\""))
        writeDigits(value)
        sink.put(UInt8(ascii: "\""))
    }

    @inlinable @inline(__always)
    mutating func writeDigits<I: WireInteger>(_ value: I) {
        sink.put(decimal: UInt64(value.magnitude), isNegative: value < 0)
    }

    /// Writes the shortest digits that read as the same value.
    @inlinable
    package mutating func write(_ value: Float) {
        if value.isFinite { writePlain(value.description) } else { writeNonFinite(Double(value)) }
    }

    /// Writes the shortest digits that read as the same value.
    @inlinable
    package mutating func write(_ value: Double) {
        if value.isFinite { writePlain(value.description) } else { writeNonFinite(value) }
    }

    @usableFromInline
    mutating func writeNonFinite(_ value: Double) {
        writePlain(value.isNaN ? "\"NaN\"" : value < 0 ? "\"-Infinity\"" : "\"Infinity\"")
    }

    @usableFromInline
    mutating func writePlain(_ text: String) {
        var text = text
        text.withUTF8 { bytes in
            sink.reserve(bytes.count)
            sink.put(bytes)
        }
    }

    /// Writes a string. Only characters that must be escaped are (RFC 8259, section 7).
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
        let count = text.count
        sink.reserve(count + 10)
        sink.put(UInt8(ascii: "\""))
        if let source = text.baseAddress, count > 0, !putShort(source, count) { putLong(source, count) }
        sink.put(UInt8(ascii: "\""))
    }

    /// Copies a string of up to sixteen bytes without escapes, as most strings are. For any other string it returns
    /// `false`, and the bytes that it has copied are overwritten later.
    @inline(__always)
    private mutating func putShort(_ source: UnsafePointer<UInt8>, _ count: Int) -> Bool {
        guard count <= 16 else { return false }
        let target = UnsafeMutableRawPointer(sink.base + sink.count)
        let step = min(count, 8)
        let first = JSONWord.loaded(source, count: step)
        target.storeBytes(of: first.littleEndian, as: UInt64.self)
        var specials = JSONWord.specials(first)
        if count > 8 {
            // The two words overlap.
            let last = JSONWord.loaded(source + (count &- 8), count: 8)
            target.storeBytes(of: last.littleEndian, toByteOffset: count &- 8, as: UInt64.self)
            specials |= JSONWord.specials(last)
        }
        guard specials == 0 else { return false }
        sink.count &+= count
        return true
    }

    /// Copies sixteen bytes at a time, up to the next that must be escaped. The bytes copied beyond that one, or beyond
    /// the end, are overwritten later.
    @inline(never)
    private mutating func putLong(_ source: UnsafePointer<UInt8>, _ count: Int) {
        var index = 0
        while index < count {
            let target = UnsafeMutableRawPointer(sink.base + sink.count)
            let plain = Self.copyPlain(source + index, count &- index, to: target)
            sink.count &+= plain
            index &+= plain
            guard index < count else { return }
            writeEscape(source[index], remaining: count - index)
            index &+= 1
        }
    }

    /// Copies bytes up to the first that must be escaped. Returns how many were valid.
    @inline(__always)
    private static func copyPlain(_ source: UnsafePointer<UInt8>, _ count: Int, to target: UnsafeMutableRawPointer)
        -> Int
    {
        var index = 0
        while count &- index >= 16 {
            let block = UnsafeRawPointer(source + index).loadUnaligned(as: SIMD16<UInt8>.self)
            target.storeBytes(of: block, toByteOffset: index, as: SIMD16<UInt8>.self)
            let (low, high) = JSONWord.specials(block)
            if low | high != 0 {
                return index &+ (low != 0 ? low.trailingZeroBitCount : 64 &+ high.trailingZeroBitCount) / 8
            }
            index &+= 16
        }
        while index < count {
            let step = min(count &- index, 8)
            let word = JSONWord.loaded(source + index, count: step)
            target.storeBytes(of: word.littleEndian, toByteOffset: index, as: UInt64.self)
            let specials = JSONWord.specials(word)
            if specials != 0 { return index &+ specials.trailingZeroBitCount / 8 }
            index &+= step
        }
        return count
    }

    /// Writes an escape. Reserves room again for the `remaining` bytes, the closing quote, and the bytes that are
    /// copied beyond the end.
    @inline(never)
    private mutating func writeEscape(_ byte: UInt8, remaining: Int) {
        sink.reserve(remaining + 15)
        sink.put(UInt8(ascii: "\\"))
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"): sink.put(byte)
        case 0x08: sink.put(UInt8(ascii: "b"))
        case 0x09: sink.put(UInt8(ascii: "t"))
        case 0x0A: sink.put(UInt8(ascii: "n"))
        case 0x0C: sink.put(UInt8(ascii: "f"))
        case 0x0D: sink.put(UInt8(ascii: "r"))
        default:
            let digits: StaticString = "0123456789abcdef"
            sink.put("u00")
            sink.put(digits.utf8Start[Int(byte >> 4)])
            sink.put(digits.utf8Start[Int(byte & 15)])
        }
    }

    /// Writes base64 with padding (RFC 4648, section 4).
    @inlinable
    package mutating func write(_ value: [UInt8]) {
        value.withUnsafeBufferPointer { write(base64: $0) }
    }

    @usableFromInline
    mutating func write(base64 bytes: UnsafeBufferPointer<UInt8>) {
        sink.reserve((bytes.count + 2) / 3 * 4 + 2)
        sink.put(UInt8(ascii: "\""))
        sink.count += Base64.encode(bytes, into: sink.base + sink.count)
        sink.put(UInt8(ascii: "\""))
    }

    /// Writes the name of the value, or its number if it has no name.
    @inlinable
    package mutating func write<E: WireEnum>(enum value: E) {
        guard let name = value.name else { return writeDigits(value.rawValue) }
        sink.reserve(name.utf8CodeUnitCount + 2)
        sink.put(UInt8(ascii: "\""))
        sink.put(name)
        sink.put(UInt8(ascii: "\""))
    }

    /// Writes a nested message.
    @inlinable
    package mutating func write<M: WireMessage>(message value: M) throws(CodecError) {
        try open(UInt8(ascii: "{"))
        try value.visited { value throws(CodecError) in try visit(&value) }
        close(UInt8(ascii: "}"))
    }
}
