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

/// What a codec accepts. Each limit is checked before memory is taken for what it limits.
public struct CodecLimits: Sendable, Hashable {
    /// The deepest nesting of messages, groups, JSON objects and arrays; the outermost message is level 1. Default 64.
    /// Both formats recurse, so that no more than ``greatestDepth`` is ever allowed, whatever is asked for.
    public var maximumDepth: Int {
        didSet { maximumDepth = Self.clamped(maximumDepth) }
    }
    /// The longest encoded message in bytes, read or written. Default 16 MiB.
    public var maximumLength: Int
    /// The most elements of one repeated field or one map, on reading. Default 65,536.
    public var maximumCount: Int
    /// The most elements of all repeated fields and maps of one message together, those of nested messages included, on
    /// reading. Default 262,144. An element may take two bytes in the input and, as an empty message, hundreds in
    /// memory.
    public var maximumElements: Int
    /// The longest key of a map, and the longest field declared as an identifier (`identifier` of ``FieldVisitor``), in
    /// bytes of UTF-8, on reading. Default 256. It is checked before the key is hashed: the hash of a `String` takes a
    /// time quadratic in its number of combining marks.
    public var maximumKeyLength: Int

    /// The greatest depth that can be set: what the stack of a secondary thread bears.
    public static let greatestDepth = 256

    /// Limits, with their defaults.
    public init(
        maximumDepth: Int = 64,
        maximumLength: Int = 16 << 20,
        maximumCount: Int = 65_536,
        maximumElements: Int = 262_144,
        maximumKeyLength: Int = 256
    ) {
        self.maximumDepth = Self.clamped(maximumDepth)
        self.maximumLength = maximumLength
        self.maximumCount = maximumCount
        self.maximumElements = maximumElements
        self.maximumKeyLength = maximumKeyLength
    }

    private static func clamped(_ depth: Int) -> Int { max(1, min(depth, greatestDepth)) }
}
