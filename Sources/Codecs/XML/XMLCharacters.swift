import Primitives

/// The characters of XML (XML 1.0, fifth edition, sections 2.2 and 2.3), and the search for those that are markup, eight
/// bytes at a time.
@usableFromInline
enum XMLCharacters {
    // MARK: Words

    /// The high bit of each byte of `word` that is less than a space. As in ``JSONWord``, a borrow can mark only bytes above a
    /// true match, so the lowest mark is always correct. The same is true for the functions below.
    @inline(__always)
    private static func controls(_ word: UInt64) -> UInt64 { (word &- JSONWord.ones &* 0x20) & ~word }

    /// The high bit of each byte of `word` that is `byte`.
    @inline(__always)
    private static func matches(_ word: UInt64, _ byte: UInt64) -> UInt64 {
        let difference = word ^ (JSONWord.ones &* byte)
        return (difference &- JSONWord.ones) & ~difference
    }

    /// The high bit of each angle bracket. `<` and `>` differ in one bit.
    @inline(__always)
    private static func brackets(_ word: UInt64) -> UInt64 { matches(word | JSONWord.ones &* 0x02, 0x3E) }

    /// Marks the first byte at which text in the input has to be looked at: a bracket, an ampersand or a carriage return.
    @inline(__always)
    static func textEnds(_ word: UInt64) -> UInt64 {
        (brackets(word) | matches(word, 0x26) | matches(word, 0x0D)) & JSONWord.highBits
    }

    /// Marks the first byte that may not be written as it is, in content or in an attribute: a bracket, an ampersand, a quote,
    /// a control character, or the first byte of U+FFFE and U+FFFF.
    @inline(__always)
    static func escapes(_ word: UInt64) -> UInt64 {
        (controls(word) | brackets(word) | matches(word, 0x26) | matches(word, 0x22) | matches(word, 0xEF))
            & JSONWord.highBits
    }

    /// Marks the first byte that may begin a forbidden character.
    @inline(__always)
    private static func doubtful(_ word: UInt64) -> UInt64 {
        (controls(word) | matches(word, 0xEF)) & JSONWord.highBits
    }

    // MARK: Allowed characters

    /// Whether the character may be in a document (production 2).
    static func isAllowed(_ scalar: UInt32) -> Bool { XMLSyntax.isAllowed(scalar) }

    /// Whether a forbidden character begins at `index` of well-formed UTF-8: a control character, U+FFFE or U+FFFF.
    @inline(__always)
    static func isForbidden(_ text: UnsafeBufferPointer<UInt8>, at index: Int) -> Bool {
        XMLSyntax.isForbidden(text, at: index)
    }

    /// The offset of the first forbidden character; `nil` if there is none.
    static func firstForbidden(_ text: UnsafeBufferPointer<UInt8>) -> Int? {
        guard let base = text.baseAddress else { return nil }
        var index = 0
        while index < text.count {
            let step = min(text.count &- index, 8)
            let marks = doubtful(JSONWord.loaded(base + index, count: step))
            guard marks != 0 else {
                index &+= step
                continue
            }
            index &+= marks.trailingZeroBitCount / 8
            if isForbidden(text, at: index) { return index }
            index &+= 1
        }
        return nil
    }

    /// The offset of the first byte that no document may have, with the reason; `nil` if there is none.
    static func firstProblem(_ text: UnsafeBufferPointer<UInt8>) -> (offset: Int, code: CodecError.Code)? {
        let forbidden = firstForbidden(text)
        let invalid = UTF8Blocks.areWellFormed(text) ? nil : firstInvalidUTF8(text)
        guard let invalid, invalid <= forbidden ?? .max else { return forbidden.map { ($0, .forbiddenCharacter) } }
        return (invalid, .invalidUTF8)
    }

    // MARK: Names

    @inline(__always)
    static func isWhiteSpace(_ byte: UInt8) -> Bool { XMLSyntax.isWhiteSpace(byte) }

    /// The number of bytes of the name at the beginning of `text`, which is well-formed UTF-8; 0 if no name begins there.
    static func lengthOfName(_ text: UnsafeBufferPointer<UInt8>) -> Int { XMLSyntax.lengthOfName(text) }

    /// Whether the name of a field can be the name of an element: a name without a colon (Namespaces in XML 1.0, section 4).
    static func isElementName(_ name: StaticString) -> Bool {
        let text = UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount)
        return !text.isEmpty && lengthOfName(text) == text.count && !text.contains(UInt8(ascii: ":"))
    }
}
