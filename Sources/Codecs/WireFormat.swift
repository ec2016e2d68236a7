/// The wire formats, by the names that configuration gives them.
public enum WireFormat: String, Sendable, Hashable, CaseIterable {
    /// JSON by the proto3 mapping.
    case json
    /// Protobuf, proto3.
    case protobuf

    /// The name in configuration and reports: `json` or `protobuf`.
    public var name: String { rawValue }

    /// Whether the output is UTF-8 text, which WebSocket sends in text frames.
    @inlinable
    public var isText: Bool { self == .json }

    /// The codec of this format.
    @inlinable
    public func codec(limits: CodecLimits = CodecLimits()) -> ConfiguredCodec {
        switch self {
        case .json: .json(JSONCodec(limits: limits))
        case .protobuf: .protobuf(ProtobufCodec(limits: limits))
        }
    }
}

/// A codec whose format is chosen when the program runs: one branch a message, and no existential.
public enum ConfiguredCodec: MessageCodec {
    /// JSON by the proto3 mapping.
    case json(JSONCodec)
    /// Protobuf, proto3.
    case protobuf(ProtobufCodec)

    /// The format that the codec reads and writes.
    @inlinable
    public var format: WireFormat {
        switch self {
        case .json: .json
        case .protobuf: .protobuf
        }
    }

    /// What the codec accepts.
    @inlinable
    public var limits: CodecLimits {
        switch self {
        case .json(let codec): codec.limits
        case .protobuf(let codec): codec.limits
        }
    }

    /// Appends the encoded message to `output`. On an error `output` stays as it was.
    @inlinable
    public func encode<M: WireMessage>(_ message: M, into output: inout [UInt8]) throws(CodecError) {
        switch self {
        case .json(let codec): try codec.encode(message, into: &output)
        case .protobuf(let codec): try codec.encode(message, into: &output)
        }
    }

    /// Reads the one message that `bytes` hold.
    @inlinable
    public func decode<M: WireMessage>(_ type: M.Type, from bytes: UnsafeRawBufferPointer) throws(CodecError) -> M {
        switch self {
        case .json(let codec): try codec.decode(type, from: bytes)
        case .protobuf(let codec): try codec.decode(type, from: bytes)
        }
    }
}
