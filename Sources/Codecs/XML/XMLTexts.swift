import Primitives

// Text: character data, CDATA sections, references and values of attributes (XML 1.0, sections 2.4, 2.7, 2.11, 3.3.3 and
// 4.1).

extension XMLReader {
    // MARK: Values

    /// Reads the text of the current element, or its key while a key is read. A text that says that it is base64 is decoded.
    ///
    /// - Returns: the text, which is valid until the next text is read. Its UTF-8 is checked unless it was base64.
    @usableFromInline
    mutating func readText() throws(CodecError) -> UnsafeBufferPointer<UInt8> {
        let encoding = isReadingKey ? element.keyEncoding : element.encoding
        guard encoding.count >= 0 else { return try readPlainText() }
        guard JSONReader.equal(try attribute(encoding), "base64") else {
            throw CodecError(.unsupportedEncoding, at: encoding.start)
        }
        let text = try readPlainText()
        let bytes = try base64(text)
        scratch.count = 0
        scratch.reserve(bytes.count)
        bytes.withUnsafeBufferPointer { scratch.put($0) }
        return scratchText
    }

    /// The same without decoding base64.
    mutating func readPlainText() throws(CodecError) -> UnsafeBufferPointer<UInt8> {
        guard !isReadingKey else {
            textStart = element.key.start
            return try attribute(element.key)
        }
        guard isContentNext else { throw failure(.wrongType) }
        isContentNext = false
        textStart = position
        return element.isEmpty ? UnsafeBufferPointer(start: base + position, count: 0) : try readContent()
    }

    /// Reads a text without the white space around it, as XML Schema does for all types but strings (XML Schema 1.1, part 2,
    /// section 4.3.6). Returns `nil` for an element without text, which is the default of its type.
    @usableFromInline
    mutating func readWord() throws(CodecError) -> UnsafeBufferPointer<UInt8>? {
        let text = try readText()
        var (first, last) = (0, text.count)
        while first < last, XMLCharacters.isWhiteSpace(text[first]) { first += 1 }
        while first < last, XMLCharacters.isWhiteSpace(text[last - 1]) { last -= 1 }
        guard first < last || isReadingKey else { return nil }
        return UnsafeBufferPointer(rebasing: text[first..<last])
    }

    /// Decodes base64, which may contain white space.
    func base64(_ text: UnsafeBufferPointer<UInt8>) throws(CodecError) -> [UInt8] {
        let bytes =
            text.contains(where: XMLCharacters.isWhiteSpace)
            ? text.filter { !XMLCharacters.isWhiteSpace($0) }.withUnsafeBufferPointer(Base64.decode)
            : Base64.decode(text)
        guard let bytes else { throw CodecError(.invalidBase64, at: textStart) }
        return bytes
    }

    /// The offset in the input of a byte of the text that was read last. In a text that differs from its bytes in the input,
    /// it is the beginning of the text.
    func offset(of index: Int, in text: UnsafeBufferPointer<UInt8>) -> Int {
        guard let start = text.baseAddress, start >= base, start <= base + end else { return textStart }
        return start - base + index
    }

