/// A wire format. The raw value is its name in a configuration.
public enum WireFormat: String, Sendable, Hashable, CaseIterable {
    /// JSON by the proto3 mapping.
    case json
    /// Protobuf, proto3.
    case protobuf
    /// XML 1.0 by the schema of ``XMLCodec``.
    case xml

    /// The name in configurations and reports: `json`, `protobuf` or `xml`.
    public var name: String { rawValue }

    /// Whether the output is UTF-8 text. WebSocket sends text in text frames.
    @inlinable
    public var isText: Bool { self != .protobuf }

    /// A codec of this format.
    ///
    /// - Parameter limits: the limits on messages.
    @inlinable
    public func codec(limits: CodecLimits = CodecLimits()) -> ConfiguredCodec {
        switch self {
        case .json: .json(JSONCodec(limits: limits))
        case .protobuf: .protobuf(ProtobufCodec(limits: limits))
        case .xml: .xml(XMLCodec(limits: limits))
        }
    }
}

/// A codec whose format is chosen at run time. It costs one branch per message, and no existential.
public enum ConfiguredCodec: MessageCodec {
    /// JSON by the proto3 mapping.
    case json(JSONCodec)
    /// Protobuf, proto3.
    case protobuf(ProtobufCodec)
    /// XML 1.0 by the schema of ``XMLCodec``.
    case xml(XMLCodec)

    /// The format that the codec reads and writes.
    @inlinable
    public var format: WireFormat {
        switch self {
        case .json: .json
        case .protobuf: .protobuf
        case .xml: .xml
        }
    }

    /// The limits on messages.
    @inlinable
    public var limits: CodecLimits {
        switch self {
        case .json(let codec): codec.limits
        case .protobuf(let codec): codec.limits
        case .xml(let codec): codec.limits
        }
    }

    /// Appends the encoded message to `output`. On an error `output` is unchanged.
    @inlinable
    public func encode<M: WireMessage>(_ message: M, into output: inout [UInt8]) throws(CodecError) {
        switch self {
        case .json(let codec): try codec.encode(message, into: &output)
        case .protobuf(let codec): try codec.encode(message, into: &output)
        case .xml(let codec): try codec.encode(message, into: &output)
        }
    }

    /// Reads the one message that `bytes` contain.
    @inlinable
    public func decode<M: WireMessage>(_ type: M.Type, from bytes: UnsafeRawBufferPointer) throws(CodecError) -> M {
        switch self {
        case .json(let codec): try codec.decode(type, from: bytes)
        case .protobuf(let codec): try codec.decode(type, from: bytes)
        case .xml(let codec): try codec.decode(type, from: bytes)
        }
    }
}

/// The limits of a codec. Each is checked before memory is allocated for what it limits.
public struct CodecLimits: Sendable, Hashable {
    /// The deepest nesting of messages, groups, JSON objects, JSON arrays and XML elements that contain others, in reading and
    /// in writing. The outermost message is level 1. The default is 64, and a value beyond ``greatestDepth`` or below 1 is
    /// clamped, because all formats recurse.
    public var maximumDepth: Int {
        didSet { maximumDepth = Self.clamped(maximumDepth) }
    }
    /// The longest encoded message in bytes, in reading and in writing. The default is 16 MiB.
    public var maximumLength: Int
    /// The most elements of one repeated field or map, in reading and in writing. The default is 65,536.
    public var maximumCount: Int
    /// The most elements of all repeated fields and maps of one message, nested messages included, in reading and in
    /// writing. The default is 262,144. An element can take two bytes of input and, as an empty message, hundreds of bytes of
    /// memory.
    public var maximumElements: Int
    /// The longest key of a map, and the longest field that is declared by `identifier` of ``FieldVisitor``, in bytes
    /// of UTF-8, in reading and in writing. The default is 256. In reading it is checked before the key is hashed, because the hash of a `String`
    /// takes a time that is quadratic in its number of combining marks.
    public var maximumKeyLength: Int

    /// The greatest depth that can be set: 256. The stack of a secondary thread has room for it.
    public static let greatestDepth = 256

    /// Limits. Each has its default unless it is given.
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
