import CommandSupport

/// A JSON value for output (RFC 8259). Members keep their order. Names are not checked for duplicates.
package enum ReportValue: Sendable, Equatable {
    case null
    case bool(Bool)
    case integer(Int)
    /// Infinity and NaN have no form in JSON and are written as null.
    case number(Double)
    case string(String)
    case array([ReportValue])
    case object([(String, ReportValue)])

    package static func == (left: ReportValue, right: ReportValue) -> Bool { left.text == right.text }

    /// The value, or null.
    package init(_ value: Double?) { self = value.map(ReportValue.number) ?? .null }
    package init(_ value: Int?) { self = value.map(ReportValue.integer) ?? .null }
    package init(_ value: String?) { self = value.map(ReportValue.string) ?? .null }
    package init(_ value: Bool?) { self = value.map(ReportValue.bool) ?? .null }

    /// A member of an object; `nil` if there is none.
    subscript(name: String) -> ReportValue? {
        guard case .object(let members) = self else { return nil }
        return members.first { $0.0 == name }?.1
    }

    /// The text of a string; `nil` for other values.
    var string: String? {
        guard case .string(let text) = self else { return nil }
        return text
    }

    /// Four decimals, because further ones are not significant; null for `nil`.
    package static func rounded(_ value: Double?) -> ReportValue {
        ReportValue(value.map { ($0 * 10_000).rounded() / 10_000 })
    }

    /// On one line.
    package var text: String {
        var out = ""
        write(to: &out, indent: nil)
        return out
    }

    /// One member or element per line, for people and for diff. Containers of plain values stay on one line.
    package var readableText: String {
        var out = ""
        write(to: &out, indent: 0)
        return out
    }

    private var isPlain: Bool {
        switch self {
        case .array(let elements): elements.isEmpty
        case .object(let members): members.isEmpty
        default: true
        }
    }

    private func write(to out: inout String, indent: Int?) {
        switch self {
        case .null: out += "null"
        case .bool(let value): out += value ? "true" : "false"
        case .integer(let value): out += String(value)
        case .number(let value): out += Self.numberText(value)
        case .string(let value): Self.write(value, to: &out)
        case .array(let elements):
            let inner = elements.allSatisfy(\.isPlain) ? nil : indent.map { $0 + 2 }
            Self.write("[", "]", count: elements.count, to: &out, indent: inner) {
                elements[$0].write(to: &$1, indent: inner)
            }
        case .object(let members):
            let inner = members.allSatisfy(\.1.isPlain) ? nil : indent.map { $0 + 2 }
            Self.write("{", "}", count: members.count, to: &out, indent: inner) { index, out in
                Self.write(members[index].0, to: &out)
                out += ": "
                members[index].1.write(to: &out, indent: inner)
            }
        }
    }

    private static func write(
        _ open: String,
        _ close: String,
        count: Int,
        to out: inout String,
        indent: Int?,
        element: (Int, inout String) -> Void
    ) {
        out += open
        for index in 0..<count {
            if index > 0 { out += indent == nil ? ", " : "," }
            if let indent { out += "\n" + String(repeating: " ", count: indent) }
            element(index, &out)
        }
        if let indent { out += "\n" + String(repeating: " ", count: indent - 2) }
        out += close
    }

    private static func numberText(_ value: Double) -> String {
        guard value.isFinite else { return "null" }
        if value == value.rounded(), value.magnitude < 1e15 { return String(Int64(value)) }
        return value.description
    }

    /// Escapes the characters that RFC 8259, section 7, requires, and DEL. The rest stays UTF-8.
    private static func write(_ string: String, to out: inout String) {
        out += "\""
        for scalar in string.unicodeScalars {
            switch scalar {
            case "\"": out += "\\\""
            case "\\": out += "\\\\"
            case "\n": out += "\\n"
            case "\r": out += "\\r"
            case "\t": out += "\\t"
            case "\u{0}"..."\u{1f}", "\u{7f}":
                let hexadecimal = String(scalar.value, radix: 16)
                out += "\\u" + String(repeating: "0", count: 4 - hexadecimal.count) + hexadecimal
            default: out.unicodeScalars.append(scalar)
            }
        }
        out += "\""
    }
}
