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
    /// The most elements of all repeated fields and maps of one message together, those of nested messages included, on reading.
    /// Default 262,144. An element may take two bytes in the input and, as an empty message, hundreds in memory.
    public var maximumElements: Int
    /// The longest key of a map, and the longest field declared as an identifier (`identifier` of ``FieldVisitor``), in bytes of UTF-8, on reading. Default 256. It is checked before the key is hashed: the hash of a `String` takes a time
    /// quadratic in its number of combining marks.
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
