/// Writes a message as JSON (RFC 8259) by the proto3 JSON mapping.
///
/// 64-bit integers are strings, bytes are base64 with padding, enums are names (numbers where the name is not known), NaN
/// and the infinities are strings. There is no white space. Members come in the order of their declaration, map entries in
/// key order: equal messages give equal bytes.
public struct JSONWriter: FieldVisitor, ValueWriter {
    @usableFromInline var sink: ByteSink
    @usableFromInline var depth = 0
    @usableFromInline let maximumDepth: Int

    @inlinable @inline(__always)
    init(_ sink: ByteSink, limits: CodecLimits) {
        self.sink = sink
        maximumDepth = limits.maximumDepth
    }

    @inlinable @inline(__always)
    mutating func open(_ bracket: UInt8) throws(CodecError) {
        depth += 1
        guard depth <= maximumDepth else { throw CodecError(.tooDeep, at: sink.count) }
        sink.reserve(2)
        sink.put(bracket)
    }

    @inlinable @inline(__always)
    mutating func close(_ bracket: UInt8) {
        depth -= 1
        sink.reserve(1)
        sink.put(bracket)
    }

    /// A comma, unless this is the first member: then the bracket that opened the object stands before it, which ends no
    /// value.
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
    public mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T,
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        guard !value.isDefault else { return }
        writeName(name)
        try value.write(to: &self, as: encoding)
    }

    /// Writes the member if it is present.
    @inlinable @inline(__always)
    public mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T?,
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        guard value != nil else { return }
        writeName(name)
        try value?.write(to: &self, as: encoding)
    }

    /// Writes the member that is set, also if it has its default.
    @inlinable @inline(__always)
    public mutating func oneof<Choice, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ choice: inout Choice?,
        as encoding: IntegerEncoding,
        get: (Choice) -> T?,
        set: (T) -> Choice
    ) throws(CodecError) {
        guard let choice, let value = get(choice) else { return }
        writeName(name)
        try value.write(to: &self, as: encoding)
    }

    /// Writes an array unless it is empty.
    @inlinable
    public mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [T],
        as encoding: IntegerEncoding,
        packed: Bool
    ) throws(CodecError) {
        guard !values.isEmpty else { return }
        writeName(name)
        try open(UInt8(ascii: "["))
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
    public mutating func field<K: WireMapKey, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [K: T],
        as encoding: IntegerEncoding,
        keys: IntegerEncoding
    ) throws(CodecError) {
        guard !values.isEmpty else { return }
        writeName(name)
        try open(UInt8(ascii: "{"))
        var isFirst = true
        try forEachInKeyOrder(values) { key, value throws(CodecError) in
            if !isFirst {
                sink.reserve(1)
                sink.put(UInt8(ascii: ","))
            }
            isFirst = false
            key.writeName(to: &self)
            sink.reserve(1)
            sink.put(UInt8(ascii: ":"))
            try value.write(to: &self, as: encoding)
        }
        close(UInt8(ascii: "}"))
    }

    /// Does nothing: JSON has no place for them.
    @inlinable @inline(__always)
    public mutating func unknownFields(_ storage: inout UnknownFields) {}
}
