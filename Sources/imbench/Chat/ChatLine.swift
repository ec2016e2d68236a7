/// One line of a chat's screen.
enum ChatLine: Sendable, Hashable {
    /// What the user has written, under this number.
    case own(UInt64, sender: String, text: String)
    /// What somebody else has written.
    case other(sender: String, text: String)
    /// The server has acknowledged a message.
    case acknowledged(UInt64)
    /// Somebody's program has shown it.
    case confirmed(UInt64, by: String)
    /// It was not sent.
    case failed(UInt64, String)
    /// What the chat says about itself.
    case status(String)

    /// The line as it is written, without an end of line.
    var text: String {
        switch self {
        case .own(let number, let sender, let text): "#\(number) \(sender): \(text)"
        case .other(let sender, let text): "\(Self.printable(sender, limit: 64)): \(Self.printable(text))"
        case .acknowledged(let number): "✓ #\(number)"
        case .confirmed(let number, let person): "✓✓ #\(number) \(Self.printable(person, limit: 64))"
        case .failed(let number, let reason): "✗ #\(number) not sent: \(Self.printable(reason))"
        case .status(let text): "· \(Self.printable(text))"
        }
    }

    /// What comes from elsewhere must not steer the terminal: controls, and marks that turn the direction of text, are
    /// replaced.
    static func printable(_ text: String, limit: Int = 1 << 16) -> String {
        var result = String.UnicodeScalarView()
        for scalar in text.unicodeScalars.prefix(limit) {
            switch scalar.value {
            case 0..<0x20, 0x7f..<0xa0, 0x202a...0x202e, 0x2066...0x2069, 0x2028, 0x2029: result.append("\u{fffd}")
            default: result.append(scalar)
            }
        }
        return String(result)
    }
}
