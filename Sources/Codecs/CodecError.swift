/// Why a message could not be read or written.
public struct CodecError: Error, Sendable, Hashable {
    /// What went wrong.
    public var code: Code
    /// Where in the input, in bytes from its start; on writing, how many bytes had been written.
    public var offset: Int
    /// The JSON names of the fields that lead there, joined by dots; `nil` outside any declared field.
    public var field: String?
    /// What is wrong with the declaration of a message type: the type's name, and the numbers and names of the fields.
    /// `nil` unless the code is ``Code/invalidSchema``.
    public var schemaProblem: String?

    /// An error at `offset`.
    @usableFromInline
    init(_ code: Code, at offset: Int) {
        self.code = code
        self.offset = offset
    }

    /// An error in the declaration of a message type.
    init(invalidSchema problem: String) {
        self.init(.invalidSchema, at: 0)
        schemaProblem = problem
    }

    /// The same error, seen from the field that contains it.
    @inline(never)
    @usableFromInline
    func inside(_ name: StaticString) -> CodecError {
        var error = self
        error.field = field.map { "\(name).\($0)" } ?? "\(name)"
        return error
    }

    /// A sentence for people.
    public var reason: String { schemaProblem.map { "\($0)." } ?? code.sentence }
}

extension CodecError {
    /// What can go wrong in reading or writing a message.
    public enum Code: String, Sendable, Hashable, CaseIterable {
        // The declaration of a message type
        case invalidSchema
        // Both formats
        case truncated, invalidUTF8, tooDeep, tooLong, tooManyElements, keyTooLong, ambiguousKey
        // Protobuf
        case varintOverflow, invalidFieldNumber, invalidWireType, unmatchedGroup, lengthOutOfBounds
        // JSON
        case unexpectedCharacter, invalidNumber, numberOutOfRange, controlCharacter, invalidEscape, loneSurrogate
        case invalidBase64, wrongType, repeatedOneof, trailingBytes

        /// A sentence for people.
        public var sentence: String {
            switch self {
            case .invalidSchema: "The declaration of a message type is wrong."
            case .truncated: "The input ends in the middle of a value."
            case .invalidUTF8: "The text is not valid UTF-8."
            case .tooDeep: "The message is nested deeper than the limit."
            case .tooLong: "The message is longer than the limit."
            case .tooManyElements: "Repeated fields or maps have more elements than the limit."
            case .keyTooLong: "A key or an identifier is longer than the limit."
            case .ambiguousKey: "Two keys of a map differ in their bytes, and are the same text to Unicode."
            case .varintOverflow: "A varint does not fit its width."
            case .invalidFieldNumber: "A field number is zero or too large."
            case .invalidWireType: "A wire type does not exist."
            case .unmatchedGroup: "A group ends that did not begin."
            case .lengthOutOfBounds: "A length does not fit the elements that it should hold."
            case .unexpectedCharacter: "A character stands where JSON does not allow it."
            case .invalidNumber: "A number does not follow the grammar of JSON."
            case .numberOutOfRange: "A number does not fit the type of its field."
            case .controlCharacter: "A string holds a control character that is not escaped."
            case .invalidEscape: "A string holds an escape that JSON does not know."
            case .loneSurrogate: "A string holds half of a surrogate pair."
            case .invalidBase64: "The text is not base64."
            case .wrongType: "The value is of another type than its field."
            case .repeatedOneof: "A oneof is given more than once."
            case .trailingBytes: "Something follows the message."
            }
        }
    }
}

extension CodecError: CustomStringConvertible {
    /// One line: sentence, code, place.
    public var description: String {
        let place = field.map { ", field \($0)" } ?? ""
        return "\(reason) (\(code.rawValue) at byte \(offset)\(place))"
    }
}
