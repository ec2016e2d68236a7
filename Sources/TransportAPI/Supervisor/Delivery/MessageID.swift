/// Identifies one message that a supervisor was given. It is encoded as its number.
public struct MessageID: Sendable, Hashable, Comparable, Codable {
    /// The number of the message, counted from one.
    public var number: UInt64

    /// Creates the identifier of this number.
    public init(_ number: UInt64) {
        self.number = number
    }

    /// Decodes an identifier from its number.
    public init(from decoder: any Decoder) throws {
        number = try decoder.singleValueContainer().decode(UInt64.self)
    }

    /// Encodes the identifier as its number.
    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(number)
    }

    /// Orders messages by the time at which they were given.
    public static func < (left: MessageID, right: MessageID) -> Bool {
        left.number < right.number
    }
}
