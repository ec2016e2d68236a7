@testable import Codecs

private func limits(_ input: inout FuzzInput) -> CodecLimits {
    CodecLimits(
        maximumDepth: input.choice(of: [64, 3, 256]),
        maximumLength: input.choice(of: [65_536, 64]),
        maximumCount: input.choice(of: [65_536, 4])
    )
}

func fuzzJSON(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let limits = limits(&input)
    let bytes = Array(input.rest)
    try checkCodec(JSONCodec(limits: limits), bytes)
    try checkJSONWays(bytes, limits)
    if let chat = try? JSONCodec(limits: limits).decode(ChatMessage.self, from: bytes) {
        let again = try JSONCodec().decode(ChatMessage.self, from: JSONCodec().encode(chat))
        try ensure(again == chat, "\(chat) is read as \(again)")
    }
    if let value = try? JSONValue(json: bytes, limits: limits) {
        try ensure(value.range.upperBound <= bytes.count, "a value ends at \(value.range)")
        let wide = CodecLimits(maximumDepth: CodecLimits.greatestDepth)
        let again = try JSONValue(json: value.json(limits: wide), limits: wide)
        try ensure(again == value, "\(value) is read as \(again)")
    }
}

func fuzzXML(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let limits = limits(&input)
    let bytes = Array(input.rest)
    try checkCodec(XMLCodec(limits: limits), bytes)
    try checkForbidden(bytes)
    if let chat = try? XMLCodec(limits: limits).decode(ChatMessage.self, from: bytes) {
        let again = try XMLCodec().decode(ChatMessage.self, from: XMLCodec().encode(chat))
        try ensure(again == chat, "\(chat) is read as \(again)")
    }
    // The bytes as a text and as a key, whatever characters they have.
    var message = AllTypes()
    message.string = String(decoding: bytes, as: UTF8.self)
    message.byName = [String(message.string.unicodeScalars.prefix(60)): 1]
    let document = try XMLCodec().encode(message)
    try ensure(document.allSatisfy { $0 >= 0x20 || $0 == 0x09 || $0 == 0x0A }, "a control character is written")
    let read = try XMLCodec().decode(AllTypes.self, from: document)
    try ensure(read.string.utf8.elementsEqual(message.string.utf8), "a text has changed")
    let keys = (read.byName.keys.first.map { Array($0.utf8) }, message.byName.keys.first.map { Array($0.utf8) })
    try ensure(keys.0 == keys.1, "a key has changed")
}

/// Checks that the first forbidden character is the one that is found byte by byte.
private func checkForbidden(_ bytes: [UInt8]) throws {
    let expected = bytes.indices.first { index in
        let byte = bytes[index]
        if byte < 0x20 { return ![0x09, 0x0A, 0x0D].contains(byte) }
        return [[0xEF, 0xBF, 0xBE], [0xEF, 0xBF, 0xBF]].contains(Array(bytes[index...].prefix(3)))
    }
    let found = bytes.withUnsafeBufferPointer { XMLCharacters.firstForbidden($0) }
    try ensure(found == expected, "a forbidden character is found at \(found as Any), and is at \(expected as Any)")
}

func fuzzProtobuf(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let limits = limits(&input)
    let bytes = Array(input.rest)
    try checkCodec(ProtobufCodec(limits: limits), bytes)
    try checkVarint(bytes, limits)
    if let chat = try? ProtobufCodec(limits: limits).decode(ChatMessage.self, from: bytes) {
        for format in WireFormat.allCases {
            let codec = format.codec()
            try ensure(
                try codec.encode(chat) == codec.encode(Copied(message: chat)),
                "\(format): a copy of \(chat) is written otherwise"
            )
        }
    }
}

/// Checks that the two readers of varints agree in value, length and error.
private func checkVarint(_ bytes: [UInt8], _ limits: CodecLimits) throws {
    try bytes.withUnsafeBufferPointer { bytes in
        guard let base = bytes.baseAddress else { return }
        var reader = ProtobufReader(base: base, count: bytes.count, limits: limits)
        var plain = reader
        let read = Result { () throws(CodecError) in try reader.readLongVarint() }
        let expected = Result { () throws(CodecError) in try plain.readVarintByByte() }
        try ensure(read == expected, "a varint is read as \(read) and \(expected)")
        try ensure(reader.position == plain.position, "one reads to \(reader.position), the other to \(plain.position)")
    }
}

/// A message that is copied before its fields are visited.
private struct Copied: WireMessage {
    var message = ChatMessage()

    mutating func visitFields<V: FieldVisitor>(_ visitor: inout V) throws(CodecError) {
        try message.visitFields(&visitor)
    }
}

/// Checks that a decoded message is the same after it was written and read again, in every format. Bytes are compared,
/// because NaN differs from itself.
private func checkCodec(_ codec: some MessageCodec, _ bytes: [UInt8]) throws {
    let message: AllTypes
    do throws(CodecError) {
        message = try codec.decode(AllTypes.self, from: bytes)
    } catch {
        try ensure(0...bytes.count ~= error.offset, "an error at \(error.offset) of \(bytes.count)")
        return
    }
    try ensure(bytes.count <= codec.limits.maximumLength, "longer than the limit")
    // A message within the limits can be written, unless its text is longer than what was read, as with escapes.
    do throws(CodecError) {
        _ = try codec.decode(AllTypes.self, from: try codec.encode(message))
    } catch {
        try ensure(error.code == .tooLong, "a message that was read is not written and read again: \(error)")
    }
    let wide = CodecLimits(maximumDepth: CodecLimits.greatestDepth)
    let formats: [any MessageCodec] = [ProtobufCodec(limits: wide), JSONCodec(limits: wide), XMLCodec(limits: wide)]
    let json: [UInt8]
    do throws(CodecError) {
        json = try JSONCodec(limits: wide).encode(message)
    } catch {
        // In JSON, a list of messages is a level too.
        return try ensure(error.code == .tooDeep, "a message that was read is not written as JSON: \(error)")
    }
    for format in formats {
        let written = try format.encode(message)
        let read = try format.decode(AllTypes.self, from: written)
        try ensure(try format.encode(read) == written, "\(format.format): it is written otherwise the second time")
        try ensure(try JSONCodec(limits: wide).encode(read) == json, "\(format.format): it has changed")
    }
}
