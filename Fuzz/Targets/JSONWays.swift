@testable import Codecs

/// Checks that the JSON reader's short ways and its long way have equal results for any bytes.
func checkJSONWays(_ bytes: [UInt8], _ limits: CodecLimits) throws {
    try checkNames(bytes, limits)
    try bytes.withUnsafeBufferPointer { buffer in
        guard let base = buffer.baseAddress else { return }
        for start in 0..<min(bytes.count, 64) {
            var reader = JSONReader(base: base, count: bytes.count, limits: limits)
            defer { reader.release() }
            reader.position = start
            switch bytes[start] {
            case UInt8(ascii: "\""): try checkString(reader, bytes)
            case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"):
                try checkNumber(reader)
            default: break
            }
        }
    }
}

/// The result of a read, and the position of the reader after it.
private struct Outcome<Value: Equatable>: Equatable {
    var value: Value?
    var error: CodecError?
    var position: Int

    init(_ reader: JSONReader, _ read: (inout JSONReader) throws(CodecError) -> Value) {
        var reader = reader
        do throws(CodecError) { value = try read(&reader) } catch { self.error = error }
        position = reader.position
    }
}

private func checkString(_ reader: JSONReader, _ bytes: [UInt8]) throws {
    let short = Outcome(reader) { reader throws(CodecError) in Array(try reader.readString().utf8) }
    let long = Outcome(reader) { reader throws(CodecError) in
        let token = try reader.readToken()
        return Array(try reader.string(token).utf8)
    }
    try ensure(short == long, "\(short), but by the token \(long)")
    // Byte by byte, what most strings are.
    let content = bytes[(reader.position + 1)...].prefix { $0 >= 0x20 && $0 != 0x22 && $0 != 0x5c }
    guard reader.position + 1 + content.count < bytes.count, bytes[reader.position + 1 + content.count] == 0x22 else {
        return
    }
    let isText = String(validating: content, as: UTF8.self) != nil
    try ensure(short.value == (isText ? Array(content) : nil), "\(short), but \(content)")
}

private func checkNumber(_ reader: JSONReader) throws {
    let short = Outcome(reader) { reader throws(CodecError) in
        let (isNegative, magnitude) = try reader.readWhole()
        return [isNegative ? 1 : 0, magnitude]
    }
    // Nothing where it takes more than the digits to tell.
    let long = Outcome(reader) { reader throws(CodecError) -> [UInt64] in
        let number = try reader.readNumber()
        return number.isInteger && number.isExact ? [number.isNegative ? 1 : 0, number.mantissa] : []
    }
    try ensure(long.value == [] ? short.position == long.position : short == long, "\(short), but \(long)")
}

private func checkNames(_ bytes: [UInt8], _ limits: CodecLimits) throws {
    let codec = JSONCodec(limits: limits)
    let short = Result { () throws(CodecError) in try codec.decode(ChatMessage.self, from: bytes) }
    let long = Result { () throws(CodecError) in try codec.decode(WithReadNames.self, from: bytes).message }
    try ensure(short == long, "\(short), but with names that are read \(long)")
}

/// A chat message that reads every name, before it is compared with those of the fields.
private struct WithReadNames: WireMessage {
    var message = ChatMessage()

    mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
        try message.visitFields(&visitor)
    }

    mutating func perform(_ visit: CodecVisit) throws(CodecError) {
        if case .jsonReader(let reader) = visit.visitor { try readFields(from: &reader.pointee) }
    }

    private mutating func readFields(from reader: inout JSONReader) throws(CodecError) {
        var names = NameReader(reader: reader)
        // With the memory that it has taken, also if there is an error.
        defer { reader = names.reader }
        try names.reader.open(UInt8(ascii: "{"))
        try names.reader.firstName()
        while names.reader.nameCount != JSONReader.ended {
            names.hasTaken = false
            try names.readName()
            try message.visitFields(&names)
            if !names.hasTaken, names.reader.turnNameToCamelCase() { try message.visitFields(&names) }
            if names.hasTaken { continue }
            try names.reader.skipValue()
            try names.reader.nextName()
        }
        names.reader.budget.leave()
    }
}

private struct NameReader: FieldVisitor {
    var reader: JSONReader
    var hasTaken = false

    mutating func readName() throws(CodecError) {
        if reader.nameCount == JSONReader.unread { try reader.readName() }
    }

    private mutating func read(_ field: (inout JSONReader) throws(CodecError) -> Void) throws(CodecError) {
        try readName()
        let start = reader.position
        try field(&reader)
        if reader.position != start { hasTaken = true }
    }

    mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T,
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        try read { reader throws(CodecError) in try reader.field(number, name, &value, as: encoding) }
    }

    mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ value: inout T?,
        as encoding: IntegerEncoding
    ) throws(CodecError) {
        try read { reader throws(CodecError) in try reader.field(number, name, &value, as: encoding) }
    }

    mutating func field<T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [T],
        as encoding: IntegerEncoding,
        packed: Bool
    ) throws(CodecError) {
        try read { reader throws(CodecError) in
            try reader.field(number, name, &values, as: encoding, packed: packed)
        }
    }

    mutating func oneof<Choice, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ choice: inout Choice?,
        as encoding: IntegerEncoding,
        get: (Choice) -> T?,
        set: (T) -> Choice
    ) throws(CodecError) {
        try read { reader throws(CodecError) in
            try reader.oneof(number, name, &choice, as: encoding, get: get, set: set)
        }
    }

    mutating func field<K: WireMapKey, T: WireValue>(
        _ number: UInt32,
        _ name: StaticString,
        _ values: inout [K: T],
        as encoding: IntegerEncoding,
        keys: IntegerEncoding
    ) throws(CodecError) {
        try read { reader throws(CodecError) in
            try reader.field(number, name, &values, as: encoding, keys: keys)
        }
    }

    mutating func identifier(_ number: UInt32, _ name: StaticString, _ value: inout String) throws(CodecError) {
        try read { reader throws(CodecError) in try reader.identifier(number, name, &value) }
    }

    mutating func identifier(_ number: UInt32, _ name: StaticString, _ value: inout String?) throws(CodecError) {
        try read { reader throws(CodecError) in try reader.identifier(number, name, &value) }
    }

    mutating func identifier(_ number: UInt32, _ name: StaticString, _ values: inout [String]) throws(CodecError) {
        try read { reader throws(CodecError) in try reader.identifier(number, name, &values) }
    }

    mutating func unknownFields(_ storage: inout UnknownFields) throws(CodecError) {}
}
