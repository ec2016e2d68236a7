import Codecs
import Protocols
import TransportAPI

/// The value of a setting before its type is known, from a configuration file, a URL or a command line. Its errors name
/// the key, and for a file also the line.
package struct ConfigurationValue: Sendable {
    /// The value, and its range in the file in bytes.
    package let node: (value: JSONValue.Kind, range: Range<Int>)
    /// The key. In a file it is all keys that lead to the value, joined by dots; empty for the whole file.
    let path: String
    /// The file; `nil` for a URL or a command line.
    private let document: JSONDocument?
    /// The transports that endpoints may name.
    let registry: TransportRegistry

    private init(_ node: JSONValue, _ path: String, _ document: JSONDocument?, _ registry: TransportRegistry) {
        (self.node, self.path, self.document, self.registry) = ((node.kind, node.range), path, document, registry)
    }

    /// Reads the root of a JSON text, strictly as in RFC 8259.
    ///
    /// - Parameters:
    ///   - text: The text, in UTF-8.
    ///   - label: The file's name in errors.
    ///   - maximumLength: The longest accepted text, in bytes.
    ///   - registry: The transports that endpoints may name.
    /// - Throws: `.invalidConfiguration` with the line and column of the first mistake.
    package init(
        _ text: some Sequence<UInt8>,
        label: String,
        maximumLength: Int,
        registry: TransportRegistry = .standard
    ) throws(TransportError) {
        let document = try JSONDocument(text, label: label, maximumLength: maximumLength)
        self.init(document.root, "", document, registry)
    }

    /// Creates the value of a URL option or a command-line option from its text.
    package init(_ text: String, key: String) {
        (node, path, document, registry) = ((.string(text), 0..<0), key, nil, .standard)
    }

    /// Creates an object from the options of a URL. Names may occur several times.
    package init(_ options: [Endpoint.Option]) {
        let members = options.map { JSONValue.Member(name: $0.name, value: JSONValue(.string($0.value))) }
        (node, path, document, registry) = ((.object(members), 0..<0), "", nil, .standard)
    }

    /// Whether it is the option of a URL or a command line that has no value.
    var isBare: Bool { document == nil && string == "" }

    /// Its text, if it is a string.
    package var string: String? { if case .string(let text) = node.value { text } else { nil } }

    /// Its number, if it is one.
    package var number: Double? { JSONValue(node.value).number }

    /// Its number, if it is whole. `64`, `64.0` and `6.4e1` are the same.
    package var integer: Int? {
        // Up to 2^53 a double is exact. No limit of the file is larger.
        guard let number, number.magnitude <= 0x1p53, Double(Int(number)) == number else { return nil }
        return Int(number)
    }

    /// Its members, if it is an object.
    package var members: [JSONValue.Member]? { if case .object(let members) = node.value { members } else { nil } }

    /// Its elements, if it is an array.
    package var elements: [ConfigurationValue]? {
        guard let document, case .array(let nodes) = node.value else { return nil }
        return nodes.enumerated().map { ConfigurationValue($1, "\(path)[\($0)]", document, registry) }
    }

    /// Returns the value of the member of this name.
    package func member(_ name: String) -> ConfigurationValue? {
        members?.first { $0.name.hasSameUTF8(as: name) }.map(value(of:))
    }

    /// Returns the value of a member.
    package func value(of member: JSONValue.Member) -> ConfigurationValue {
        ConfigurationValue(member.value, JSONDocument.path(path, member.name), document, registry)
    }

    /// Returns the value of a required member.
    ///
    /// - Parameters:
    ///   - name: The member's name.
    ///   - allowed: The allowed values, for the error.
    package func required(_ name: String, _ allowed: String) throws(TransportError) -> ConfigurationValue {
        guard members != nil else { throw wrong("an object") }
        guard let value = member(name) else { throw missing(name, allowed) }
        return value
    }

    // MARK: Errors

    /// Returns the error of a mistake in this value.
    package func failure(_ problem: String) -> TransportError { failure(path, problem) }

    /// Returns the error of a mistake in this value that another error describes.
    func failure(_ error: TransportError) -> TransportError {
        document?.failure(at: node.range.lowerBound, path, error) ?? .configuration("\(path):", error.reason)
    }

    /// Returns the error of a value that is not allowed.
    ///
    /// - Parameters:
    ///   - allowed: The allowed values.
    ///   - words: The words among them. The nearest one is suggested.
    ///   - advice: A sentence about this value.
    ///   - isSecret: Whether the value is not quoted.
    package func wrong(
        _ allowed: String,
        words: [String] = [],
        advice: String? = nil,
        isSecret: Bool = false
    ) -> TransportError {
        let advice = advice.map { " \($0);" } ?? Self.suggestion(string, words)
        return failure("is \(isSecret ? kind : found);\(advice) allowed is \(allowed)")
    }

    /// Returns the error of a member that is not among `names`.
    func unknown(_ member: JSONValue.Member, allowed names: [String]) -> TransportError {
        failure(JSONDocument.path(path, member.name), Self.unknown(member.name, allowed: names), at: member.offset)
    }

    /// Returns the error of a missing required member.
    package func missing(_ name: String, _ allowed: String) -> TransportError {
        failure(JSONDocument.path(path, name), "is missing; allowed is \(allowed)")
    }

    /// Returns the sentence about a key that is not among `names`, without its subject.
    static func unknown(_ name: String, allowed names: [String]) -> String {
        "is not known;\(suggestion(name, names)) allowed are \(names.joined(separator: ", "))"
    }

    private func failure(_ path: String, _ problem: String, at offset: Int? = nil) -> TransportError {
        document?.failure(at: offset ?? node.range.lowerBound, path, problem) ?? .configuration(path, problem)
    }

    /// Returns the question for the nearest of `words`, or for the transport that `typed` is another name of; empty if there is
    /// none.
    static func suggestion(_ typed: String?, _ words: [String]) -> String {
        guard let typed else { return "" }
        let transport = TransportRegistry.otherNames[typed].flatMap { words.contains($0) ? $0 : nil }
        guard let near = transport ?? spellingSuggestion(for: typed, in: words) else { return "" }
        return " did you mean \(near.debugDescription)?"
    }

    private var kind: String {
        switch node.value {
        case .null: "null"
        case .bool: "a truth value"
        case .integer, .number: "a number"
        case .string: "a string"
        case .array: "an array"
        case .object: "an object"
        }
    }

    /// The value as it was written, shortened if it is long.
    private var found: String {
        switch node.value {
        case .array, .object: return kind
        case .string(let text) where text.unicodeScalars.count > 40:
            return "\(String(text.unicodeScalars.prefix(40)).debugDescription)..."
        case .string(let text): return text.debugDescription
        default: return document.map { String(decoding: $0.bytes[node.range].prefix(40), as: UTF8.self) } ?? kind
        }
    }
}
