import TransportAPI

/// Identifies a transfer at both sides, in every connection, session and process. A transfer that is begun again under the
/// same identifier continues where it was.
public struct TransferID: Sendable, Hashable, Codable, LosslessStringConvertible {
    /// The first eight bytes.
    public let high: UInt64
    /// The last eight bytes.
    public let low: UInt64

    /// Makes a random identifier.
    public init() {
        var random = SystemRandomNumberGenerator()
        self.init(high: random.next(), low: random.next())
    }

    /// Makes the identifier of these halves.
    public init(high: UInt64, low: UInt64) {
        (self.high, self.low) = (high, low)
    }

    /// Reads 32 hexadecimal digits.
    public init?(_ description: String) {
        guard description.utf8.count == 32, let high = UInt64(description.prefix(16), radix: 16),
            let low = UInt64(description.suffix(16), radix: 16), !description.contains("+"), !description.contains("-")
        else { return nil }
        self.init(high: high, low: low)
    }

    /// 32 hexadecimal digits, which are a safe part of a file's name.
    public var description: String { Self.digits(high) + Self.digits(low) }

    private static func digits(_ half: UInt64) -> String {
        let digits = String(half, radix: 16)
        return String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }
}
