import Codecs
import TransportAPI

/// A value of the file that waits to be understood: what it is, where it stands, and the keys that lead there.
struct ConfigurationValue: Sendable {
    /// What it is.
    let node: JSONNode
    /// The keys that lead to it, joined by dots; empty for the whole file.
    let path: String
    /// The file.
    let document: JSONDocument
    /// The transports that endpoints may name.
    let registry: TransportRegistry

    /// Its text, if it is a string.
    var string: String? { if case .string(let text) = node.value { text } else { nil } }

    /// Its number, if it is one.
    var number: Double? { if case .number(let number) = node.value { number } else { nil } }

    /// Its number, if it is whole: `64`, `64.0` and `6.4e1` are the same.
    var integer: Int? {
        // Up to 2^53 a double is exact; no limit of the file is larger.
        guard let number, number.magnitude <= 0x1p53, Double(Int(number)) == number else { return nil }
        return Int(number)
    }

    /// Its members, if it is an object.
    var members: [JSONMember]? { if case .object(let members) = node.value { members } else { nil } }

    /// Its elements, if it is an array.
    var elements: [ConfigurationValue]? {
        guard case .array(let nodes) = node.value else { return nil }
        return nodes.enumerated().map { at($1, "\(path)[\($0)]") }
    }

    /// The value of a member.
    func value(of member: JSONMember) -> ConfigurationValue { at(member.node, JSONDocument.path(path, member.name)) }

    /// The value of the member of this name.
    func member(_ name: String) -> ConfigurationValue? {
        members?.first { $0.name == name }.map(value(of:))
    }

    private func at(_ node: JSONNode, _ path: String) -> ConfigurationValue {
        ConfigurationValue(node: node, path: path, document: document, registry: registry)
    }
}

extension ConfigurationValue {
    /// A mistake in this value.
    func failure(_ problem: String) -> TransportError { document.failure(at: node.range.lowerBound, path, problem) }

    /// It is none of what is allowed; `words` are the strings among that. A secret is not quoted.
    func wrong(_ allowed: String, words: [String] = [], isSecret: Bool = false) -> TransportError {
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
    func missing(_ name: String, _ allowed: String) -> TransportError {
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
