/// Reads a message from JSON (RFC 8259) by the proto3 JSON mapping, strictly.
///
/// Each visit goes once over the declared fields, and each of them takes the member that stands next if it is its own:
/// members in the order of their declaration are read in one visit, and each step back costs one more. Names are compared
/// with the input as it stands, before anything is known of it. Only when a visit has taken nothing the name is read, with
/// its escapes, and there is another. If that takes nothing either, the member is unknown; it is passed over, and checked as
/// strictly as what is read.
///
/// - A name that comes twice: the last value counts, as a whole. So does the last value of a map's key; two keys that differ in
///   their bytes and are equal to `String` are an error.
/// - A oneof that is given twice, by one name or two, is an error. A member that is `null` is not given.
/// - `null` is the default; as an element of an array or the value of a map it is an error.
/// - `snake_case` names are taken for the lowerCamelCase ones, as the mapping asks of readers.
/// - Numbers may be strings and strings of digits may be numbers, in the type's range; `1.0` and `1e3` are integers too.
/// - Enums come as names or numbers. A name that is not known counts as absent, so that a newer peer is understood.
/// - Bytes come in standard or URL-safe base64, padded or not.
public struct JSONReader: FieldVisitor {
    @usableFromInline let base: UnsafePointer<UInt8>
    @usableFromInline var position = 0
    @usableFromInline let end: Int
    /// The name of the member that waits for a taker, without escapes, if it has been read.
    @usableFromInline var name: UnsafePointer<UInt8>
    /// Its length; ``unread`` if the name stands at `position`, ``ended`` at the end of the object.
    @usableFromInline var nameCount = JSONReader.ended
    /// Whether the enum's name that was read last is not known.
    @usableFromInline var isUnknownEnum = false
    @usableFromInline var depth = 0
    @usableFromInline let maximumDepth: Int
    @usableFromInline let maximumCount: Int
    @usableFromInline let maximumKeyLength: Int
    /// How many elements the whole message may still have.
    @usableFromInline var elementsLeft: Int
    /// Where names are put that do not stand in the input as they are.
    var scratch: UnsafeMutablePointer<UInt8>?
    var scratchCapacity = 0

    /// A reader of `count` bytes at `base`, which must outlive it. Whoever makes one calls ``release()`` at the end.
    @usableFromInline
    init(base: UnsafePointer<UInt8>, count: Int, limits: CodecLimits) {
        self.base = base
        end = count
        name = base
        maximumDepth = limits.maximumDepth
        maximumCount = limits.maximumCount
        maximumKeyLength = limits.maximumKeyLength
        elementsLeft = limits.maximumElements
    }

    /// Reads the one message that `count` bytes at `base` hold. What is left to do at the end of a reader is done here, apart
    /// from what makes the message, so that it is not copied on its way out.
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
        try message.readFields(from: &reader)
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

extension WireMessage {
    /// Reads a JSON object.
    @inlinable
    public mutating func readFields(from reader: inout JSONReader) throws(CodecError) {
        try reader.open(UInt8(ascii: "{"))
        try reader.firstName()
        while reader.nameCount == JSONReader.unread {
            let start = reader.position
            try visitFields(&reader)
            guard reader.position == start else { continue }
            try reader.readName()
            try visitFields(&reader)
            guard reader.nameCount >= 0 else { continue }
            if reader.turnNameToCamelCase() {
                try visitFields(&reader)
                guard reader.nameCount >= 0 else { continue }
            }
            try reader.skipValue()
            try reader.nextName()
        }
        reader.depth -= 1
    }
}

extension JSONReader {
    /// Whether `name` is that of the member that waits; if so, its value stands at `position`.
    @inlinable @inline(__always)
    mutating func isNext(_ name: StaticString) -> Bool {
        let count = name.utf8CodeUnitCount
        guard nameCount == Self.unread else { return nameCount == count && isNamed(name) }
        // With its quotes and the colon. What is written otherwise is left to a later visit.
        guard end &- position > count &+ 3, JSONName.stands(name, at: base + position) else { return false }
        position &+= count &+ 3
        if base[position] <= 0x20 { skipWhiteSpaceRun() }
        return true
    }

    /// Takes the member if it is next.
    @inlinable @inline(__always)
    public mutating func field<T: WireValue>(
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

    /// Takes the member if it is next.
    @inlinable @inline(__always)
    public mutating func field<T: WireValue>(
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

    /// Takes the member if it is next; an error if the oneof has one already.
    @inlinable @inline(__always)
    public mutating func oneof<Choice, T: WireValue>(
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

    /// Takes the member if it is next.
    @inlinable @inline(__always)
    public mutating func field<T: WireValue>(
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

    /// Takes the member if it is next.
    @inlinable @inline(__always)
    public mutating func field<K: WireMapKey, T: WireValue>(
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

    /// Where the reader stands, in bytes from the start of the input.
    @inlinable @inline(__always)
    public var readPosition: Int { position }

    /// The longest identifier, in bytes of UTF-8.
    @inlinable @inline(__always)
    public var longestIdentifier: Int { maximumKeyLength }

    /// Checks the length of an identifier that has been read.
    @inlinable
    public func check(_ name: StaticString, identifier length: Int) throws(CodecError) {
        guard length <= maximumKeyLength else { throw failure(.keyTooLong).inside(name) }
    }

    /// Takes the member if it is next, and checks the length of each element.
    @inlinable
    public mutating func identifier(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [String]
    ) throws(CodecError) {
        let start = position
        try field(number, name, &values, as: .varint)
        guard position &- start > maximumKeyLength else { return }
        for value in values { try check(name, identifier: value.utf8.count) }
    }

    /// Does nothing: unknown members are passed over.
    @inlinable @inline(__always)
    public mutating func unknownFields(_ storage: inout UnknownFields) {}

    /// Counts an element of a field that has `count` already.
    @inlinable @inline(__always)
    mutating func countElement(besides count: Int) throws(CodecError) {
        guard count < maximumCount, elementsLeft > 0 else { throw failure(.tooManyElements) }
        elementsLeft &-= 1
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
        depth -= 1
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
            let key = try K(name: &self)
            guard key.utf8Length <= maximumKeyLength else { throw CodecError(.keyTooLong, at: start) }
            try expectColon()
            var value = T()
            try value.read(from: &self, as: encoding)
            if !isUnknownEnum, !values.set(value, of: key) { throw CodecError(.ambiguousKey, at: start) }
            isUnknownEnum = false
            hasMore = try continues(before: UInt8(ascii: "}"))
        }
        depth -= 1
    }
}
