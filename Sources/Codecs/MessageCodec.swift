/// Encodes and decodes messages. A codec is a value without state, so any number of tasks can use one at the same time.
public protocol MessageCodec: Sendable {
    /// The format that the codec reads and writes.
    var format: WireFormat { get }
    /// The limits on messages.
    var limits: CodecLimits { get }

    /// Appends the encoded message to `output`. On an error `output` is unchanged.
    ///
    /// Reserved room of `output` is used in place. Encoding allocates nothing if the array is kept, and emptied by
    /// `removeAll(keepingCapacity: true)` between messages.
    ///
    /// A codec with the same limits can read what this writes.
    ///
    /// - Throws: `.invalidSchema` if the declaration of the type is wrong; `.tooDeep`, `.tooLong`, `.tooManyElements` or
    ///   `.keyTooLong` beyond the limits; `.invalidNumber` for a number in a ``JSONValue`` that is not finite.
    func encode<M: WireMessage>(_ message: M, into output: inout [UInt8]) throws(CodecError)

    /// The encoded message, in an array of its size.
    ///
    /// - Throws: the errors of ``encode(_:into:)``.
    func encode<M: WireMessage>(_ message: M) throws(CodecError) -> [UInt8]

    /// Reads the one message that `bytes` contain.
    ///
    /// - Throws: an error with the place and the field for input that breaks the format or a limit. `.invalidSchema` if
    ///   the declaration of the type is wrong.
    func decode<M: WireMessage>(_ type: M.Type, from bytes: UnsafeRawBufferPointer) throws(CodecError) -> M
}

extension MessageCodec {
    /// The encoded message.
    @inlinable
    public func encode<M: WireMessage>(_ message: M) throws(CodecError) -> [UInt8] {
        var output: [UInt8] = []
        try encode(message, into: &output)
        return output
    }

    /// Reads the one message that `bytes` contain.
    @inlinable
    public func decode<M: WireMessage>(_ type: M.Type, from bytes: [UInt8]) throws(CodecError) -> M {
        try bytes.withUnsafeBufferPointer { bytes throws(CodecError) in
            try decode(type, from: UnsafeRawBufferPointer(bytes))
        }
    }

    /// The address of the input, whose length is checked. `nil` for an input without an address, which is empty.
    @inlinable @inline(__always)
    func checked(_ bytes: UnsafeRawBufferPointer) throws(CodecError) -> UnsafePointer<UInt8>? {
        guard bytes.count <= limits.maximumLength else { throw CodecError(.tooLong, at: limits.maximumLength) }
        return bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
    }
}

/// Protobuf, proto3 (Protocol Buffers, "Encoding").
///
/// Equal messages have equal bytes: fields come in the order of their declaration, maps in the order of their keys, and
/// unknown fields last. Fields are read in any order. A field that is not declared, or that has another wire type than
/// its declaration, is kept by a message with ``UnknownFields`` and skipped otherwise.
public struct ProtobufCodec: MessageCodec, SinkCodec {
    /// The limits on messages.
    public var limits: CodecLimits

    /// A codec with these limits.
    @inlinable
    public init(limits: CodecLimits = CodecLimits()) { self.limits = limits }

    /// `.protobuf`.
    @inlinable
    public var format: WireFormat { .protobuf }

    /// Appends the encoded message to `output`. On an error `output` is unchanged.
    @inlinable
    public func encode<M: WireMessage>(_ message: M, into output: inout [UInt8]) throws(CodecError) {
        try output.appendMessage(message, by: self)
    }

    /// The encoded message, in an array of its size.
    @inlinable
    public func encode<M: WireMessage>(_ message: M) throws(CodecError) -> [UInt8] {
        try withEncoded(message, by: self) { Array($0) }
    }

    @inlinable @inline(__always)
    func write<M: WireMessage>(_ message: M, to sink: inout ByteSink) throws(CodecError) {
        try SchemaCheck.require(M.self)
        var writer = ProtobufWriter(sink, limits: limits)
        defer { sink = writer.sink }
        try message.visited { message throws(CodecError) in try writer.visit(&message) }
    }

    /// Reads the message that fills `bytes`. Empty input is a message with every field at its default.
    @inlinable
    public func decode<M: WireMessage>(_ type: M.Type, from bytes: UnsafeRawBufferPointer) throws(CodecError) -> M {
        try SchemaCheck.require(M.self)
        var message = M()
        guard let base = try checked(bytes) else { return message }
        var reader = ProtobufReader(base: base, count: bytes.count, limits: limits)
        try reader.visit(&message)
        return message
    }
}

/// JSON (RFC 8259) by the proto3 JSON mapping.
///
/// It writes no white space. Equal messages have equal bytes: members come in the order of their declaration, and maps
/// in the order of their keys. It reads strictly: anything that RFC 8259 does not allow is an error, also in members
/// that are not declared. Those are skipped.
public struct JSONCodec: MessageCodec, SinkCodec {
    /// The limits on messages.
    public var limits: CodecLimits

