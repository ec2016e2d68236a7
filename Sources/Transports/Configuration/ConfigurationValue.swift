import Codecs
import TransportAPI

/// A value of a JSON file that waits to be understood: what it is, where it stands, and the keys that lead there. Its errors
/// name the file, the line and the keys.
package struct ConfigurationValue: Sendable {
    /// What it is.
    package let node: JSONNode
    /// The keys that lead to it, joined by dots; empty for the whole file.
    let path: String
    /// The file.
    let document: JSONDocument
    /// The transports that endpoints may name.
    let registry: TransportRegistry

    /// Its text, if it is a string.
    package var string: String? { if case .string(let text) = node.value { text } else { nil } }

    /// Its number, if it is one.
    package var number: Double? { if case .number(let number) = node.value { number } else { nil } }

    /// Its number, if it is whole: `64`, `64.0` and `6.4e1` are the same.
    package var integer: Int? {
        // Up to 2^53 a double is exact; no limit of the file is larger.
        guard let number, number.magnitude <= 0x1p53, Double(Int(number)) == number else { return nil }
        return Int(number)
    }

    /// Its members, if it is an object.
    package var members: [JSONMember]? { if case .object(let members) = node.value { members } else { nil } }

    /// Its elements, if it is an array.
    package var elements: [ConfigurationValue]? {
        guard case .array(let nodes) = node.value else { return nil }
        return nodes.enumerated().map { at($1, "\(path)[\($0)]") }
    }

    /// The value of a member.
    package func value(of member: JSONMember) -> ConfigurationValue {
        at(member.node, JSONDocument.path(path, member.name))
    }

    /// The value of the member of this name.
    package func member(_ name: String) -> ConfigurationValue? {
        members?.first { $0.name.hasSameUTF8(as: name) }.map(value(of:))
    }

    /// The value of a member that must be there; `allowed` says in words what it may be.
    package func required(_ name: String, _ allowed: String) throws(TransportError) -> ConfigurationValue {
        guard members != nil else { throw wrong("an object") }
        guard let value = member(name) else { throw missing(name, allowed) }
        return value
    }

    private func at(_ node: JSONNode, _ path: String) -> ConfigurationValue {
        ConfigurationValue(node: node, path: path, document: document, registry: registry)
    }
}

extension ConfigurationValue {
    /// All that a text says (RFC 8259, strictly).
    ///
    /// - Parameters:
    ///   - text: the text, in UTF-8.
    ///   - label: what errors call it, usually the file's name.
    ///   - maximumLength: the longest text that is read, in bytes.
    ///   - registry: the transports that endpoints may name.
    /// - Throws: `.invalidConfiguration` with the line and column of the first mistake.
    package init(
        _ text: some Sequence<UInt8>,
        label: String,
        maximumLength: Int,
        registry: TransportRegistry = .standard
    ) throws(TransportError) {
        let document = try JSONDocument(text, label: label, maximumLength: maximumLength)
        self.init(node: document.root, path: "", document: document, registry: registry)
    }

    /// A mistake in this value.
    package func failure(_ problem: String) -> TransportError {
        document.failure(at: node.range.lowerBound, path, problem)
    }

    /// It is none of what is allowed; `words` are the strings among that. A secret is not quoted.
    package func wrong(_ allowed: String, words: [String] = [], isSecret: Bool = false) -> TransportError {
        failure("is \(isSecret ? kind : found);\(suggestion(string, words)) allowed is \(allowed)")
    }

    /// One of its members is none of `names`.
    func unknown(_ member: JSONMember, allowed names: [String]) -> TransportError {
        let hint = suggestion(member.name, names)
        let list = names.joined(separator: ", ")
        let path = JSONDocument.path(path, member.name)
        return document.failure(at: member.offset, path, "is not known;\(hint) allowed are \(list)")
    }

    /// One of its members has to be there and is not.
    package func missing(_ name: String, _ allowed: String) -> TransportError {
        document.failure(at: node.range.lowerBound, JSONDocument.path(path, name), "is missing; allowed is \(allowed)")
    }

    /// A mistake that something else found in this value.
    func failure(_ error: TransportError) -> TransportError {
        document.failure(at: node.range.lowerBound, path, error)
    }

    private func suggestion(_ typed: String?, _ words: [String]) -> String {
        guard let typed, let near = nearestWord(to: typed, in: words) else { return "" }
        return " did you mean \(near.debugDescription)?"
    }

    private var kind: String {
        switch node.value {
        case .null: "null"
        case .bool: "a truth value"
        case .number: "a number"
        case .string: "a string"
        case .array: "an array"
        case .object: "an object"
        }
    }

    /// What stands in the file, cut where it is long.
    private var found: String {
        switch node.value {
        case .array, .object: return kind
        case .string(let text) where text.unicodeScalars.count > 40:
            return "\(String(text.unicodeScalars.prefix(40)).debugDescription)..."
        case .string(let text): return text.debugDescription
        default: return String(decoding: document.bytes[node.range].prefix(40), as: UTF8.self)
        }
    }
}
