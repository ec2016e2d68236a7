import Primitives

/// Reads a message from JSON (RFC 8259) by the proto3 JSON mapping, strictly.
///
/// A visit passes once over the declared fields. Each field takes the next member of the input if it has the field's
/// name. Members in the order of their declaration are read in one visit. Each step back in that order needs another
/// visit. The name of a field is compared with the input as it is. If a visit takes no member, the name is read with
/// its escapes, and another visit compares it. If that visit takes none either, the member is unknown. It is skipped,
/// and checked as strictly as a member that is read.
///
/// - If a name occurs twice, the last value counts, as a whole. The same is true for a key of a map. Two keys that
///   differ in their bytes and are equal as `String` are an error.
/// - A oneof that is set twice, by one name or two, is an error. A member that is `null` does not set it.
/// - `null` is the default. As an element of an array or the value of a map it is an error, unless the type is
///   ``JSONValue``.
/// - A `snake_case` name is the same as the lowerCamelCase name, as the mapping requires of readers.
/// - A number may be a string, and a string of digits a number, if the type can represent it. `1.0` and `1e3` are
///   integers.
/// - An enum is a name or a number. An unknown name counts as absent, for compatibility with newer peers.
/// - Bytes are base64, standard or URL-safe, with or without padding.
@usableFromInline
package struct JSONReader: FieldVisitor {
    @usableFromInline let base: UnsafePointer<UInt8>
    @usableFromInline var position = 0
    @usableFromInline let end: Int
    /// The name of the current member, without escapes, if it has been read.
    @usableFromInline var name: UnsafePointer<UInt8>
    /// The length of `name`; ``unread`` if the name begins at `position`, ``ended`` at the end of the object.
    @usableFromInline var nameCount = JSONReader.ended
    /// Whether the last enum that was read has an unknown name.
    @usableFromInline var isUnknownEnum = false
    /// Whether the key of a map is being read. `true` and `false` are in quotes there.
    @usableFromInline var isReadingKey = false
    @usableFromInline var budget: MessageBudget
    /// Memory for names that differ from their bytes in the input.
    var scratch: UnsafeMutablePointer<UInt8>?
    var scratchCapacity = 0

    /// A reader of `count` bytes at `base`, which must outlive it. Its creator must call ``release()`` at the end.
    @usableFromInline
    package init(base: UnsafePointer<UInt8>, count: Int, limits: CodecLimits) {
        self.init(base: base, count: count, budget: MessageBudget(limits))
    }

    /// A reader of a part of a message, which has this budget left.
    @usableFromInline
    init(base: UnsafePointer<UInt8>, count: Int, budget: MessageBudget) {
        self.base = base
        end = count
        name = base
        self.budget = budget
    }

    /// Reads the one message in `count` bytes at `base`. The reader is released here, and not where the message is
    /// created, so that the message is not copied when it is returned.
    @inlinable
    static func read<M: WireMessage>(
        _ message: inout M,
        base: UnsafePointer<UInt8>,
        count: Int,
        limits: CodecLimits
    ) throws(CodecError) {
        var reader = JSONReader(base: base, count: count, limits: limits)
        defer { reader.release() }
        reader.skipWhiteSpace()
        try reader.visit(&message)
        reader.skipWhiteSpace()
        guard reader.position == reader.end else { throw reader.failure(.trailingBytes) }
    }

    @usableFromInline
    func release() { scratch?.deallocate() }

    @inlinable @inline(__always)
    static var unread: Int { -1 }
    @inlinable @inline(__always)
    static var ended: Int { -2 }

    @inline(never)
    @usableFromInline
    func failure(_ code: CodecError.Code) -> CodecError {
        CodecError(position >= end && code == .unexpectedCharacter ? .truncated : code, at: position)
    }
}

extension JSONReader {
    /// Reads a JSON object.
    @inlinable
    package mutating func readFields<M: WireMessage>(of message: inout M) throws(CodecError) {
        try open(UInt8(ascii: "{"))
        try firstName()
        while nameCount == Self.unread {
            let start = position
            try message.visitFields(&self)
            guard position == start else { continue }
            try readName()
            try message.visitFields(&self)
            guard nameCount >= 0 else { continue }
            if turnNameToCamelCase() {
                try message.visitFields(&self)
                guard nameCount >= 0 else { continue }
            }
            try skipValue()
            try nextName()
        }
        budget.leave()
    }
}

