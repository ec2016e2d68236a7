// Tags, attributes, comments, processing instructions and the prolog (XML 1.0, sections 2.5 to 2.8 and 3.1).

extension XMLReader {
    /// The most attributes of one element. All their names are compared, because no two may be the same.
    static let maximumAttributes = 32

    // MARK: The document

    /// Reads everything up to the start tag of the root element, and that tag.
    @usableFromInline
    mutating func readRootTag() throws(CodecError) {
        // A byte order mark is no part of the document (section 4.3.3).
        if startsWith("\u{FEFF}") { position += 3 }
        if startsWith("<?xml"), end - position > 5, XMLCharacters.isWhiteSpace(base[position + 5]) {
            try readDeclaration()
        }
        try skipMiscellaneous()
        guard position < end, base[position] == UInt8(ascii: "<") else { throw failure(.unexpectedCharacter) }
        if position + 1 < end, base[position + 1] == UInt8(ascii: "!") { try refuseDeclaration() }
        try readStartTag()
        guard isNext("message") else { throw CodecError(.wrongRoot, at: element.name.start) }
    }

    /// Reads what follows the root element up to the end of the input, which has `count` bytes.
    @usableFromInline
    mutating func readAfterRoot(count: Int) throws(CodecError) {
        try skipMiscellaneous()
        guard position == end else { throw failure(.trailingBytes) }
        if end != count { throw failureAtEnd() }
    }

    /// Skips white space, comments and processing instructions.
    private mutating func skipMiscellaneous() throws(CodecError) {
        while true {
            skipWhiteSpace()
            if startsWith("<?") {
                try skipInstruction()
            } else if startsWith("<!-") || position < end && isCut("<!-") {
                try skipComment()
            } else {
                return
            }
        }
    }

    /// Reads the XML declaration (section 2.8). The only encoding is UTF-8.
    private mutating func readDeclaration() throws(CodecError) {
        position += 5
        guard let version = try readPseudoAttribute("version") else { throw failure(.unexpectedCharacter) }
        let digits = UnsafeBufferPointer(start: base + version.start, count: version.count)
        guard digits.count > 2, digits[0] == UInt8(ascii: "1"), digits[1] == UInt8(ascii: "."),
            digits[2...].allSatisfy({ $0 &- UInt8(ascii: "0") < 10 })
        else { throw CodecError(.unexpectedCharacter, at: version.start) }
        if let encoding = try readPseudoAttribute("encoding") {
            // Upper case and lower case are the same in names of encodings (section 4.3.3).
            guard isPart(encoding, "utf-8", ignoringCase: true) else {
                throw CodecError(.unsupportedEncoding, at: encoding.start)
            }
        }
        if let standalone = try readPseudoAttribute("standalone") {
            guard isPart(standalone, "yes") || isPart(standalone, "no") else {
                throw CodecError(.unexpectedCharacter, at: standalone.start)
            }
        }
        skipWhiteSpace()
        try expect("?>")
    }

    /// Reads white space, `name`, an equals sign and a literal in quotes. Returns `nil` without moving if the name is another
    /// one.
    private mutating func readPseudoAttribute(_ name: StaticString) throws(CodecError) -> Part? {
        let start = position
        let isSeparate = skipWhiteSpace()
        if isCut(name) { throw failureAtEnd() }
        guard isSeparate, startsWith(name) else {
            position = start
            return nil
        }
        position += name.utf8CodeUnitCount
        let quote = try readEqualsAndQuote()
        let literal = position
        while position < end, base[position] != quote {
            guard base[position] != UInt8(ascii: "<"), base[position] != UInt8(ascii: "&") else {
                throw failure(.unexpectedCharacter)
            }
            position += 1
        }
        guard position < end else { throw failureAtEnd() }
        position += 1
        return Part(start: literal, count: position - 1 - literal)
    }

    // MARK: Elements

    /// Moves to the next child element and reads its start tag, or reads the end tag of the parent.
    @usableFromInline
    mutating func nextElement() throws(CodecError) {
        while true {
            skipWhiteSpace()
            guard position < end else { throw failureAtEnd() }
            // A message has no text.
            guard base[position] == UInt8(ascii: "<") else { throw failure(.wrongType) }
            guard position + 1 < end else { throw failureAtEnd() }
            switch base[position + 1] {
            case UInt8(ascii: "/"):
                try readEndTag(of: parent)
                element.name.count = -1
                return
            case UInt8(ascii: "!"):
                if try beginsSection() { throw failure(.wrongType) }
                try skipComment()
            case UInt8(ascii: "?"): try skipInstruction()
            default: return try readStartTag()
            }
        }
    }

