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
        try readQuoted { reader throws(CodecError) in try reader.readPlainInteger() }
    }

    /// Reads what stands between quotes by `read`, and once more without its escapes if it stops at one.
    @inlinable @inline(__always)
    mutating func readQuoted<Value>(
        _ read: (inout JSONReader) throws(CodecError) -> Value
    ) throws(CodecError) -> Value {
        let start = position
        do throws(CodecError) {
            try expect(UInt8(ascii: "\""))
            let value = try read(&self)
            try expectQuoteAfterNumber()
            return value
        } catch {
            guard position < end, base[position] == UInt8(ascii: "\\") else { throw error }
            position = start
            return try readEscaped(read)
        }
    }

    @inlinable @inline(never)
    mutating func readEscaped<Value>(
        _ read: (inout JSONReader) throws(CodecError) -> Value
    ) throws(CodecError) -> Value {
        let start = position
        let text = try readUnescaped()
        return try text.withUnsafeBufferPointer { bytes throws(CodecError) in
            guard let base = bytes.baseAddress else { throw CodecError(.truncated, at: start) }
            var reader = JSONReader(base: base, count: bytes.count, limits: CodecLimits())
            do throws(CodecError) {
                let value = try read(&reader)
                try reader.expectQuoteAfterNumber()
                // A quote that was an escape is no end.
                guard reader.position == reader.end else { throw reader.failure(.invalidNumber) }
                return value
            } catch {
                throw CodecError(error.code, at: start)
            }
        }
    }

    /// Reads a string: its bytes without escapes, and a quote behind them.
    @inline(never)
    @usableFromInline
    mutating func readUnescaped() throws(CodecError) -> [UInt8] {
        let token = try readToken()
        return Array(try string(token).utf8) + [UInt8(ascii: "\"")]
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
        if Self.equal(token.bytes, "false") { return false }
        let text = token.hasEscapes ? try string(token) : ""
        if text.hasSameUTF8(as: "true") { return true }
        guard text.hasSameUTF8(as: "false") else { throw CodecError(.wrongType, at: start) }
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
        guard try beginsQuoted() else { return try float(try readNumber()) }
        return try readQuoted { reader throws(CodecError) in
            if let special = try reader.readNonFinite() { return Float(special) }
            return try reader.float(try reader.readNumber())
        }
    }

    /// Reads a number, or a string that holds one or names what JSON cannot write.
    public mutating func readDouble() throws(CodecError) -> Double {
        guard try beginsQuoted() else { return try double(try readNumber()) }
        return try readQuoted { reader throws(CodecError) in
            if let special = try reader.readNonFinite() { return special }
            return try reader.double(try reader.readNumber())
        }
    }

    /// Whether a string stands here; if not, it must be a number.
    private func beginsQuoted() throws(CodecError) -> Bool {
        if position < end, base[position] == UInt8(ascii: "\"") { return true }
        guard startsNumber(at: position) else { throw mismatch() }
        return false
    }

    /// Reads the name of what JSON cannot write as a number, if one begins here. The quotes are the caller's.
    private mutating func readNonFinite() throws(CodecError) -> Double? {
        let (minus, first) = (UInt8(ascii: "-"), UInt8(ascii: "I"))
        let isNegative = end - position > 1 && base[position] == minus && base[position + 1] == first
        if isNegative { position += 1 }
        guard position < end else { throw failure(.truncated) }
        do throws(CodecError) {
            switch base[position] {
            case first:
                try expectWord("Infinity")
                return isNegative ? -.infinity : .infinity
            case UInt8(ascii: "N"):
                try expectWord("NaN")
                return .nan
            default: return nil
            }
        } catch {
            throw failure(position < end ? .invalidNumber : .truncated)
        }
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