extension JSONReader {
    /// Whether the current member has the name `name`. If it has, its value begins at `position`.
    @inlinable @inline(__always)
    mutating func isNext(_ name: StaticString) -> Bool {
        let count = name.utf8CodeUnitCount
        guard nameCount == Self.unread else { return nameCount == count && isNamed(name) }
        // The name in quotes, and the colon. A name with escapes or with white space after it is left to a later visit.
        guard end &- position > count &+ 3, JSONName.stands(name, at: base + position) else { return false }
        position &+= count &+ 3
        if base[position] <= 0x20 { skipWhiteSpaceRun() }
        return true
    }

    /// Reads the current member if it has this name.
    @inlinable @inline(__always)
    package mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T,
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        guard isNext(name) else { return }
        do throws(CodecError) {
            var fresh = T()
            if try !readNull() {
                try fresh.read(from: &self, as: encoding)
                isUnknownEnum = false
            }
            value = fresh
        } catch {
            throw error.inside(name)
        }
        try nextName()
    }

    /// Reads the current member if it has this name.
    @inlinable @inline(__always)
    package mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T?,
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        guard isNext(name) else { return }
        do throws(CodecError) {
            value = nil
            if try !readNull() {
                var fresh = T()
                try fresh.read(from: &self, as: encoding)
                if !isUnknownEnum { value = fresh }
                isUnknownEnum = false
            }
        } catch {
            throw error.inside(name)
        }
        try nextName()
    }

    /// Reads the current member if it has this name. It is an error if the oneof is set already.
    @inlinable @inline(__always)
    package mutating func oneof<Choice, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ choice: inout Choice?,
        as encoding: IntegerEncoding,
        get: (Choice) -> T?,
        set: (T) -> Choice
    ) throws(CodecError) {
        guard isNext(name) else { return }
        do throws(CodecError) {
            if try !readNull() {
                var fresh = T()
                try fresh.read(from: &self, as: encoding)
                if !isUnknownEnum {
                    guard choice == nil else { throw failure(.repeatedOneof) }
                    choice = set(fresh)
                }
                isUnknownEnum = false
            }
        } catch {
            throw error.inside(name)
        }
        try nextName()
    }

    /// Reads the current member if it has this name.
    @inlinable @inline(__always)
    package mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [T],
        as encoding: IntegerEncoding,
        packed: Bool
    ) throws(CodecError) {
        guard isNext(name) else { return }
        do throws(CodecError) {
            values = []
            if try !readNull() { try readElements(&values, as: encoding) }
        } catch {
            throw error.inside(name)
        }
        try nextName()
    }

    /// Reads the current member if it has this name.
    @inlinable @inline(__always)
    package mutating func field<K: WireMapKey, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [K: T],
        as encoding: IntegerEncoding,
        keys: IntegerEncoding
    ) throws(CodecError) {
        guard isNext(name) else { return }
        do throws(CodecError) {
            values = [:]
            if try !readNull() { try readEntries(&values, as: encoding) }
        } catch {
            throw error.inside(name)
        }
        try nextName()
    }

    /// Reads the current member if it has this name, and checks its length.
    @inlinable @inline(__always)
    package mutating func identifier(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout String
    ) throws(CodecError) {
        let start = position
        try field(number, name, &value, as: .varint)
        // A text is no longer than the input that it was read from.
        if position &- start > budget.maximumKeyLength { try check(name, identifier: value.utf8.count) }
    }

    /// Reads the current member if it has this name, and checks its length.
    @inlinable @inline(__always)
    package mutating func identifier(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout String?
    ) throws(CodecError) {
        let start = position
        try field(number, name, &value, as: .varint)
        if position &- start > budget.maximumKeyLength { try check(name, identifier: value?.utf8.count ?? 0) }
    }

    /// Throws if an identifier of `length` bytes is longer than the limit.
    @inlinable
    func check(_ name: StaticString, identifier length: Int) throws(CodecError) {
        guard budget.allowsKey(ofLength: length) else { throw failure(.keyTooLong).inside(name) }
    }

    /// Reads the current member if it has this name, and checks the length of each element.
    @inlinable
    package mutating func identifier(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [String]
    ) throws(CodecError) {
        let start = position
        try field(number, name, &values, as: .varint)
        guard position &- start > budget.maximumKeyLength else { return }
        for value in values { try check(name, identifier: value.utf8.count) }
    }

    /// Does nothing, because unknown members are skipped.
    @inlinable @inline(__always)
    package mutating func unknownFields(_ storage: inout UnknownFields) {}

    /// Counts one more element of a field that has `count` of them.
    @inlinable @inline(__always)
    mutating func countElement(besides count: Int) throws(CodecError) {
        guard budget.addElement(to: count) else { throw failure(.tooManyElements) }
    }

    @inlinable
    mutating func readElements<T: WireValue>(_ values: inout [T], as encoding: IntegerEncoding) throws(CodecError) {
        try open(UInt8(ascii: "["))
        var hasMore = try !closes(UInt8(ascii: "]"))
        while hasMore {
            try countElement(besides: values.count)
            values.reserveFew()
            var value = T()
            try value.read(from: &self, as: encoding)
            if !isUnknownEnum { values.append(value) }
            isUnknownEnum = false
            hasMore = try continues(before: UInt8(ascii: "]"))
        }
        budget.leave()
    }

    @inlinable
    mutating func readEntries<K: WireMapKey, T: WireValue>(
        _ values: inout [K: T],
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        try open(UInt8(ascii: "{"))
        var hasMore = try !closes(UInt8(ascii: "}"))
        while hasMore {
            try countElement(besides: values.count)
            let start = position
            let key: K = try readKey()
            guard budget.allowsKey(ofLength: key.utf8Length) else { throw CodecError(.keyTooLong, at: start) }
            try expectColon()
            var value = T()
            try value.read(from: &self, as: encoding)
            if !isUnknownEnum, !values.set(value, of: key) { throw CodecError(.ambiguousKey, at: start) }
            isUnknownEnum = false
            hasMore = try continues(before: UInt8(ascii: "}"))
        }
        budget.leave()
    }

    /// Reads the key of a map. It is a string, whatever its type.
    @inlinable @inline(__always)
    mutating func readKey<K: WireMapKey>() throws(CodecError) -> K {
        guard position < end, base[position] == UInt8(ascii: "\"") else { throw mismatch() }
        var key = K()
        isReadingKey = true
        try key.read(from: &self, as: .varint)
        isReadingKey = false
        return key
    }
}

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

    /// Reads `byte`, or throws if the next byte is another.
    @inlinable @inline(__always)
    mutating func expect(_ byte: UInt8) throws(CodecError) {
        guard position < end, base[position] == byte else { throw mismatch() }
        position &+= 1
    }

    /// Reads the opening bracket of an object or an array, and white space.
    @inlinable @inline(__always)
    mutating func open(_ bracket: UInt8) throws(CodecError) {
        try expect(bracket)
        guard budget.enter() else { throw failure(.tooDeep) }
        skipWhiteSpace()
    }

    /// Reads `bracket` if it is next.
    @inlinable @inline(__always)
    mutating func closes(_ bracket: UInt8) throws(CodecError) -> Bool {
        guard position < end, base[position] == bracket else { return false }
        position &+= 1
        return true
    }

    /// Reads a comma and returns `true`, or reads `bracket` and returns `false`.
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

    /// Moves to the first member, or reads the end of the object.
    @inlinable @inline(__always)
    mutating func firstName() throws(CodecError) {
        nameCount = try closes(UInt8(ascii: "}")) ? Self.ended : Self.unread
    }

    /// Moves to the next member, or reads the end of the object.
    @inlinable @inline(__always)
    mutating func nextName() throws(CodecError) {
        if end &- position > 1, base[position] == UInt8(ascii: ","), base[position &+ 1] > 0x20 {
            position &+= 1
            nameCount = Self.unread
        } else {
            try nextNameOrEnd()
        }
    }

    /// The same for the end of the object, and for input with white space.
    @usableFromInline
    mutating func nextNameOrEnd() throws(CodecError) {
        nameCount = try continues(before: UInt8(ascii: "}")) ? Self.unread : Self.ended
    }

    /// Whether the name that has been read is `name`, which has the same length.
    @usableFromInline
    mutating func isNamed(_ name: StaticString) -> Bool {
        JSONName.difference(self.name, name.utf8Start, nameCount) == 0
    }

    /// Reads the name of the current member, and moves to its value.
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

    /// Writes the name without its escapes into the scratch memory.
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

    /// Changes a name like `reply_to` into `replyTo`. Returns `false` for a name without an underscore.
    @usableFromInline
    mutating func turnNameToCamelCase() -> Bool {
        let source = UnsafeBufferPointer(start: name, count: nameCount)
        guard source.contains(UInt8(ascii: "_")) else { return false }
        // A name in the scratch memory is changed in place: the write position never passes the read position.
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

    /// The error for an unexpected byte: `.wrongType` if a JSON value begins with it, otherwise `.unexpectedCharacter`.
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

    /// Reads `null` if it is next.
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

    /// Skips a value of any type, with all checks.
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
            budget.leave()
        case UInt8(ascii: "["):
            try open(UInt8(ascii: "["))
            var hasMore = try !closes(UInt8(ascii: "]"))
            while hasMore {
                try skipValue()
                hasMore = try continues(before: UInt8(ascii: "]"))
            }
            budget.leave()
        case UInt8(ascii: "t"): try expectWord("true")
        case UInt8(ascii: "f"): try expectWord("false")
        case UInt8(ascii: "n"): try expectWord("null")
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): _ = try readNumber()
        default: throw failure(.unexpectedCharacter)
        }
    }
}

