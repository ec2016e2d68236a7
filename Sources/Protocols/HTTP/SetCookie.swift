import TransportAPI

/// A cookie as a server sends it (RFC 6265, section 5.2). Its Domain attribute is ignored: without a list of public
/// suffixes, it could name a domain that others use too.
package struct SetCookie: Sendable, Hashable {
    /// The longest name and value together, in bytes (RFC 6265bis, section 5.6). A longer cookie is ignored.
    package static let maximumBytes = 4096

    /// The name, which is not empty.
    package var name: String
    /// The value, with its quotes if it has some.
    @Secret package var value: String
    /// The path, which begins with a slash; `nil` for the folder of the request.
    package var path: String?
    /// Whether the cookie is for encrypted connections only.
    package var isSecure = false
    /// How long the cookie is valid; `nil` as long as it is kept. A time that is not positive deletes the cookie.
    package var lifetime: Duration?

    /// Reads the value of a Set-Cookie header. Returns `nil` if it has no name or no equals sign, is too long, or has
    /// characters that no header may have.
    ///
    /// - Parameter date: the time to compare Expires with, in seconds since 1970. If it is `nil`, Expires is ignored.
    package init?(_ text: String, date: Int64?) {
        guard text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7f || $0 == 0x09 }),
            !text.unicodeScalars.contains("\u{FFFD}")
        else { return nil }
        var parts = text.utf8.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false)[...]
        guard let first = parts.popFirst() else { return nil }
        let (name, value) = Self.split(first)
        guard let value, !name.isEmpty, name.utf8.count + value.utf8.count <= Self.maximumBytes else { return nil }
        self.name = name
        self.value = value
        var (expires, maximumAge) = (Duration?.none, Duration?.none)
        for part in parts {
            let (attribute, value) = Self.split(part)
            let text = value ?? ""
            switch HTTPSyntax.lowercased(attribute.utf8) {
            case "path": path = text.utf8.first == UInt8(ascii: "/") ? text : nil
            case "secure": isSecure = true
            case "max-age": maximumAge = Self.age(text) ?? maximumAge
            case "expires":
                guard let date, let end = HTTPDate.seconds(text) else { continue }
                expires = .seconds(end.subtractingReportingOverflow(date).partialValue)
            default: continue
            }
        }
        // Max-Age has precedence (section 4.1.2.2).
        lifetime = maximumAge ?? expires
        // These prefixes promise attributes that a server without encryption cannot set (RFC 6265bis, section 4.1.3).
        func hasPrefix(_ prefix: String) -> Bool {
            HTTPSyntax.equalIgnoringCase(bytes: name.utf8.prefix(prefix.utf8.count), prefix.utf8)
        }
        if hasPrefix("__Secure-"), !isSecure { return nil }
        if hasPrefix("__Host-"), !isSecure || path != "/" { return nil }
    }

    /// Splits at the first equals sign, and removes white space. The value is `nil` if there is no equals sign.
    private static func split(_ text: Substring.UTF8View) -> (name: String, value: String?) {
        let equals = text.firstIndex(of: UInt8(ascii: "="))
        let name = String(decoding: HTTPSyntax.trim(text[..<(equals ?? text.endIndex)]), as: UTF8.self)
        guard let equals else { return (name, nil) }
        return (name, String(decoding: HTTPSyntax.trim(text[text.index(after: equals)...]), as: UTF8.self))
    }

    /// Reads a whole number of seconds, which may be negative.
    private static func age(_ text: String) -> Duration? {
        let isNegative = text.utf8.first == UInt8(ascii: "-")
        let age = HTTPSyntax.seconds(String(decoding: text.utf8.dropFirst(isNegative ? 1 : 0), as: UTF8.self))
        return isNegative ? age.map { _ in .zero } : age
    }
}

/// The value of a Cookie header (RFC 6265, section 4.2).
package struct CookieHeader: Sendable, Hashable {
    /// The names and values.
    @Secret package var value: String
}
