/// The protobuf fields of a message that its type does not declare, groups included.
///
/// A message with such a property keeps these fields and writes them again, after the declared ones. A program with
/// an older schema therefore passes them on. JSON and XML have no such fields and omit them.
public struct UnknownFields: Sendable, Hashable {
    /// The fields with their tags, in the order in which they were read.
    public internal(set) var bytes: [UInt8] = []

    /// No fields.
    @inlinable
    public init() {}

    /// Whether there are no fields.
    public var isEmpty: Bool { bytes.isEmpty }

    @usableFromInline
    mutating func append(_ fields: UnsafeBufferPointer<UInt8>) {
        bytes.append(contentsOf: fields)
    }
}
