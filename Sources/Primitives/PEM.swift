/// The values of options that are the path of a file, or a text in PEM format (RFC 7468).
package enum PEM {
    /// The beginning of every block of a text.
    package static let blockPrefix = "-----BEGIN "

    /// Whether a value is a text. Other text before the first block is allowed, so only the name of a file must not
    /// contain ``blockPrefix``.
    package static func isText(_ value: String) -> Bool {
        value.utf8.firstRange(of: blockPrefix.utf8) != nil
    }

    /// Whether a value can be a private key, and so must not be printed. That includes Base64 without the lines around it,
    /// in which there are no dots.
    package static func canBeSecret(_ value: String) -> Bool {
        let isPath = value.utf8.first == UInt8(ascii: "/") || value.utf8.contains(UInt8(ascii: "."))
        return isText(value) || !isPath && value.utf8.count > 60
    }
}
