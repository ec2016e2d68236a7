/// The protobuf fields that a message did not declare, as they came, groups included.
///
/// A message that keeps them carries them through programs that do not know them: they are written again behind the
/// declared fields. JSON has no place for them and leaves them out.
public struct UnknownFields: Sendable, Hashable {
    /// The fields with their tags, one behind the other, in the order in which they came.
    public internal(set) var bytes: [UInt8] = []

    /// No fields.
    @inlinable
    public init() {}

    /// Whether there are none.
    public var isEmpty: Bool { bytes.isEmpty }

    @usableFromInline
    mutating func append(_ fields: UnsafeBufferPointer<UInt8>) {
        bytes.append(contentsOf: fields)
    }
}
