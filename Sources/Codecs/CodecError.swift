/// The reason why a message could not be read or written.
public struct CodecError: Error, Sendable, Hashable {
    /// The kind of error.
    public var code: Code
    /// Where the error is, in bytes from the start of the input. For an error in writing, the number of bytes written
    /// so far. 0 from a codec that does not know it, whose errors have a ``problem``.
    public var offset: Int
    /// The path to the field: the JSON names of the fields from the outermost inwards, joined by dots. `nil` outside
    /// any declared field.
    public var field: String?
    /// What was seen and what was expected, without a full stop and without any content of the message. `nil` if the code
    /// says all. For ``Code/invalidSchema`` it is the mistake in the declaration, with the type's name and the numbers and
    /// names of the fields.
    public var problem: String?

    /// An error at `offset`.
    @usableFromInline
    init(_ code: Code, at offset: Int) {
        self.code = code
        self.offset = offset
    }

    /// An error of a codec of your own, which does not know the offset.
    ///
    /// - Parameters:
    ///   - code: The kind of the error.
    ///   - field: The path to the field.
    ///   - problem: What was seen and what was expected, without a full stop. It must not quote the message, because it is
    ///     written to logs.
    public init(_ code: Code, field: String? = nil, problem: String) {
        self.init(code, at: 0)
        (self.field, self.problem) = (field, problem)
    }

    /// An error in the declaration of a message type.
    init(invalidSchema problem: String) {
        self.init(.invalidSchema, problem: problem)
    }

    /// The same error, with the name of the enclosing field in front of its path.
    @inline(never)
    @usableFromInline
    func inside(_ name: StaticString) -> CodecError {
        var error = self
        error.field = field.map { "\(name).\($0)" } ?? "\(name)"
        return error
    }

    /// One sentence that describes the error.
    public var reason: String { problem.map { "\($0)." } ?? code.sentence }
}

extension CodecError {
    /// The kinds of errors of a message.
    public enum Code: String, Sendable, Hashable, CaseIterable {
        /// The declaration of a message type is wrong; see ``CodecError/problem``.
        case invalidSchema

        // All formats

        /// The input ends in the middle of a value.
        case truncated
        /// A text is not valid UTF-8.
        case invalidUTF8
        /// The message is nested deeper than ``CodecLimits/maximumDepth``.
        case tooDeep
        /// The message is longer than ``CodecLimits/maximumLength``.
        case tooLong
        /// There are more elements than ``CodecLimits/maximumCount`` or ``CodecLimits/maximumElements``.
        case tooManyElements
        /// A key or an identifier is longer than ``CodecLimits/maximumKeyLength``.
        case keyTooLong
        /// Two keys of a map differ in their bytes and are equal as `String` (canonical equivalence).
        case ambiguousKey
        /// The bytes are not a message of this format.
        case malformed
        /// A field that the type requires is missing.
        case missingField
        /// The value has the type of its field, and the message type refuses it.
        case invalidValue
        /// A number does not fit the type of its field, or a `Double` cannot represent it.
        case numberOutOfRange

        // Protobuf (Protocol Buffers, "Encoding")

        /// A varint has more than ten bytes or 64 bits.
        case varintOverflow
        /// A field number is zero or above 536,870,911.
        case invalidFieldNumber
        /// A wire type is 6 or 7.
        case invalidWireType
        /// The end of a group has no start, or another field number than the start.
        case unmatchedGroup
        /// The length of a packed field does not fit its elements.
        case lengthOutOfBounds

        // JSON and XML

        /// A character is not allowed in its place.
        case unexpectedCharacter
        /// A number does not follow the grammar (RFC 8259, section 6; XML Schema 1.1, part 2, section 3.3). In writing: a
        /// ``JSONValue`` has a number that is not finite.
        case invalidNumber
        /// A text for bytes is not base64 (RFC 4648).
        case invalidBase64
        /// The value has another type than its field.
        case wrongType
        /// A oneof is set more than once.
        case repeatedOneof
        /// Something follows the message.
        case trailingBytes

        // JSON (RFC 8259)

        /// A string contains a control character without an escape (section 7).
        case controlCharacter
        /// A string contains an unknown escape (section 7).
        case invalidEscape
        /// A string contains half of a surrogate pair (section 8.2).
        case loneSurrogate

        // XML (XML 1.0, fifth edition)

        /// A character, or a reference to one, that no document may contain (section 2.2).
        case forbiddenCharacter
        /// The root element is not `message`.
        case wrongRoot
        /// An end tag has another name than the start tag (section 3).
        case mismatchedTag
        /// There is a document type declaration (section 2.8), which this package does not read.
        case documentType
        /// A reference to an entity that XML does not predefine (section 4.6).
        case unknownEntity
        /// An element has two attributes with one name (section 3.1).
        case repeatedAttribute
        /// An element has more than 32 attributes.
        case tooManyAttributes
        /// An element of a map has no attribute `key`.
        case missingKey
        /// The declaration names another encoding than UTF-8, or a text another one than base64.
        case unsupportedEncoding

        /// One sentence that describes the code.
        public var sentence: String {
            switch self {
            case .invalidSchema: "The declaration of a message type is wrong."
            case .truncated: "The input ends in the middle of a value."
            case .invalidUTF8: "The text is not valid UTF-8."
            case .tooDeep: "The message is nested deeper than the limit."
            case .tooLong: "The message is longer than the limit."
            case .tooManyElements: "Repeated fields or maps have more elements than the limit."
            case .keyTooLong: "A key or an identifier is longer than the limit."
            case .ambiguousKey: "Two keys of a map differ in their bytes and are equal in Unicode."
            case .malformed: "The bytes are not a message of this format."
            case .missingField: "A field that the type requires is missing."
            case .invalidValue: "The message type refuses the value."
            case .varintOverflow: "A varint does not fit its width."
            case .invalidFieldNumber: "A field number is zero or too large."
            case .invalidWireType: "A wire type does not exist."
            case .unmatchedGroup: "The end of a group does not match a start."
            case .lengthOutOfBounds: "The length of a packed field does not fit its elements."
            case .unexpectedCharacter: "A character is not allowed in its place."
            case .invalidNumber: "A number does not follow the grammar of its format."
            case .numberOutOfRange: "A number does not fit the type of its field."
            case .controlCharacter: "A string holds a control character that is not escaped."
            case .invalidEscape: "A string holds an escape that JSON does not know."
            case .loneSurrogate: "A string holds half of a surrogate pair."
            case .forbiddenCharacter: "XML does not allow a character, however it is written."
            case .wrongRoot: "The root element is not <message>."
            case .mismatchedTag: "An end tag has another name than its start tag."
            case .documentType: "A document type declaration is not allowed."
            case .unknownEntity: "A reference names an entity that XML does not predefine."
            case .repeatedAttribute: "An element has two attributes with one name."
            case .tooManyAttributes: "An element has more than 32 attributes."
            case .missingKey: "An element of a map has no attribute 'key'."
            case .unsupportedEncoding: "The encoding of the document is not UTF-8, or that of a text not base64."
            case .invalidBase64: "The text is not base64."
            case .wrongType: "The value has another type than its field."
            case .repeatedOneof: "A oneof is set more than once."
            case .trailingBytes: "Something follows the message."
            }
        }
    }
}

extension CodecError: CustomStringConvertible {
    /// One line with the sentence, the code, the offset if it is known, and the field.
    public var description: String {
        let place = (problem == nil ? " at byte \(offset)" : "") + (field.map { ", field \($0)" } ?? "")
        return "\(reason) (\(code.rawValue)\(place))"
    }
}
