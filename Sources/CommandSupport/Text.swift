/// A number with exactly `digits` decimals, or without the trailing zeros if `trimmed`. A dash for infinity and NaN.
package func fixed(_ value: Double, _ digits: Int, trimmed: Bool = false) -> String {
    guard value.isFinite else { return "-" }
    let digits = min(max(digits, 0), 9)
    var scale = 1.0
    for _ in 0..<digits { scale *= 10 }
    let scaled = (value.magnitude * scale).rounded()
    guard scaled < 9e18 else { return "\(value)" }
    let whole = UInt64(scaled)
    let sign = value < 0 && whole > 0 ? "-" : ""
    let unit = UInt64(scale)
    var fraction = String(whole % unit)
    fraction = String(repeating: "0", count: digits - min(digits, fraction.count)) + fraction
    if trimmed { while fraction.last == "0" { fraction.removeLast() } }
    return sign + String(whole / unit) + (digits == 0 || fraction.isEmpty ? "" : "." + fraction)
}

/// The number with this many decimals.
package func rounded(_ number: Double, _ digits: Int) -> Double {
    var scale = 1.0
    for _ in 0..<digits { scale *= 10 }
    return (number * scale).rounded() / scale
}

/// A number with about three significant digits and no exponent, as in tables.
package func shown(_ value: Double?) -> String {
    guard let value, value.isFinite else { return "-" }
    if value > 0, value < 0.005 { return "< 0.01" }
    return grouped(fixed(value, value.magnitude < 9.995 ? 2 : value.magnitude < 999.5 ? 1 : 0))
}

/// A whole number, or a dash.
package func shown(_ value: Int?) -> String { value.map { grouped(String($0)) } ?? "-" }

/// A number with a comma before each three digits, from five digits on: `12,345`.
package func grouped(_ number: String) -> String {
    let whole = number.prefix { $0 != "." }
    let digits = whole.drop { $0 == "-" }
    guard digits.count >= 5, digits.allSatisfy(\.isNumber) else { return number }
    var text = ""
    for (index, digit) in digits.enumerated() {
        if index > 0, (digits.count - index).isMultiple(of: 3) { text.append(",") }
        text.append(digit)
    }
    return whole.prefix(whole.count - digits.count) + text + number.dropFirst(whole.count)
}

/// A number of things: `1 repeat`, `2 repeats`.
package func counted(_ count: Int, _ thing: String) -> String { "\(shown(count)) \(thing)\(count == 1 ? "" : "s")" }

extension String {
    /// The text with spaces after it, or before it, up to `width` characters.
    package func padded(to width: Int, alignedRight: Bool = false) -> String {
        let space = String(repeating: " ", count: max(0, width - count))
        return alignedRight ? space + self : self + space
    }

    package var withoutTrailingSpaces: String {
        var text = self[...]
        while text.last == " " { text.removeLast() }
        return String(text)
    }

    /// The lines of the text, none longer than `width`. They are broken at spaces, and within a longer word at a comma or
    /// anywhere.
    package func wrapped(to width: Int) -> [String] {
        var lines: [String] = []
        for part in split(separator: "\n", omittingEmptySubsequences: false) {
            var line = ""
            for word in part.split(separator: " ") {
                if !line.isEmpty, word.count >= width - line.count {
                    lines.append(line)
                    line = ""
                }
                line += line.isEmpty ? String(word) : " " + word
                while line.count > width {
                    let room = line.prefix(width)
                    let comma = room.lastIndex(of: ",").map { room.index(after: $0) }
                    let end = comma ?? room.endIndex
                    lines.append(String(line[..<end]))
                    line = String(line[end...])
                }
            }
            lines.append(line)
        }
        return lines
    }
}

/// Colour and weight on a terminal, and nothing elsewhere.
package struct Style: Sendable {
    package var isOn: Bool

    package init(isOn: Bool) {
        self.isOn = isOn
    }

    package static let none = Style(isOn: false)

    package func bold(_ text: String) -> String { wrap(text, "1") }
    package func dim(_ text: String) -> String { wrap(text, "2") }
    package func red(_ text: String) -> String { wrap(text, "31") }
    package func green(_ text: String) -> String { wrap(text, "32") }
    /// One of the colours 1 to 6: red, green, yellow, blue, magenta and cyan, in bold.
    package func colour(_ number: Int, _ text: String) -> String { wrap(text, "1;\(30 + number)") }

    // SGR sequences (ECMA-48, section 8.3.117).
    private func wrap(_ text: String, _ code: String) -> String { isOn ? "\u{1b}[\(code)m\(text)\u{1b}[0m" : text }
}
