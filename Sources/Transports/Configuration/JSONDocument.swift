import Codecs
import Protocols
import TransportAPI

/// The text of a JSON file (RFC 8259, strictly) and its contents, each name and value with its place.
///
/// The text can have up to 1 MiB, unless another limit is given, and 32 levels. A name must not occur twice in one
/// object, because one of the two values would be lost silently (section 4 of the RFC leaves open which one).
struct JSONDocument: Sendable {
    /// The longest text that is read unless another limit is given, in bytes.
    static let maximumLength = 1 << 20
    /// The deepest nesting of objects and arrays. The outermost level is 1.
    static let maximumDepth = 32

    /// A place in the text, counted from 1.
    struct Place: Sendable, Hashable {
        var line: Int
        /// The column, in Unicode scalars.
        var column: Int
    }

    /// The name of the text in errors, usually the file's name.
    let label: String
    /// The text.
    let bytes: [UInt8]
    /// The outermost value.
    let root: JSONValue

    /// Reads a text of at most `maximumLength` bytes, with at most one element for each four of them.
    ///
    /// - Throws: `.invalidConfiguration` with the line and column of the first mistake.
    init(
        _ text: some Sequence<UInt8>,
        label: String,
        maximumLength: Int = Self.maximumLength
    ) throws(TransportError) {
        var bytes: [UInt8] = []
        for byte in text {
            guard bytes.count < maximumLength else {
                throw .configuration("\(label):", "the text is longer than \(maximumLength) bytes")
            }
            bytes.append(byte)
        }
        do throws(CodecError) {
            let limits = CodecLimits(
                maximumDepth: Self.maximumDepth,
                maximumLength: maximumLength,
                maximumElements: maximumLength / 4
            )
            root = try JSONValue(json: bytes, limits: limits)
        } catch {
            let place = Self.place(of: error.offset, in: bytes)
            throw .configuration("\(label):\(place.line):\(place.column):", Self.sentence(for: error, in: bytes))
        }
        self.bytes = bytes
        self.label = label
        try refuseRepeatedNames(in: root, path: "")
    }

    /// Returns the place of the byte at `offset`.
    func place(of offset: Int) -> Place { Self.place(of: offset, in: bytes) }

    /// Returns the error of a mistake at `offset`, with file, line, the path of keys in quotes, and the problem.
    func failure(at offset: Int, _ path: String, _ problem: String) -> TransportError {
        .configuration(subject(at: offset, path), problem)
    }

    /// Returns the error of a mistake at `offset` that another error describes.
    func failure(at offset: Int, _ path: String, _ error: TransportError) -> TransportError {
        .configuration(subject(at: offset, path) + ":", error.reason)
    }

    private func subject(at offset: Int, _ path: String) -> String {
        "\(label):\(place(of: offset).line): \(path.isEmpty ? "the file" : path.debugDescription)"
    }

    /// Returns the path of a member. Names that are too long to be meant are shortened.
    static func path(_ outer: String, _ name: String) -> String {
        let shown = name.unicodeScalars.count > 40 ? "\(String(name.unicodeScalars.prefix(40)))..." : name
        return outer.isEmpty ? shown : "\(outer).\(shown)"
    }

    private func refuseRepeatedNames(in value: JSONValue, path: String) throws(TransportError) {
        switch value.kind {
        case .array(let values):
            for (index, value) in values.enumerated() { try refuseRepeatedNames(in: value, path: "\(path)[\(index)]") }
        case .object(let members):
            var offsets: [UTF8Key: Int] = [:]
            for member in members {
                let memberPath = Self.path(path, member.name)
                if let first = offsets.updateValue(member.offset, forKey: UTF8Key(member.name)) {
                    let line = place(of: first).line
                    throw failure(at: member.offset, memberPath, "is in line \(line) already; once is allowed")
                }
                try refuseRepeatedNames(in: member.value, path: memberPath)
            }
        default: return
        }
    }

    /// Finds the place of a byte. Lines end in LF, CR LF or CR.
    private static func place(of offset: Int, in bytes: [UInt8]) -> Place {
        var place = Place(line: 1, column: 1)
        for index in 0..<min(offset, bytes.count) {
            let byte = bytes[index]
            let isBeforeLineFeed = index + 1 < bytes.count && bytes[index + 1] == UInt8(ascii: "\n")
            if byte == UInt8(ascii: "\n") || (byte == UInt8(ascii: "\r") && !isBeforeLineFeed) {
                place = Place(line: place.line + 1, column: 1)
            } else if byte & 0xC0 != 0x80 {
                place.column += 1
            }
        }
        return place
    }
}

extension JSONDocument {
    /// Describes the problem for a person who wrote the text by hand.
    private static func sentence(for error: CodecError, in bytes: [UInt8]) -> String {
        switch error.code {
        case .truncated: return ended(bytes)
        case .tooDeep: return "objects and arrays are nested deeper than \(maximumDepth) levels"
        case .tooManyElements: return "an object or array has too many elements"
        case .numberOutOfRange: return "the number is too large"
        case .invalidNumber: return "the number does not follow the grammar of JSON"
        case .trailingBytes: return "there is more text after the outermost value"
        case .wrongType: return "only a name in double quotes is allowed here"
        case .unexpectedCharacter: return unexpected(at: error.offset, in: bytes)
        default: return error.reason
        }
    }

    private static func ended(_ bytes: [UInt8]) -> String {
        bytes.allSatisfy { $0 == 0x20 || $0 == 0x09 || $0 == 0x0A || $0 == 0x0D }
            ? "the text is empty; an object in braces is expected" : "the text ends before its last value does"
    }

    private static func unexpected(at offset: Int, in bytes: [UInt8]) -> String {
        guard offset < bytes.count else { return ended(bytes) }
        let before = bytes[..<offset].last { $0 != 0x20 && $0 != 0x09 && $0 != 0x0A && $0 != 0x0D }
        switch bytes[offset] {
        case UInt8(ascii: "}"), UInt8(ascii: "]"):
            if before == UInt8(ascii: ",") { return "a comma before a closing bracket is not allowed" }
        case UInt8(ascii: "/"), UInt8(ascii: "#"): return "JSON has no comments"
        case UInt8(ascii: "'"): return "JSON has double quotes only"
        case 0xEF where offset == 0: return "a byte order mark before the value is not allowed (RFC 8259, section 8.1)"
        default: break
        }
        let byte = bytes[offset]
        guard byte > 0x20, byte < 0x7F else { return "JSON does not allow this character here" }
        return "'\(Character(Unicode.Scalar(byte)))' is not allowed here in JSON"
    }
}
