extension JSONReader: ValueReader {
    @usableFromInline
    func startsNumber(at index: Int) -> Bool {
        index < end && (base[index] == UInt8(ascii: "-") || base[index] &- UInt8(ascii: "0") < 10)
    }

    /// Reads `true` or `false`.
    public mutating func readBool() throws(CodecError) -> Bool {
        guard position < end else { throw failure(.truncated) }
        switch base[position] {
        case UInt8(ascii: "t"): try expectWord("true")
        case UInt8(ascii: "f"):
            try expectWord("false")
            return false
        default: throw mismatch()
        }
        return true
    }

    /// Reads a number, or a string that holds one.
    @inlinable
    public mutating func readInteger<I: WireInteger>(as encoding: IntegerEncoding) throws(CodecError) -> I {
        if position < end, base[position] == UInt8(ascii: "\"") { return try readQuotedInteger() }
        guard startsNumber(at: position) else { throw mismatch() }
        return try readPlainInteger()
    }

    @inlinable
    mutating func readQuotedInteger<I: WireInteger>() throws(CodecError) -> I {
        try expect(UInt8(ascii: "\""))
        let value: I = try readPlainInteger()
        try expectQuoteAfterNumber()
        return value
    }

    @inlinable
    mutating func readPlainInteger<I: WireInteger>() throws(CodecError) -> I {
        let (isNegative, magnitude) = try readWhole()
        if !isNegative {
            if let value = I(exactly: magnitude) { return value }
        } else if magnitude <= 1 << 63, let value = I(exactly: Int64(truncatingIfNeeded: 0 &- magnitude)) {
            return value
        }
        throw failure(.numberOutOfRange)
    }

    /// Reads `"true"` or `"false"`.
    mutating func readQuotedBool() throws(CodecError) -> Bool {
        let start = position
        let token = try readToken()
        if Self.equal(token.bytes, "true") { return true }
        guard Self.equal(token.bytes, "false") else { throw CodecError(.wrongType, at: start) }
        return false
    }

    @inlinable @inline(__always)
    mutating func expectQuoteAfterNumber() throws(CodecError) {
        guard position < end else { throw failure(.truncated) }
        guard base[position] == UInt8(ascii: "\"") else { throw failure(.invalidNumber) }
        position &+= 1
    }

    /// Reads a number, or a string that holds one or names what JSON cannot write.
    public mutating func readFloat() throws(CodecError) -> Float {
        if let special = try readNonFinite() { return Float(special) }
        let isQuoted = try beginNumber()
        let number = try readNumber()
        let value = try float(number)
        if isQuoted { try expectQuoteAfterNumber() }
        return value
    }

    /// Reads a number, or a string that holds one or names what JSON cannot write.
    public mutating func readDouble() throws(CodecError) -> Double {
        if let special = try readNonFinite() { return special }
        let isQuoted = try beginNumber()
        let number = try readNumber()
        let value = try double(number)
        if isQuoted { try expectQuoteAfterNumber() }
        return value
    }

    private mutating func beginNumber() throws(CodecError) -> Bool {
        if position < end, base[position] == UInt8(ascii: "\"") {
            position += 1
            return true
        }
        guard startsNumber(at: position) else { throw mismatch() }
        return false
    }

    private mutating func readNonFinite() throws(CodecError) -> Double? {
        guard end - position >= 3, base[position] == UInt8(ascii: "\"") else { return nil }
        let second = base[position + 1]
        guard second == UInt8(ascii: "N") || second == UInt8(ascii: "I") || base[position + 2] == UInt8(ascii: "I")
        else {
            return nil
        }
        let token = try readToken()
        if Self.equal(token.bytes, "NaN") { return .nan }
        if Self.equal(token.bytes, "Infinity") { return .infinity }
        if Self.equal(token.bytes, "-Infinity") { return -.infinity }
        throw failure(.invalidNumber)
    }

    @inlinable
    static func equal(_ bytes: UnsafeBufferPointer<UInt8>, _ text: StaticString) -> Bool {
        guard bytes.count == text.utf8CodeUnitCount else { return false }
        for index in 0..<bytes.count where bytes[index] != text.utf8Start[index] { return false }
        return true
    }

    /// Reads a string.
    public mutating func readString() throws(CodecError) -> String {
        if let text = readShort() { return text }
        let token = try readToken()
        guard !token.hasEscapes else { return try string(token) }
        try checkUTF8(token)
        return Codecs.string(wellFormed: token.bytes, isASCII: token.isASCII)
    }

    /// The string of a token that has escapes, or may have some.
    @inline(never)
    @usableFromInline
    mutating func string(_ token: Token) throws(CodecError) -> String {
        try checkUTF8(token)
        return String(unsafeUninitializedCapacity: token.bytes.count) { target in
            target.baseAddress.map { Self.unescape(token.bytes, into: $0) } ?? 0
        }
    }

    /// Reads base64.
    public mutating func readBytes() throws(CodecError) -> [UInt8] {
        let token = try readToken()
        // Some writers escape the slash.
        let bytes =
            token.hasEscapes
            ? Array(try string(token).utf8).withUnsafeBufferPointer(Base64.decode) : Base64.decode(token.bytes)
        guard let bytes else {
            position -= token.bytes.count + 1
            throw failure(.invalidBase64)
        }
        return bytes
    }

    /// Reads a name or a number.
    @inlinable
    public mutating func readEnum<E: WireEnum>() throws(CodecError) -> E {
        guard position < end, base[position] == UInt8(ascii: "\"") else {
            return E(rawValue: try readInteger(as: .varint))
        }
        let token = try readToken()
        let number = token.hasEscapes ? try number(escaped: token, of: E.self) : Self.number(token.bytes, of: E.self)
        if let number { return E(rawValue: number) }
        try checkUTF8(token)
        isUnknownEnum = true
        return E()
    }

    @inlinable
    static func number<E: WireEnum>(_ name: UnsafeBufferPointer<UInt8>, of type: E.Type) -> Int32? {
        for known in E.names where equal(name, known.name) { return known.number }
        return nil
    }

    @inline(never)
    @inlinable
    mutating func number<E: WireEnum>(escaped token: Token, of type: E.Type) throws(CodecError) -> Int32? {
        var text = try string(token)
        return text.withUTF8 { Self.number($0, of: type) }
    }

    /// Reads an object.
    @inlinable
    public mutating func read<M: WireMessage>(message: inout M) throws(CodecError) {
        try message.readFields(from: &self)
    }
}
