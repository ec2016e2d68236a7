import Codecs
import TransportAPI

/// A form of value in the file: how it is read, what is allowed in words, and how it is written.
struct ValueForm<Value>: Sendable {
    /// What is allowed, for errors and the table of keys.
    var allowed: String
    /// The strings that are allowed, where there are only a few; one of them is suggested for a misspelt one.
    var words: [String] = []
    /// Whether no error quotes what the file says, since it may hold a password.
    var isSecret = false
    /// Reads it; `nil` if it is none of what is allowed.
    var read: @Sendable (ConfigurationValue) throws(TransportError) -> Value?
    /// Writes it as the file would.
    var show: @Sendable (Value) -> String = { _ in "" }

    /// Reads it.
    ///
    /// - Throws: `.invalidConfiguration` with its place, what was found, and what is allowed.
    func take(_ value: ConfigurationValue) throws(TransportError) -> Value {
        guard let read = try read(value) else { throw value.wrong(allowed, words: words, isSecret: isSecret) }
        return read
    }

    /// Or this word in its place, which reads as `nil`.
    func or(_ word: String) -> ValueForm<Value?> {
        alternative(word.debugDescription, words + [word]) { $0.string?.hasSameUTF8(as: word) == true }
    }

    /// Or `null`.
    var orNull: ValueForm<Value?> {
        alternative("null", words) { if case .null = $0.node.value { true } else { false } }
    }

    /// Without anything in its place that the file could say: the default is that there is none.
    var orAbsent: ValueForm<Value?> {
        ValueForm<Value?>(allowed: allowed, words: words) { (value) throws(TransportError) in
            try read(value).map { .some($0) }
        } show: {
            $0.map(show) ?? "none"
        }
    }

    private func alternative(
        _ shown: String,
        _ words: [String],
        _ matches: @escaping @Sendable (ConfigurationValue) -> Bool
    ) -> ValueForm<Value?> {
        ValueForm<Value?>(allowed: "\(allowed), or \(shown)", words: words) { (value) throws(TransportError) in
            if matches(value) { return .some(nil) }
            return try read(value).map { .some($0) }
        } show: {
            $0.map(show) ?? shown
        }
    }
}

extension ValueForm where Value == Int {
    /// A whole number.
    static func integer(_ range: ClosedRange<Int>) -> Self {
        ValueForm(allowed: "\(range.lowerBound) to \(range.upperBound)") { (value) throws(TransportError) in
            value.integer.flatMap { range.contains($0) ? $0 : nil }
        } show: {
            "\($0)"
        }
    }
}

extension ValueForm where Value == Double {
    /// A number, whole or not, between whole bounds.
    static func number(_ range: ClosedRange<Int>) -> Self {
        ValueForm(allowed: "\(range.lowerBound) to \(range.upperBound)") { (value) throws(TransportError) in
            value.number.flatMap { $0 >= Double(range.lowerBound) && $0 <= Double(range.upperBound) ? $0 : nil }
        } show: {
            "\($0)".hasSuffix(".0") ? String("\($0)".dropLast(2)) : "\($0)"
        }
    }
}

extension ValueForm where Value == Bool {
    /// `true` or `false`.
    static var flag: Self {
        ValueForm(allowed: "true or false") { (value) throws(TransportError) in
            if case .bool(let flag) = value.node.value { flag } else { nil }
        } show: {
            "\($0)"
        }
    }
}

extension ValueForm where Value == Duration {
    /// A length of time.
    static func duration(_ range: ClosedRange<Duration>) -> Self {
        let (least, most) = (range.lowerBound.configured, range.upperBound.configured)
        return ValueForm(allowed: "\"\(least)\" to \"\(most)\"") { (value) throws(TransportError) in
            value.string.flatMap(Duration.init(configuration:)).flatMap { range.contains($0) ? $0 : nil }
        } show: {
            "\"\($0.configured)\""
        }
    }
}

extension ValueForm where Value == String {
    /// A text of so many bytes.
    static func text(_ bytes: ClosedRange<Int>) -> Self {
        let allowed = "a text of \(bytes.lowerBound) to \(bytes.upperBound) bytes"
        return ValueForm(allowed: allowed) { (value) throws(TransportError) in
            value.string.flatMap { bytes.contains($0.utf8.count) ? $0 : nil }
        } show: {
            $0.debugDescription
        }
    }
}

extension ValueForm where Value: CaseIterable & RawRepresentable & Sendable, Value.RawValue == String {
    /// One of a few words.
    static var word: Self {
        let words = Value.allCases.map(\.rawValue)
        let allowed = words.map(\.debugDescription).joined(separator: ", ")
        return ValueForm(allowed: allowed, words: words) { (value) throws(TransportError) in
            value.string.flatMap(Value.init(rawValue:))
        } show: {
            $0.rawValue.debugDescription
        }
    }
}

extension ValueForm {
    /// A list of so many values of one form, `name` in the plural.
    static func list<Element>(
        _ count: ClosedRange<Int>,
        _ name: String,
        of form: ValueForm<Element>
    ) -> Self where Value == [Element] {
        let allowed = "a list of \(count.lowerBound) to \(count.upperBound) \(name)"
        return ValueForm(allowed: allowed, isSecret: form.isSecret) { (value) throws(TransportError) in
            guard let elements = value.elements else { return nil }
            guard count.contains(elements.count) else {
                throw value.failure("has \(elements.count) elements; allowed is \(allowed)")
            }
            var values: [Element] = []
            for element in elements { values.append(try form.take(element)) }
            return values
        } show: {
            $0.isEmpty ? "required" : ""
        }
    }
}

extension Duration {
    /// The text that `Duration(configuration:)` reads as this, in the largest unit that keeps it whole.
    var configured: String {
        let milliseconds = wholeNanoseconds / 1_000_000
        guard milliseconds != 0 else { return "0s" }
        let units: [(suffix: String, milliseconds: Int64)] = [("h", 3_600_000), ("m", 60_000), ("s", 1000)]
        for unit in units where milliseconds % unit.milliseconds == 0 {
            return "\(milliseconds / unit.milliseconds)\(unit.suffix)"
        }
        return "\(milliseconds)ms"
    }
}