    /// Reads the start tag at the current position, which becomes the current element.
    @usableFromInline
    mutating func readStartTag() throws(CodecError) {
        position += 1
        element = Element()
        element.name = try readName()
        isContentNext = true
        if base[position] == UInt8(ascii: ">") { position += 1 } else { try readAttributes() }
    }

    /// Reads the end tag at the current position, which begins with `</`.
    @usableFromInline
    mutating func readEndTag(of name: Part) throws(CodecError) {
        let start = position + 2
        let after = start + name.count
        if after < end, base[after] == UInt8(ascii: ">"),
            JSONName.difference(base + start, base + name.start, name.count) == 0
        {
            position = after + 1
            return
        }
        position = start
        let found = try readName()
        guard isSame(found, name) else { throw CodecError(.mismatchedTag, at: start) }
        skipWhiteSpace()
        try expect(">")
    }

    /// Skips the content of the current element and its end tag, with all checks. An element that contains others is a level.
    @usableFromInline
    mutating func skipContent() throws(CodecError) {
        isContentNext = false
        guard !element.isEmpty else { return }
        let name = element.name
        var isLevel = false
        while true {
            passText()
            guard position < end else { throw failureAtEnd() }
            switch base[position] {
            case UInt8(ascii: "<"):
                guard position + 1 < end else { throw failureAtEnd() }
                switch base[position + 1] {
                case UInt8(ascii: "/"):
                    try readEndTag(of: name)
                    if isLevel { budget.leave() }
                    return
                case UInt8(ascii: "!"):
                    if try beginsSection() { _ = try readSection() } else { try skipComment() }
                case UInt8(ascii: "?"): try skipInstruction()
                default:
                    if !isLevel {
                        isLevel = true
                        guard budget.enter() else { throw failure(.tooDeep) }
                    }
                    try readStartTag()
                    // The limit on depth bounds the recursion.
                    try skipContent()
                }
            case UInt8(ascii: "&"): _ = try readReference()
            default: try passMark()
            }
        }
    }

    // MARK: Attributes

    /// Reads the attributes of the current element and the end of its tag.
    private mutating func readAttributes() throws(CodecError) {
        try withUnsafeTemporaryAllocation(of: Part.self, capacity: Self.maximumAttributes) { names throws(CodecError) in
            var count = 0
            while true {
                let isSeparate = skipWhiteSpace()
                guard position < end else { throw failureAtEnd() }
                switch base[position] {
                case UInt8(ascii: ">"):
                    position += 1
                    return
                case UInt8(ascii: "/"):
                    try expect("/>")
                    element.isEmpty = true
                    return
                default: break
                }
                guard isSeparate else { throw failure(.unexpectedCharacter) }
                guard count < names.count else { throw failure(.tooManyAttributes) }
                let name = try readName()
                for index in 0..<count where isSame(names[index], name) {
                    throw CodecError(.repeatedAttribute, at: name.start)
                }
                names.initializeElement(at: count, to: name)
                count += 1
                let value = try readAttributeValue()
                if isPart(name, "key") { element.key = value }
                if isPart(name, "keyEncoding") { element.keyEncoding = value }
                if isPart(name, "encoding") { element.encoding = value }
            }
        }
    }

    /// Reads an equals sign and a value in quotes, with all checks.
    private mutating func readAttributeValue() throws(CodecError) -> Part {
        let quote = try readEqualsAndQuote()
        let start = position
        while position < end {
            switch base[position] {
            case quote:
                position += 1
                return Part(start: start, count: position - 1 - start)
            case UInt8(ascii: "<"): throw failure(.unexpectedCharacter)
            case UInt8(ascii: "&"): _ = try readReference()
            default: position += 1
            }
        }
        throw failureAtEnd()
    }

    private mutating func readEqualsAndQuote() throws(CodecError) -> UInt8 {
        skipWhiteSpace()
        try expect("=")
        skipWhiteSpace()
        guard position < end else { throw failureAtEnd() }
        let quote = base[position]
        guard quote == UInt8(ascii: "\"") || quote == UInt8(ascii: "'") else { throw failure(.unexpectedCharacter) }
        position += 1
        return quote
    }

