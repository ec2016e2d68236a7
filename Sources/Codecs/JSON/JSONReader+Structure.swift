// White space, brackets, commas and names (RFC 8259, sections 2, 4 and 5).

extension JSONReader {
    @inlinable @inline(__always)
    mutating func skipWhiteSpace() {
        if position < end, base[position] <= 0x20 { skipWhiteSpaceRun() }
    }

    @inline(never)
    @usableFromInline
    mutating func skipWhiteSpaceRun() {
        while position < end {
            switch base[position] {
            case 0x20, 0x0A, 0x0D, 0x09: position += 1
            default: return
            }
        }
    }

    /// Passes `byte`, which must stand here.
    @inlinable @inline(__always)
    mutating func expect(_ byte: UInt8) throws(CodecError) {
        guard position < end, base[position] == byte else { throw mismatch() }
        position &+= 1
    }

    /// Opens an object or an array, and goes to what stands first in it.
    @inlinable @inline(__always)
    mutating func open(_ bracket: UInt8) throws(CodecError) {
        try expect(bracket)
        depth += 1
        guard depth <= maximumDepth else { throw failure(.tooDeep) }
        skipWhiteSpace()
    }

    /// Passes `bracket` if it stands here.
    @inlinable @inline(__always)
    mutating func closes(_ bracket: UInt8) throws(CodecError) -> Bool {
        guard position < end, base[position] == bracket else { return false }
        position &+= 1
        return true
    }

    /// Passes a comma (true) or `bracket` (false).
    @inlinable @inline(__always)
    mutating func continues(before bracket: UInt8) throws(CodecError) -> Bool {
        skipWhiteSpace()
        guard position < end else { throw failure(.truncated) }
        let byte = base[position]
        guard byte == UInt8(ascii: ",") || byte == bracket else { throw failure(.unexpectedCharacter) }
        position &+= 1
        guard byte != bracket else { return false }
        skipWhiteSpace()
        return true
    }

    @inlinable @inline(__always)
    mutating func expectColon() throws(CodecError) {
        skipWhiteSpace()
        guard position < end, base[position] == UInt8(ascii: ":") else { throw failure(.unexpectedCharacter) }
        position &+= 1
        skipWhiteSpace()
    }

    /// Goes to the first member, or past the end of the object.
    @inlinable @inline(__always)
    mutating func firstName() throws(CodecError) {
        nameCount = try closes(UInt8(ascii: "}")) ? Self.ended : Self.unread
    }

    /// Goes to the next member, or past the end of the object.
    @inlinable @inline(__always)
    mutating func nextName() throws(CodecError) {
        if end &- position > 1, base[position] == UInt8(ascii: ","), base[position &+ 1] > 0x20 {
            position &+= 1
            nameCount = Self.unread
        } else {
            try nextNameOrEnd()
        }
    }

    /// The same with white space, or without another member.
    @usableFromInline
    mutating func nextNameOrEnd() throws(CodecError) {
        nameCount = try continues(before: UInt8(ascii: "}")) ? Self.unread : Self.ended
    }

    /// Whether the name that has been read is `name`, which is as long.
    @usableFromInline
    mutating func isNamed(_ name: StaticString) -> Bool {
        JSONName.difference(self.name, name.utf8Start, nameCount) == 0
    }

    /// Reads the name of the member, and goes to its value.
    @usableFromInline
    mutating func readName() throws(CodecError) {
        let token = try readToken()
        if token.isASCII, !token.hasEscapes {
            name = token.bytes.baseAddress ?? base
            nameCount = token.bytes.count
        } else {
            try checkUTF8(token)
            name = unescaped(token.bytes)
        }
        try expectColon()
    }

    /// Puts a name without its escapes into the scratch memory.
    private mutating func unescaped(_ bytes: UnsafeBufferPointer<UInt8>) -> UnsafePointer<UInt8> {
        let target = scratch(holding: bytes.count)
        nameCount = Self.unescape(bytes, into: target)
        return UnsafePointer(target)
    }

    private mutating func scratch(holding count: Int) -> UnsafeMutablePointer<UInt8> {
        if let scratch, scratchCapacity >= count { return scratch }
        scratch?.deallocate()
        let fresh = UnsafeMutablePointer<UInt8>.allocate(capacity: max(count, 64))
        scratch = fresh
        scratchCapacity = max(count, 64)
        return fresh
    }

    /// Turns a name like `reply_to` into `replyTo`; false if it has no underscore.
    @usableFromInline
    mutating func turnNameToCamelCase() -> Bool {
        let source = UnsafeBufferPointer(start: name, count: nameCount)
        guard source.contains(UInt8(ascii: "_")) else { return false }
        // A name in the scratch memory has room there, and is turned in place: writing never overtakes reading.
        let target = name == UnsafePointer(scratch) ? UnsafeMutablePointer(mutating: name) : scratch(holding: nameCount)
        var count = 0
        var isRaised = false
        for byte in source {
            if byte == UInt8(ascii: "_") {
                isRaised = true
            } else {
                target[count] = isRaised && byte >= 0x61 && byte <= 0x7A ? byte - 0x20 : byte
                count += 1
                isRaised = false
            }
        }
        name = UnsafePointer(target)
        nameCount = count
        return true
    }

    /// The error for a byte that is not the one expected: another type if a value begins here, else no JSON at all.
    @inline(never)
    @usableFromInline
    func mismatch() -> CodecError {
        guard position < end else { return failure(.truncated) }
        switch base[position] {
        case UInt8(ascii: "{"), UInt8(ascii: "["), UInt8(ascii: "\""), UInt8(ascii: "-"), UInt8(ascii: "t"),
            UInt8(ascii: "f"), UInt8(ascii: "n"), UInt8(ascii: "0")...UInt8(ascii: "9"):
            return failure(.wrongType)
        default: return failure(.unexpectedCharacter)
        }
    }

    /// Passes `null` if it stands here.
    @inlinable @inline(__always)
    mutating func readNull() throws(CodecError) -> Bool {
        guard position < end, base[position] == UInt8(ascii: "n") else { return false }
        try expectWord("null")
        return true
    }

    @usableFromInline
    mutating func expectWord(_ word: StaticString) throws(CodecError) {
        for index in 0..<word.utf8CodeUnitCount {
            guard position < end, base[position] == word.utf8Start[index] else { throw failure(.unexpectedCharacter) }
            position += 1
        }
    }

    /// Passes over a value of any type, with all its checks.
    @usableFromInline
    mutating func skipValue() throws(CodecError) {
        guard position < end else { throw failure(.truncated) }
        switch base[position] {
        case UInt8(ascii: "\""):
            try checkUTF8(try readToken())
        case UInt8(ascii: "{"):
            try open(UInt8(ascii: "{"))
            var hasMore = try !closes(UInt8(ascii: "}"))
            while hasMore {
                try checkUTF8(try readToken())
                try expectColon()
                try skipValue()
                hasMore = try continues(before: UInt8(ascii: "}"))
            }
            depth -= 1
        case UInt8(ascii: "["):
            try open(UInt8(ascii: "["))
            var hasMore = try !closes(UInt8(ascii: "]"))
            while hasMore {
                try skipValue()
                hasMore = try continues(before: UInt8(ascii: "]"))
            }
            depth -= 1
        case UInt8(ascii: "t"): try expectWord("true")
        case UInt8(ascii: "f"): try expectWord("false")
        case UInt8(ascii: "n"): try expectWord("null")
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): _ = try readNumber()
        default: throw failure(.unexpectedCharacter)
        }
    }
}