    /// A codec with these limits.
    @inlinable
    public init(limits: CodecLimits = CodecLimits()) { self.limits = limits }

    /// `.json`.
    @inlinable
    public var format: WireFormat { .json }

    /// Appends the encoded message to `output`. On an error `output` is unchanged.
    @inlinable
    public func encode<M: WireMessage>(_ message: M, into output: inout [UInt8]) throws(CodecError) {
        try output.appendMessage(message, by: self)
    }

    /// The encoded message, in an array of its size.
    @inlinable
    public func encode<M: WireMessage>(_ message: M) throws(CodecError) -> [UInt8] {
        try withEncoded(message, by: self) { Array($0) }
    }

    @inlinable @inline(__always)
    func write<M: WireMessage>(_ message: M, to sink: inout ByteSink) throws(CodecError) {
        try SchemaCheck.require(M.self)
        var writer = JSONWriter(sink, budget: MessageBudget(limits))
        defer { sink = writer.sink }
        try writer.open(UInt8(ascii: "{"))
        try message.visited { message throws(CodecError) in try writer.visit(&message) }
        writer.close(UInt8(ascii: "}"))
    }

    /// Reads the message that `bytes` contain. White space may surround it.
    @inlinable
    public func decode<M: WireMessage>(_ type: M.Type, from bytes: UnsafeRawBufferPointer) throws(CodecError) -> M {
        try SchemaCheck.require(M.self)
        guard let base = try checked(bytes) else { throw CodecError(.truncated, at: 0) }
        var message = M()
        try JSONReader.read(&message, base: base, count: bytes.count, limits: limits)
        return message
    }
}

/// XML (XML 1.0, fifth edition), in UTF-8.
///
///     <message><title>no toner</title><dueDay>0</dueDay><labels>printer</labels><labels>floor 2</labels></message>
///
/// The root element is `message`. Each field is an element with the name that it has in JSON. Each value of a repeated field
/// has an element of its own, and so has each entry of a map, whose attribute `key` is the key. A nested message is an element
/// with its fields. An optional field whose value is empty is an empty element.
///
/// Numbers, truth values and base64 are those of XML Schema (XML Schema 1.1, part 2, section 3.3): `NaN`, `INF` and `-INF` for
/// numbers that are not finite. Enums are their names, and numbers without a name their digits. A ``JSONValue`` is its JSON
/// text. XML cannot represent U+0000 to U+001F, except for tab, line feed and carriage return, nor U+FFFE and U+FFFF. A text
/// with such a character is base64 of its UTF-8, in an element with the attribute `encoding="base64"`. For a key that
/// attribute is `keyEncoding`.
///
/// It writes neither a declaration nor white space. Equal messages have equal bytes: elements come in the order of their
/// declaration, and entries of maps in the order of their keys. It reads strictly: what is not well-formed is an error, also
/// in elements that are not declared. Those are skipped. A document type declaration is an error
/// (``CodecError/Code/documentType``), so there are neither external nor recursive entities.
///
/// A field whose name is no name of XML, or has a colon, makes the type unusable for this codec
/// (``CodecError/Code/invalidSchema``).
public struct XMLCodec: MessageCodec, SinkCodec {
    /// The limits on messages.
    public var limits: CodecLimits

    /// A codec with these limits.
    @inlinable
    public init(limits: CodecLimits = CodecLimits()) { self.limits = limits }

    /// `.xml`.
    @inlinable
    public var format: WireFormat { .xml }

    /// Appends the encoded message to `output`. On an error `output` is unchanged.
    @inlinable
    public func encode<M: WireMessage>(_ message: M, into output: inout [UInt8]) throws(CodecError) {
        try output.appendMessage(message, by: self)
    }

    /// The encoded message, in an array of its size.
    @inlinable
    public func encode<M: WireMessage>(_ message: M) throws(CodecError) -> [UInt8] {
        try withEncoded(message, by: self) { Array($0) }
    }

    @inlinable @inline(__always)
    func write<M: WireMessage>(_ message: M, to sink: inout ByteSink) throws(CodecError) {
        try SchemaCheck.requireXML(M.self)
        var writer = XMLWriter(sink, limits: limits)
        defer { sink = writer.sink }
        try writer.write(root: message)
    }

    /// Reads the message that `bytes` contain. A byte order mark and an XML declaration may precede it, and white space,
    /// comments and processing instructions may surround it.
    @inlinable
    public func decode<M: WireMessage>(_ type: M.Type, from bytes: UnsafeRawBufferPointer) throws(CodecError) -> M {
        try SchemaCheck.requireXML(M.self)
        guard let base = try checked(bytes) else { throw CodecError(.truncated, at: 0) }
        var message = M()
        try XMLReader.read(&message, base: base, count: bytes.count, limits: limits)
        return message
    }
}