extension JSONReader: ValueReader {
    @usableFromInline
    func startsNumber(at index: Int) -> Bool {
        index < end && (base[index] == UInt8(ascii: "-") || base[index] &- UInt8(ascii: "0") < 10)
    }

    /// Reads `true` or `false`.
    @usableFromInline
    package mutating func readBool() throws(CodecError) -> Bool {
        guard position < end else { throw failure(.truncated) }
        switch base[position] {
        case UInt8(ascii: "t"): try expectWord("true")
        case UInt8(ascii: "f"):
            try expectWord("false")
            return false
        case UInt8(ascii: "\"") where isReadingKey: return try readQuotedBool()
        default: throw mismatch()
        }
        return true
    }

    /// Reads a number, or a string with a number.
    @inlinable
    package mutating func readInteger<I: WireInteger>(as encoding: IntegerEncoding) throws(CodecError) -> I {
        if position < end, base[position] == UInt8(ascii: "\"") { return try readQuotedInteger() }
        guard startsNumber(at: position) else { throw mismatch() }
        return try readPlainInteger()
    }

    @inlinable
    mutating func readQuotedInteger<I: WireInteger>() throws(CodecError) -> I {
        try readQuoted { reader throws(CodecError) in try reader.readPlainInteger() }
    }

    /// Reads the content of a string by `read`. If `read` stops at an escape, it reads a copy without escapes.
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
                // A quote that was escaped does not end the string.
                guard reader.position == reader.end else { throw reader.failure(.invalidNumber) }
                return value
            } catch {
                throw CodecError(error.code, at: start)
            }
        }
    }

    /// Reads a string. Returns its bytes without escapes, followed by a quote.
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

    /// Reads a number, or a string with a number, `NaN` or an infinity.
    @usableFromInline
    package mutating func readFloat() throws(CodecError) -> Float {
        guard try beginsQuoted() else { return try float(try readNumber()) }
        return try readQuoted { reader throws(CodecError) in
            if let special = try reader.readNonFinite() { return Float(special) }
            return try reader.float(try reader.readNumber())
        }
    }

    /// Reads a number, or a string with a number, `NaN` or an infinity.
    @usableFromInline
    package mutating func readDouble() throws(CodecError) -> Double {
        guard try beginsQuoted() else { return try double(try readNumber()) }
        return try readQuoted { reader throws(CodecError) in
            if let special = try reader.readNonFinite() { return special }
            return try reader.double(try reader.readNumber())
        }
    }

    /// Whether a string is next. If not, a number must be.
    private func beginsQuoted() throws(CodecError) -> Bool {
        if position < end, base[position] == UInt8(ascii: "\"") { return true }
        guard startsNumber(at: position) else { throw mismatch() }
        return false
    }

    /// Reads `NaN`, `Infinity` or `-Infinity` without quotes. Returns `nil` if none of them is next.
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
    @usableFromInline
    package mutating func readString() throws(CodecError) -> String {
        if let text = readShort() { return text }
        let token = try readToken()
        guard !token.hasEscapes else { return try string(token) }
        try checkUTF8(token)
        return Codecs.string(wellFormed: token.bytes, isASCII: token.isASCII)
    }

    /// The string of a token, which may have escapes.
    @inline(never)
    @usableFromInline
    mutating func string(_ token: Token) throws(CodecError) -> String {
        try checkUTF8(token)
        return String(unsafeUninitializedCapacity: token.bytes.count) { target in
            target.baseAddress.map { Self.unescape(token.bytes, into: $0) } ?? 0
        }
    }

    /// Reads base64.
    @usableFromInline
    package mutating func readBytes() throws(CodecError) -> [UInt8] {
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

    /// Reads the name or the number of an enum.
    @inlinable
    package mutating func readEnum<E: WireEnum>() throws(CodecError) -> E {
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

    /// Reads a nested message.
    @inlinable
    package mutating func read<M: WireMessage>(message: inout M) throws(CodecError) {
        try visit(&message)
    }
}
