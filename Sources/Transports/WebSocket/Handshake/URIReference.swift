/// A URI, or a reference that is relative to one, in its parts (RFC 3986, section 3). Fragments are left out: they never go over
/// the wire.
struct URIReference: Sendable, Hashable {
    /// In lower case.
    var scheme: String?
    var authority: String?
    var path: String
    /// Without the question mark.
    var query: String?
}

extension URIReference {
    /// Splits `text`; `nil` if it is no URI reference.
    init?(_ text: String) {
        guard HTTPSyntax.isVisible(text, except: "\"<>\\^`{|}"), Self.hasWholeEscapes(text) else { return nil }
        // All of it is ASCII from here on: characters are bytes.
        var rest = text.prefix { $0 != "#" }
        scheme = nil
        if let colon = rest.firstIndex(of: ":"), !rest[..<colon].contains(where: { "/?".contains($0) }) {
            guard Self.isScheme(rest[..<colon]) else { return nil }
            scheme = rest[..<colon].lowercased()
            rest = rest[rest.index(after: colon)...]
        }
        query = nil
        if let question = rest.firstIndex(of: "?") {
            query = String(rest[rest.index(after: question)...])
            rest = rest[..<question]
        }
        authority = nil
        if rest.hasPrefix("//") {
            rest = rest.dropFirst(2)
            let slash = rest.firstIndex(of: "/") ?? rest.endIndex
            authority = String(rest[..<slash])
            rest = rest[slash...]
        }
        path = String(rest)
    }

    private static func isScheme(_ text: Substring) -> Bool {
        text.first?.isLetter == true && text.allSatisfy { $0.isLetter || $0.isNumber || "+-.".contains($0) }
    }

    private static func hasWholeEscapes(_ text: String) -> Bool {
        text.split(separator: "%", omittingEmptySubsequences: false).dropFirst().allSatisfy {
            $0.count >= 2 && $0.prefix(2).allSatisfy(\.isHexDigit)
        }
    }

    /// What this reference means where `base` is the URI at hand (RFC 3986, section 5.2.2).
    func resolved(against base: URIReference) -> URIReference {
        var target = self
        if scheme == nil {
            target.scheme = base.scheme
            if authority == nil {
                target.authority = base.authority
                if path.isEmpty {
                    target.path = base.path
                    if query == nil { target.query = base.query }
                    return target
                }
                if !path.hasPrefix("/") { target.path = base.merged(with: path) }
            }
        }
        target.path = Self.withoutDots(target.path)
        return target
    }

    /// Puts a relative path in place of what follows the last slash (section 5.2.3).
    private func merged(with relative: String) -> String {
        if authority != nil, path.isEmpty { return "/" + relative }
        let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
        return folder + relative
    }

    /// Follows the "." and ".." of a path (section 5.2.4).
    private static func withoutDots(_ path: String) -> String {
        var input = path[...]
        var output: [Substring] = []
        while !input.isEmpty {
            if input.hasPrefix("../") {
                input = input.dropFirst(3)
            } else if input.hasPrefix("./") || input.hasPrefix("/./") {
                input = input.dropFirst(2)
            } else if input == "/." {
                input = "/"
            } else if input.hasPrefix("/../") {
                input = input.dropFirst(3)
                _ = output.popLast()
            } else if input == "/.." {
                input = "/"
                _ = output.popLast()
            } else if input == "." || input == ".." {
                input = ""
            } else {
                let end = input.dropFirst().firstIndex(of: "/") ?? input.endIndex
                output.append(input[..<end])
                input = input[end...]
            }
        }
        return output.joined()
    }
}
