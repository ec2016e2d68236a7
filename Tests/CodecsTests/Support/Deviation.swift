import Codecs
import Foundation

/// How another parser deviates from the specification, or from this package where the specification leaves a choice. The raw
/// values are those of the tables in Docs/reference/codecs.md.
enum Deviation: String {
    case constants = "NaN and Infinity"
    case commas = "commas before a closing bracket"
    case tooLarge = "numbers beyond a double"
    case inexact = "numbers of more than 17 characters"
    case minusZero = "minus zero"
    case loneSurrogates = "half surrogate pairs"
    case lostMarks = "U+FEFF in strings"
    case equalNames = "names that Unicode takes for equal"
    case encodings = "byte order marks, UTF-16 and UTF-32"
    case deep = "more than 64 levels"
    case tenthByte = "the tenth byte of a varint above 1"
    case entryFields = "unknown fields in map entries"

    /// The first cell of each table row in Docs/reference/codecs.md.
    static func listed() throws -> Set<String> {
        let root = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let page = try String(contentsOf: root.appending(path: "Docs/reference/codecs.md"), encoding: .utf8)
        let cells = page.split(separator: "\n").filter { $0.hasPrefix("| ") }.map { $0.split(separator: "|") }
        return Set(cells.compactMap { $0.first?.trimmingCharacters(in: .whitespaces) })
    }

    /// Why Python's `json.loads` reads a document that this package rejects, or `nil` if it should not.
    static func python(_ document: [UInt8], _ error: CodecError, _ theirs: String) -> Deviation? {
        if isMarked(document) { return .encodings }
        switch error.code {
        case .unexpectedCharacter, .invalidNumber:
            let word = document.dropFirst(error.offset).first
            let isConstant = word == UInt8(ascii: "N") || word == UInt8(ascii: "I")
            return isConstant && theirs.contains("!D") ? .constants : nil
        case .numberOutOfRange: return theirs.contains("!D") ? .tooLarge : nil
        case .loneSurrogate, .invalidUTF8: return theirs.contains("!S") ? .loneSurrogates : nil
        case .tooDeep: return isDeep(document) ? .deep : nil
        default: return nil
        }
    }

    /// Why Foundation's `JSONSerialization` reads a document that this package rejects, or `nil` if it should not.
    static func foundation(_ document: [UInt8], _ error: CodecError, _ theirs: Any) -> Deviation? {
        if isMarked(document) { return .encodings }
        switch error.code {
        case .tooDeep: return isDeep(document) ? .deep : nil
        // The number is in a member that Foundation drops because its name is repeated.
        case .numberOutOfRange: return .tooLarge
        case .unexpectedCharacter:
            let before = document[..<error.offset].last { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }
            return before == UInt8(ascii: ",") && isClosing(document[error.offset]) ? .commas : nil
        default: return nil
        }
    }

    /// How Foundation's reading of a document differs from ours, or `nil` if it should not.
    static func foundation(_ document: [UInt8], _ ours: JSONValue, _ theirs: Any) -> Set<Deviation>? {
        switch (ours.kind, theirs) {
        case (.null, is NSNull): return []
        case (.string(let ours), let theirs as String):
            if ours.utf8.elementsEqual(theirs.utf8) { return [] }
            let (ours, theirs) = (ours.unicodeScalars.filter(isNoMark), theirs.unicodeScalars.filter(isNoMark))
            return ours.elementsEqual(theirs) ? [.lostMarks] : nil
        case (.array(let ours), let theirs as [Any]):
            return ours.count == theirs.count ? union(zip(ours, theirs).map { foundation(document, $0, $1) }) : nil
        case (.object(let members), let theirs as [String: Any]):
            // Strings that are equal after normalisation are equal.
            let last = Dictionary(members.map { ($0.name, $0.value) }) { $1 }
            guard last.count == theirs.count else { return nil }
            let isUnited = Set(members.map { Array($0.name.utf8) }).count > last.count
            return union(last.map { name, node in theirs[name].flatMap { foundation(document, node, $0) } })
                .map { isUnited ? $0.union([.equalNames]) : $0 }
        case (.bool(let ours), let theirs as NSNumber):
            return isBool(theirs) && theirs.boolValue == ours ? [] : nil
        case (.integer, let theirs as NSNumber), (.number, let theirs as NSNumber):
            guard let number = ours.number else { return nil }
            let value = theirs.doubleValue
            if isBool(theirs) { return nil }
            if number.bitPattern == value.bitPattern { return [] }
            if number == 0, value == 0 { return [.minusZero] }
            return ours.range.count > 17 && abs(number - value) <= 1e-13 * abs(number) ? [.inexact] : nil
        default: return nil
        }
    }

    private static func isNoMark(_ scalar: Unicode.Scalar) -> Bool { scalar != "\u{FEFF}" }

    private static func isBool(_ number: NSNumber) -> Bool { String(cString: number.objCType) == "c" }

    private static func union(_ deviations: [Set<Deviation>?]) -> Set<Deviation>? {
        deviations.reduce([]) { all, one in one.flatMap { all?.union($0) } }
    }

    /// Whether the document begins with a byte order mark, or has a zero in its first four bytes.
    private static func isMarked(_ document: [UInt8]) -> Bool {
        document.starts(with: [0xEF, 0xBB, 0xBF]) || document.starts(with: [0xFE, 0xFF])
            || document.starts(with: [0xFF, 0xFE]) || document.prefix(4).contains(0)
    }

    private static func isClosing(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "]") || byte == UInt8(ascii: "}") }

    private static func isDeep(_ document: [UInt8]) -> Bool { document.filter { $0 == UInt8(ascii: "[") }.count >= 64 }
}
