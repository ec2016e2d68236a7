/// Turns messages into bytes and back. A codec is a value without state: use one from anywhere, as often as you like.
public protocol MessageCodec: Sendable {
    /// The format that the codec reads and writes.
    var format: WireFormat { get }
    /// What the codec accepts.
    var limits: CodecLimits { get }

    /// Appends the encoded message to `output`. On an error `output` stays as it was.
    ///
    /// Room that `output` has is used in place: an array that is kept, with `removeAll(keepingCapacity: true)` between
    /// messages, makes encoding free of allocations.
    func encode<M: WireMessage>(_ message: M, into output: inout [UInt8]) throws(CodecError)

    /// The encoded message, in an array of its size.
    func encode<M: WireMessage>(_ message: M) throws(CodecError) -> [UInt8]

    /// Reads the one message that `bytes` hold.
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

    /// Reads the one message that `bytes` hold.
    @inlinable
    public func decode<M: WireMessage>(_ type: M.Type, from bytes: [UInt8]) throws(CodecError) -> M {
        try bytes.withUnsafeBufferPointer { bytes throws(CodecError) in
            try decode(type, from: UnsafeRawBufferPointer(bytes))
        }
    }

    /// The bytes to read: at least an address, and no more than the limit.
    @inlinable @inline(__always)
    func checked(_ bytes: UnsafeRawBufferPointer) throws(CodecError) -> UnsafePointer<UInt8>? {
        guard bytes.count <= limits.maximumLength else { throw CodecError(.tooLong, at: limits.maximumLength) }
        return bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
    }
}

/// The protobuf wire format, proto3.
public struct ProtobufCodec: MessageCodec, SinkCodec {
    /// What the codec accepts.
    public var limits: CodecLimits

    /// A codec with these limits.
    @inlinable
    public init(limits: CodecLimits = CodecLimits()) { self.limits = limits }

    /// Protobuf.
    @inlinable
    public var format: WireFormat { .protobuf }

    /// Appends the encoded message to `output`. On an error `output` stays as it was.
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

    /// Reads the message that fills `bytes`; no bytes at all are a message of defaults.
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

/// JSON by the proto3 mapping.
public struct JSONCodec: MessageCodec, SinkCodec {
    /// What the codec accepts.
    public var limits: CodecLimits

    /// A codec with these limits.
    @inlinable
    public init(limits: CodecLimits = CodecLimits()) { self.limits = limits }

    /// JSON.
    @inlinable
    public var format: WireFormat { .json }

    /// Appends the encoded message to `output`. On an error `output` stays as it was.
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
        var writer = JSONWriter(sink, limits: limits)
        defer { sink = writer.sink }
        try writer.open(UInt8(ascii: "{"))
        try message.visited { message throws(CodecError) in try writer.visit(&message) }
        writer.close(UInt8(ascii: "}"))
    }

    /// Reads the message that `bytes` hold, with white space around it at most.
    @inlinable
    public func decode<M: WireMessage>(_ type: M.Type, from bytes: UnsafeRawBufferPointer) throws(CodecError) -> M {
        try SchemaCheck.require(M.self)
        guard let base = try checked(bytes) else { throw CodecError(.truncated, at: 0) }
        var message = M()
        try JSONReader.read(&message, base: base, count: bytes.count, limits: limits)
        return message
    }
}
