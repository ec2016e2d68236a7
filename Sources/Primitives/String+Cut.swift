extension String {
    /// Returns the beginning of the text that has at most `limit` bytes of UTF-8. No character is cut into halves that are no text.
    package func cut(toUTF8 limit: Int) -> String {
        guard utf8.count > limit else { return self }
        var (end, length) = (unicodeScalars.startIndex, 0)
        for scalar in unicodeScalars {
            length += UTF8.width(scalar)
            guard length <= limit else { break }
            end = unicodeScalars.index(after: end)
        }
        return String(unicodeScalars[..<end])
    }
}
