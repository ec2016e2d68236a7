import Codecs
import Foundation

// The errors of Foundation's coders quote numbers, dictionary keys and characters of the message, and an app's own `init(from:)` may
// quote anything. So no text of theirs is passed on. From it only fixed words are taken.

extension CodecError {
    /// The error for one that a decoder has thrown at `data`.
    init(decoding error: any Error, of type: Any.Type, from data: Data) {
        switch error {
        case DecodingError.typeMismatch(let expected, let context):
            let problem = "expected \(Self.name(of: expected)), found \(Self.found(in: context))"
            self.init(.wrongType, field: Self.path(context.codingPath), problem: problem)
        case DecodingError.valueNotFound(let expected, let context):
            let isEnd = context.debugDescription.contains("at end")
            let found = isEnd ? "the end of the array" : "null"
            let problem = "expected \(Self.name(of: expected)), found \(found)"
            self.init(isEnd ? .missingField : .wrongType, field: Self.path(context.codingPath), problem: problem)
        case DecodingError.keyNotFound(let key, let context):
            let problem = "expected a value for the field, found none"
            self.init(.missingField, field: Self.path(context.codingPath + [key]), problem: problem)
        case DecodingError.dataCorrupted(let context):
            self.init(corrupted: context, type, data)
        default:
            self.init(
                .invalidValue,
                problem: "\(Self.name(of: type)) has refused the message by \(Self.kind(of: error))"
            )
        }
    }

    private init(corrupted context: DecodingError.Context, _ type: Any.Type, _ data: Data) {
        let field = Self.path(context.codingPath)
        let text = context.debugDescription
        let isNumber = text.contains("fit in") || text.contains("not representable")
        // On Linux, Foundation reports a number that does not fit its type as JSON that is not valid, and without the field.
        if text.contains("not valid JSON"), !Self.isJSON(data) {
            self.init(.malformed, problem: "expected JSON, found \(data.isEmpty ? "no bytes" : "something else")")
        } else if isNumber || text.contains("not valid JSON") {
            let place = field == nil ? "its field" : "the field"
            self.init(
                .numberOutOfRange,
                field: field,
                problem: "expected a number of the type of \(place), found one that does not fit"
            )
        } else {
            let place = field == nil ? "the message" : "the value of the field"
            self.init(
                .invalidValue,
                field: field,
                problem: "expected a value that \(Self.name(of: type)) accepts, but it has refused \(place)"
            )
        }
    }

    /// The error for one that an encoder has thrown.
    init(encoding error: any Error, of type: Any.Type) {
        switch error {
        case EncodingError.invalidValue(let value, let context):
            let isNumber = (value as? any BinaryFloatingPoint).map { !($0 is any ExpressibleByStringLiteral) } ?? false
            self.init(
                isNumber ? .invalidNumber : .invalidValue,
                field: Self.path(context.codingPath),
                problem: isNumber
                    ? "expected a finite number, found one that JSON cannot represent"
                    : "expected a value that JSON can represent, found one of \(Self.name(of: Swift.type(of: value)))"
            )
        default:
            self.init(
                .invalidValue,
                problem: "\(Self.name(of: type)) cannot be encoded, by its own error of \(Self.kind(of: error))"
            )
        }
    }

    private static func isJSON(_ data: Data) -> Bool {
        (try? JSONSerialization.jsonObject(with: data, options: .fragmentsAllowed)) != nil
    }

    // MARK: Words

    /// The name of a type, for people.
    private static func name(of type: Any.Type) -> String {
        let name = "\(type)"
        if name.hasPrefix("Array<") { return "an array" }
        if name.hasPrefix("Dictionary<") { return "an object" }
        return name
    }

    private static func kind(of error: any Error) -> String { "\(Swift.type(of: error))" }

    /// What the decoder has found, in words of JSON.
    private static func found(in context: DecodingError.Context) -> String {
        let words = [
            ("found a string", "a string"), ("found an array", "an array"), ("found a dictionary", "an object"),
            ("found a number", "a number"), ("found number", "a number"), ("found bool", "true or false"),
            ("found a bool", "true or false"), ("found null", "null"),
        ]
        return words.first { context.debugDescription.contains($0.0) }?.1 ?? "a value of another type"
    }

    /// The longest path, in bytes.
    private static let longestPath = 256

    /// The path to a field. An element of an array has its index, and an entry of a dictionary has an asterisk, because its
    /// key comes from the message.
    private static func path(_ keys: [any CodingKey]) -> String? {
        var path = ""
        for key in keys {
            let mirror = Mirror(reflecting: key)
            if mirror.displayStyle == .enum, mirror.children.isEmpty {
                path += path.isEmpty ? key.stringValue : ".\(key.stringValue)"
            } else if mirror.children.first?.label == "index", let index = key.intValue {
                path += "[\(index)]"
            } else {
                path += "[*]"
            }
        }
        // A recursive type can have a long one.
        if path.utf8.count > longestPath { path = path.prefix(longestPath / 2) + "…" + path.suffix(longestPath / 2) }
        return path.isEmpty ? nil : path
    }
}