    // MARK: Comments, processing instructions, declarations

    /// Whether a CDATA section begins at the current position, which is at `<!`; `false` for a comment. Anything else is an
    /// error.
    @usableFromInline
    mutating func beginsSection() throws(CodecError) -> Bool {
        guard position + 2 < end else { throw failureAtEnd() }
        switch base[position + 2] {
        case UInt8(ascii: "-"): return false
        case UInt8(ascii: "["): return true
        default: break
        }
        try refuseDeclaration()
        return false
    }

    /// Throws the error of a declaration at the current position, which is at `<!`.
    private mutating func refuseDeclaration() throws(CodecError) {
        let start = position
        try expect("<!DOCTYPE")
        throw CodecError(.documentType, at: start)
    }

    /// Skips a comment (section 2.5). It must not contain two hyphens.
    mutating func skipComment() throws(CodecError) {
        try expect("<!--")
        while position < end {
            if base[position] == UInt8(ascii: "-"), position + 1 < end, base[position + 1] == UInt8(ascii: "-") {
                return try expect("-->")
            }
            position += 1
        }
        throw failureAtEnd()
    }

    /// Skips a processing instruction (section 2.6). Its target must not be `xml`, because the XML declaration is the first
    /// thing of a document.
    mutating func skipInstruction() throws(CodecError) {
        position += 2
        let target = try readName()
        guard !isPart(target, "xml", ignoringCase: true) else {
            throw CodecError(.unexpectedCharacter, at: target.start)
        }
        guard XMLCharacters.isWhiteSpace(base[position]) else { return try expect("?>") }
        while position < end {
            if base[position] == UInt8(ascii: "?"), position + 1 < end, base[position + 1] == UInt8(ascii: ">") {
                position += 2
                return
            }
            position += 1
        }
        throw failureAtEnd()
    }

    // MARK: Tokens

    /// Reads a name. Something follows it in every document.
    mutating func readName() throws(CodecError) -> Part {
        let start = position
        let count = XMLCharacters.lengthOfName(UnsafeBufferPointer(start: base + start, count: end - start))
        position += count
        guard position < end else { throw failureAtEnd() }
        guard count > 0 else { throw failure(.unexpectedCharacter) }
        return Part(start: start, count: count)
    }

    /// Skips white space. Returns whether there was any.
    @discardableResult
    mutating func skipWhiteSpace() -> Bool {
        let start = position
        while position < end, XMLCharacters.isWhiteSpace(base[position]) { position &+= 1 }
        return position != start
    }

    /// Reads `text`, or throws at the first character that differs.
    mutating func expect(_ text: StaticString) throws(CodecError) {
        for index in 0..<text.utf8CodeUnitCount {
            guard position < end else { throw failureAtEnd() }
            guard base[position] == text.utf8Start[index] else { throw failure(.unexpectedCharacter) }
            position += 1
        }
    }

    /// Whether `text` is next.
    func startsWith(_ text: StaticString) -> Bool {
        let count = text.utf8CodeUnitCount
        return end - position >= count && JSONName.difference(base + position, text.utf8Start, count) == 0
    }

    /// Whether the input ends within `text`.
    private func isCut(_ text: StaticString) -> Bool {
        let left = end - position
        guard left < text.utf8CodeUnitCount else { return false }
        for index in 0..<left where base[position + index] != text.utf8Start[index] { return false }
        return true
    }

    func isPart(_ part: Part, _ text: StaticString) -> Bool {
        part.count == text.utf8CodeUnitCount && JSONName.difference(base + part.start, text.utf8Start, part.count) == 0
    }

    /// - Parameter text: in lower case.
    private func isPart(_ part: Part, _ text: StaticString, ignoringCase: Bool) -> Bool {
        guard part.count == text.utf8CodeUnitCount else { return false }
        for index in 0..<part.count {
            let (byte, expected) = (base[part.start + index], text.utf8Start[index])
            let upper = expected >= 0x61 && expected <= 0x7A ? expected - 0x20 : expected
            guard byte == expected || byte == upper else { return false }
        }
        return true
    }

    private func isSame(_ left: Part, _ right: Part) -> Bool {
        left.count == right.count && JSONName.difference(base + left.start, base + right.start, left.count) == 0
    }
}