    private var scratchText: UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(start: scratch.base, count: scratch.count)
    }

    // MARK: Content

    /// Reads the content of the current element, which must be text, and its end tag.
    private mutating func readContent() throws(CodecError) -> UnsafeBufferPointer<UInt8> {
        let start = position
        passText()
        guard position &+ 1 < end, base[position] == UInt8(ascii: "<"), base[position &+ 1] == UInt8(ascii: "/") else {
            return try assembleContent(from: start)
        }
        let text = UnsafeBufferPointer(start: base + start, count: position - start)
        try readEndTag(of: element.name)
        return text
    }

    /// The same for text that differs from its bytes in the input, which is put together in the scratch memory. The bytes from
    /// `start` to the current position are its beginning.
    private mutating func assembleContent(from start: Int) throws(CodecError) -> UnsafeBufferPointer<UInt8> {
        scratch.count = 0
        take(from: start)
        while true {
            guard position < end else { throw failureAtEnd() }
            switch base[position] {
            case UInt8(ascii: "<"):
                guard position + 1 < end else { throw failureAtEnd() }
                switch base[position + 1] {
                case UInt8(ascii: "/"):
                    try readEndTag(of: element.name)
                    return scratchText
                case UInt8(ascii: "!"):
                    if try beginsSection() { take(lines: try readSection()) } else { try skipComment() }
                case UInt8(ascii: "?"): try skipInstruction()
                default:
                    let tag = position
                    position += 1
                    _ = try readName()
                    throw CodecError(.wrongType, at: tag)
                }
            case UInt8(ascii: "&"): take(try readReference())
            case UInt8(ascii: "\r"): takeLineEnd(before: end)
            default:
                let mark = position
                try passMark()
                take(from: mark)
            }
            let run = position
            passText()
            take(from: run)
        }
    }

    /// Moves to the next bracket, ampersand or carriage return, or to the end.
    mutating func passText() {
        while end &- position >= 8 {
            let marks = XMLCharacters.textEnds(JSONWord.loaded(base + position, count: 8))
            guard marks == 0 else {
                position &+= marks.trailingZeroBitCount / 8
                return
            }
            position &+= 8
        }
        while position < end {
            switch base[position] {
            case UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "&"), UInt8(ascii: "\r"): return
            default: position &+= 1
            }
        }
    }

    /// Passes a byte at which ``passText()`` has stopped, neither `<` nor `&`. Text must not contain `]]>` (section 2.4).
    mutating func passMark() throws(CodecError) {
        let bracket = UInt8(ascii: "]")
        // Two bytes before it are there, because text follows a tag.
        if base[position] == UInt8(ascii: ">"), base[position - 1] == bracket, base[position - 2] == bracket {
            throw failure(.unexpectedCharacter)
        }
        position += 1
    }

    /// Reads a CDATA section and returns its content (section 2.7).
    mutating func readSection() throws(CodecError) -> Part {
        try expect("<![CDATA[")
        let start = position
        let bracket = UInt8(ascii: "]")
        while position < end {
            if base[position] == bracket, position + 2 < end, base[position + 1] == bracket,
                base[position + 2] == UInt8(ascii: ">")
            {
                position += 3
                return Part(start: start, count: position - 3 - start)
            }
            position += 1
        }
        throw failureAtEnd()
    }

    // MARK: Attributes

    /// The value of an attribute (section 3.3.3): each line feed, tab and carriage return is a space, unless it is written as
    /// a reference.
    private mutating func attribute(_ part: Part) throws(CodecError) -> UnsafeBufferPointer<UInt8> {
        let raw = UnsafeBufferPointer(start: base + part.start, count: part.count)
        guard raw.contains(where: { $0 < 0x20 || $0 == UInt8(ascii: "&") }) else { return raw }
        let outer = position
        position = part.start
        scratch.count = 0
        while position < part.start + part.count {
            switch base[position] {
            case UInt8(ascii: "&"): take(try readReference())
            case UInt8(ascii: "\r"):
                takeLineEnd(before: part.start + part.count)
                scratch.base[scratch.count - 1] = 0x20
            case 0..<0x20:
                take(0x20)
                position += 1
            default:
                let start = position
                position += 1
                take(from: start)
            }
        }
        position = outer
        return scratchText
    }

    // MARK: References

    /// Reads a reference to a character or to one of the five predefined entities (sections 4.1 and 4.6).
    mutating func readReference() throws(CodecError) -> Unicode.Scalar {
        let start = position
        position += 1
        guard position < end else { throw failureAtEnd() }
        if base[position] == UInt8(ascii: "#") { return try readCharacterReference(from: start) }
        let name = try readName()
        try expect(";")
        if isPart(name, "lt") { return "<" }
        if isPart(name, "gt") { return ">" }
        if isPart(name, "amp") { return "&" }
        if isPart(name, "quot") { return "\"" }
        if isPart(name, "apos") { return "'" }
        throw CodecError(.unknownEntity, at: start)
    }

    private mutating func readCharacterReference(from start: Int) throws(CodecError) -> Unicode.Scalar {
        position += 1
        let isHexadecimal = position < end && base[position] == UInt8(ascii: "x")
        if isHexadecimal { position += 1 }
        let digits = position
        var value: UInt32 = 0
        while position < end, let digit = Self.digit(base[position], isHexadecimal: isHexadecimal) {
            // A greater value stays too great, and no multiplication overflows.
            if value <= 0x10FFFF { value = value * (isHexadecimal ? 16 : 10) + digit }
            position += 1
        }
        guard position < end else { throw failureAtEnd() }
        guard position > digits else { throw failure(.unexpectedCharacter) }
        try expect(";")
        guard XMLCharacters.isAllowed(value), let scalar = Unicode.Scalar(value) else {
            throw CodecError(.forbiddenCharacter, at: start)
        }
        return scalar
    }

    private static func digit(_ byte: UInt8, isHexadecimal: Bool) -> UInt32? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(byte - UInt8(ascii: "0"))
        case UInt8(ascii: "a")...UInt8(ascii: "f") where isHexadecimal: UInt32(byte - UInt8(ascii: "a") + 10)
        case UInt8(ascii: "A")...UInt8(ascii: "F") where isHexadecimal: UInt32(byte - UInt8(ascii: "A") + 10)
        default: nil
        }
    }

    // MARK: Scratch memory

    /// Takes the input from `start` to the current position.
    private mutating func take(from start: Int) {
        let count = position - start
        scratch.reserve(count)
        scratch.put(UnsafeBufferPointer(start: base + start, count: count))
    }

    private mutating func take(_ byte: UInt8) {
        scratch.reserve(1)
        scratch.put(byte)
    }

    private mutating func take(_ scalar: Unicode.Scalar) {
        for byte in UTF8.encode(scalar) ?? .init() { take(byte) }
    }

    /// Takes the carriage return at the current position, and a line feed after it, as one line feed (section 2.11).
    private mutating func takeLineEnd(before limit: Int) {
        position += 1
        if position < limit, base[position] == UInt8(ascii: "\n") { position += 1 }
        take(UInt8(ascii: "\n"))
    }

    /// Takes a part of the input with its ends of lines.
    private mutating func take(lines part: Part) {
        let (outer, limit) = (position, part.start + part.count)
        position = part.start
        while position < limit {
            let start = position
            while position < limit, base[position] != UInt8(ascii: "\r") { position += 1 }
            take(from: start)
            if position < limit { takeLineEnd(before: limit) }
        }
        position = outer
    }
}
