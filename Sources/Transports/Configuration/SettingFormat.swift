import Protocols
import TransportAPI

/// The format of a setting in URL options, configuration files and on command lines. There is one grammar for all.
///
/// A text means the same in all three. A file may also contain numbers and truth values without quotes. A ``Setting`` of an
/// app's own transport has one of the formats here, or one that ``map(_:back:)`` makes of them.
public struct SettingFormat<Value>: Sendable {
    /// The allowed values, for errors and tables.
    package var allowed: String
    /// The name of the value in the help of a command: "TIME". `nil` for a switch, which has no value there.
    package var placeholder: String? = "VALUE"
    /// The allowed words, if the value is one of a few. An error suggests the nearest one.
    package var words: [String] = []
    /// The rows of the object that is the value. Most values are no objects.
    var inner: [SettingRow] = []
    /// The text for which an option of a URL without a value stands; `nil` if it needs a value.
    var bare: String?
    /// Returns a sentence about the text of a value that is not allowed, such as its wrong unit; `nil` for most.
    package var advice: @Sendable (String) -> String? = { _ in nil }
    /// Whether errors do not quote the value, because it may contain a password.
    package var isSecret = false
    /// Whether a file writes the value as a string.
    var isString = false
    /// The text for a default without a text, in the table of keys.
    var absent = ""
    /// Converts a value. Returns `nil` if the value is not allowed.
    var parse: @Sendable (ConfigurationValue) throws(TransportError) -> Value?
    /// Returns the text that is read as this value, or `nil` if there is none.
    package var text: @Sendable (Value) -> String? = { _ in nil }
    /// Returns another text with a unit, which is easier to read; `nil` for most.
    var unitText: @Sendable (Value) -> String? = { _ in nil }

    /// Reads a value of a file.
    ///
    /// - Throws: `.invalidConfiguration` with the place, what was found, and what is allowed.
    package func read(_ value: ConfigurationValue) throws(TransportError) -> Value {
        if let bare, value.isBare { return try read(bare, key: value.path) }
        guard let read = try parse(value) else {
            let text = value.string ?? value.integer.map { "\($0)" }
            throw value.wrong(allowed, words: words, advice: isSecret ? nil : text.flatMap(advice), isSecret: isSecret)
        }
        return read
    }

    /// Reads the text of a URL option or a command-line option.
    ///
    /// - Throws: `.invalidConfiguration` with the key, the text, and what is allowed.
    package func read(_ text: String, key: String) throws(TransportError) -> Value {
        try read(ConfigurationValue(text, key: key))
    }

    /// Returns the value as in a file, in the unit that is easiest to read.
    func shown(_ value: Value) -> String {
        unitText(value) ?? text(value).map { isString ? $0.debugDescription : $0 } ?? absent
    }

    /// Returns a format that also allows this word, which is read as `nil`.
    public func or(_ word: String) -> SettingFormat<Value?> {
        optional(or: word.debugDescription, words + [word], word) {
            $0.string.map { HTTPSyntax.equalIgnoringCase($0, word) } == true
        }
    }

    /// A format that also allows `null`.
    var orNull: SettingFormat<Value?> {
        optional(or: "null", words, nil) { if case .null = $0.node.value { true } else { false } }
    }

    /// A format whose default is `nil`, which cannot be written.
    public var orAbsent: SettingFormat<Value?> { orAbsent("none") }

    /// Returns a format whose default is `nil`, which cannot be written.
    ///
    /// - Parameter effect: The default, for the documentation: "random", "no limit".
    public func orAbsent(_ effect: String) -> SettingFormat<Value?> {
        var format = optional(or: nil, words, nil) { _ in false }
        format.absent = effect
        return format
    }

    private func optional(
        or alternative: String?,
        _ words: [String],
        _ word: String?,
        _ matches: @escaping @Sendable (ConfigurationValue) -> Bool
    ) -> SettingFormat<Value?> {
        SettingFormat<Value?>(
            allowed: alternative.map { "\(allowed), or \($0)" } ?? allowed,
            placeholder: placeholder,
            words: words,
            inner: inner,
            bare: bare,
            advice: advice,
            isSecret: isSecret,
            isString: isString,
            absent: alternative ?? "none"
        ) { (value) throws(TransportError) in
            if matches(value) { return .some(nil) }
            return try parse(value).map { .some($0) }
        } text: {
            $0.map(text) ?? word
        } unitText: {
            $0.flatMap(unitText)
        }
    }

    /// Returns a format with the same texts for values of another type.
    ///
    /// - Parameters:
    ///   - convert: Returns the value, or `nil` if it is not allowed.
    ///   - back: Returns the value that is converted to this one; `nil` if there is none.
    public func map<Other>(
        _ convert: @escaping @Sendable (Value) -> Other?,
        back: @escaping @Sendable (Other) -> Value?
    ) -> SettingFormat<Other> {
        converted({ (value) throws(TransportError) in convert(value) }, back: back)
    }

    /// Returns a format with the same texts for values of another type, whose errors `convert` describes in its own words.
    ///
    /// - Parameters:
    ///   - convert: Returns the value, or `nil` if it is not allowed.
    ///   - back: Returns the value that is converted to this one; `nil` if there is none.
    package func converted<Other>(
        _ convert: @escaping @Sendable (Value) throws(TransportError) -> Other?,
        back: @escaping @Sendable (Other) -> Value?
    ) -> SettingFormat<Other> {
        SettingFormat<Other>(
            allowed: allowed,
            placeholder: placeholder,
            words: words,
            bare: bare,
            advice: advice,
            isSecret: isSecret,
            isString: isString,
            absent: absent
        ) { (value) throws(TransportError) in
            guard let read = try parse(value) else { return nil }
            return try convert(read)
        } text: {
            back($0).flatMap(text)
        } unitText: {
            back($0).flatMap(unitText)
        }
    }

    /// Returns the format with another name of the value in the help of a command.
    package func called(_ placeholder: String) -> Self {
        var format = self
        format.placeholder = placeholder
        return format
    }

    /// Returns the format with a description of the default, for a default without a text.
    package func withDefault(_ effect: String) -> Self {
        var format = self
        format.absent = effect
        return format
    }
}

// MARK: Numbers

extension SettingFormat where Value == Int {
    /// Returns the format of a whole number.
    public static func integer(_ range: ClosedRange<Int>) -> Self {
        SettingFormat(allowed: "\(range.lowerBound) to \(range.upperBound)", placeholder: "N") { value in
            (value.integer ?? value.string.flatMap { Int($0) }).flatMap { range.contains($0) ? $0 : nil }
        } text: {
            "\($0)"
        }
    }

    /// Returns the format of a number of bytes, plain or with a unit: `65536`, `64KiB`, `1.5MB`.
    public static func bytes(_ range: ClosedRange<Int>) -> Self {
        let allowed = "\(range.lowerBound) to \(range.upperBound), or with a unit (\"64KiB\")"
        return SettingFormat(allowed: allowed, placeholder: "BYTES", advice: { unitAdvice($0, byteUnits) }) { value in
            let plain = value.integer ?? value.string.flatMap { Int($0) }
            guard let bytes = plain ?? value.string.flatMap({ quantity($0, byteUnits).flatMap(Int.init(exactly:)) }),
                range.contains(bytes)
            else { return nil }
            return bytes
        } text: {
            "\($0)"
        } unitText: { bytes in
            let unit = byteUnits.prefix(4).last { bytes > 0 && bytes % Int($0.size) == 0 }
            return unit.map { "\(bytes / Int($0.size))\($0.suffix)".debugDescription }
        }
    }
}

extension SettingFormat where Value == Double {
    /// Returns the format of a number, whole or not.
    ///
    /// - Parameters:
    ///   - range: The allowed numbers.
    ///   - percents: How many percent the number 1 is. If set, a percent sign is allowed.
    package static func number(_ range: ClosedRange<Double>, percents: Double? = nil) -> Self {
        let (lower, upper) = (range.lowerBound, range.upperBound)
        var allowed = lower == .leastNonzeroMagnitude ? "more than 0, up to " : "\(shortest(lower)) to "
        allowed += shortest(upper)
        if let percents {
            allowed += ", or \"\(shortest(lower * percents))%\" to \"\(shortest(upper * percents))%\""
        }
        let placeholder = percents.map { $0 == 100 ? "SHARE" : "PERCENT" } ?? "R"
        return SettingFormat(allowed: allowed, placeholder: placeholder) { value in
            var number = value.number ?? value.string.flatMap { decimal($0[...], besides: "eE") }
            if number == nil, let percents, let text = value.string {
                number = quantity(text, [("%", 1)]).map { $0 / percents }
            }
            return number.flatMap { range.contains($0) ? $0 : nil }
        } text: {
            shortest($0)
        }
    }
}

extension SettingFormat where Value == Bool {
    /// The format of `true` or `on`, `false` or `off`. In a URL, the name alone is `on`.
    public static var flag: Self {
        SettingFormat(
            allowed: "true, false, \"on\" or \"off\"",
            placeholder: nil,
            words: ["on", "off", "true", "false"],
            bare: "on"
        ) { value in
            if case .bool(let flag) = value.node.value { return flag }
            return switch value.string?.lowercased() {
            case "on", "true", "1": true
            case "off", "false", "0": false
            default: nil
            }
        } text: {
            "\($0)"
        }
    }
}

extension SettingFormat where Value == Duration {
    /// Returns the format of a duration with its unit: `50us`, `250ms`, `1.5s`, `2m`, `1h`.
    ///
    /// - Parameter range: The allowed durations; 1 ms to 1000 h by default.
    public static func duration(_ range: ClosedRange<Duration> = .milliseconds(1) ... .seconds(3_600_000)) -> Self {
        let (least, most) = (range.lowerBound.settingText, range.upperBound.settingText)
        let advice: @Sendable (String) -> String? = { text in
            if decimal(text[...]) != nil { return "its unit is missing (\"\(text)s\" are seconds)" }
            return unitAdvice(text, Duration.units)
        }
        let allowed = "\"\(least)\" to \"\(most)\""
        return SettingFormat(allowed: allowed, placeholder: "TIME", advice: advice, isString: true) { value in
            value.string.flatMap { Duration(setting: $0) }.flatMap { range.contains($0) ? $0 : nil }
        } text: {
            $0.settingText
        }
    }
}

extension Duration {
    fileprivate static let units: [(suffix: String, size: Double)] = [
        ("ns", 1), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 6e10), ("h", 3.6e12),
    ]

    /// Reads a number and its unit, such as `1.5s`, with a precision of 1 ns. Returns `nil` for another text and for
    /// more than 104 days.
    package init?(setting text: String) {
        guard let nanoseconds = quantity(text, Self.units) else { return nil }
        self = .nanoseconds(Int64(nanoseconds.rounded()))
    }

    /// The shortest text that is read as this duration: a whole number of the largest possible unit.
    package var settingText: String {
        let nanoseconds = wholeNanoseconds
        guard nanoseconds != 0 else { return "0s" }
        let unit = Self.units.last { nanoseconds % Int64($0.size) == 0 }
        return unit.map { "\(nanoseconds / Int64($0.size))\($0.suffix)" } ?? "\(nanoseconds)ns"
    }
}

/// Longer suffixes come first, because each ends in "B".
private let byteUnits: [(suffix: String, size: Double)] = [
    ("KiB", 0x1p10), ("MiB", 0x1p20), ("GiB", 0x1p30), ("TiB", 0x1p40),
    ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12), ("B", 1),
]

/// Reads a number with one of these units, and multiplies it by the unit's size. Returns `nil` if the product exceeds
/// 2^53, up to which a double is exact.
private func quantity(_ text: String, _ units: [(suffix: String, size: Double)]) -> Double? {
    guard let unit = units.first(where: { text.hasSuffix($0.suffix) }),
        let number = decimal(text.dropLast(unit.suffix.count)), (number * unit.size).magnitude <= 0x1p53
    else { return nil }
    return number * unit.size
}

/// Returns the units, if the text is a number with a unit that is none of them.
private func unitAdvice(_ text: String, _ units: [(suffix: String, size: Double)]) -> String? {
    let unit = text.drop { $0.isASCII && ($0.isNumber || "+-.".contains($0)) }
    guard !unit.isEmpty, unit.count < text.count, unit.count <= 10, unit.allSatisfy({ $0.isASCII && $0.isLetter }),
        !units.contains(where: { $0.suffix == unit })
    else { return nil }
    return "\"\(unit)\" is no unit; the units are \(units.map(\.suffix).joined(separator: ", "))"
}

/// Reads a decimal number of digits, a sign, a decimal point, and the characters of `others`. Infinity is not allowed.
private func decimal(_ text: Substring, besides others: String = "") -> Double? {
    guard text.utf8.allSatisfy({ 0x30...0x39 ~= $0 || "+-.".utf8.contains($0) || others.utf8.contains($0) }),
        let number = Double(text), number.isFinite
    else { return nil }
    return number
}

/// Returns the shortest text that is read as this number.
private func shortest(_ number: Double) -> String {
    let text = "\(number)"
    return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
}

// MARK: Texts

extension SettingFormat where Value == String {
    /// Returns the format of a text of this many bytes.
    ///
    /// - Parameters:
    ///   - bytes: The allowed number of bytes.
    ///   - rule: The further requirement, for errors.
    ///   - isAllowed: Checks the requirement.
    public static func text(
        _ bytes: ClosedRange<Int>,
        _ rule: String = "",
        where isAllowed: @escaping @Sendable (String) -> Bool = { _ in true }
    ) -> Self {
        let size = "a text of \(bytes.lowerBound) to \(bytes.upperBound) bytes"
        let allowed = rule.isEmpty ? size : "\(size) \(rule)"
        return SettingFormat(allowed: allowed, placeholder: "TEXT", isString: true) { value in
            value.string.flatMap { bytes.contains($0.utf8.count) && isAllowed($0) ? $0 : nil }
        } text: {
            $0
        }
    }

    /// Returns the format of any text.
    ///
    /// - Parameter allowed: The kind of text, for the documentation: "a topic".
    public static func text(_ allowed: String) -> Self {
        SettingFormat(allowed: allowed, isString: true) {
            $0.string
        } text: {
            $0
        }
    }

    /// Returns the format of one of these words, in any letter case.
    public static func word(of words: [String]) -> Self {
        SettingFormat(
            allowed: words.map(\.debugDescription).joined(separator: ", "),
            placeholder: "WORD",
            words: words,
            isString: true
        ) { value in
            value.string.flatMap { text in words.first { HTTPSyntax.equalIgnoringCase($0, text) } }
        } text: {
            $0
        }
    }
}

extension SettingFormat where Value: CaseIterable & RawRepresentable & Sendable, Value.RawValue == String {
    /// The format of one of the words of an enumeration.
    public static var word: Self {
        SettingFormat<String>.word(of: Value.allCases.map(\.rawValue)).map(
            { Value(rawValue: $0) },
            back: { $0.rawValue }
        )
    }
}

extension SettingFormat where Value == StoreLocation {
    /// The format of the kind of a store, its path, and perhaps its syncs: `sqlite:chat.db?sync=always`.
    static var store: Self {
        let advice: @Sendable (String) -> String? = { text in
            text.contains(StoreLocation.syncOption) ? "its sync is always, none, or a time such as 1s" : nil
        }
        let allowed = #""file:PATH" or "sqlite:PATH""#
        return SettingFormat(allowed: allowed, placeholder: "STORE", advice: advice, isString: true) { value in
            value.string.flatMap { StoreLocation(setting: $0) }
        } text: {
            $0.settingText
        }
    }
}

extension StoreLocation {
    fileprivate static let syncOption = "?sync="
    private static let syncTime = SettingFormat<Duration>.duration(.milliseconds(1) ... .seconds(3600))

    fileprivate init?(setting text: String) {
        guard let colon = text.firstIndex(of: ":"), let kind = Kind(rawValue: String(text[..<colon])) else {
            return nil
        }
        let rest = text[text.index(after: colon)...]
        var (path, sync) = (String(rest), StoreSync.default)
        if let mark = rest.lastIndex(of: "?"), rest[mark...].hasPrefix(Self.syncOption) {
            let word = String(rest[mark...].dropFirst(Self.syncOption.count))
            guard let read = Self.sync(word) else { return nil }
            (path, sync) = (String(rest[..<mark]), read)
        }
        guard (1...4096).contains(path.utf8.count), !path.utf8.contains(0) else { return nil }
        self.init(kind, path: path, sync: sync)
    }

    private static func sync(_ word: String) -> StoreSync? {
        switch word {
        case "always": .always
        case "none": StoreSync.none
        default: (try? syncTime.read(word, key: "sync")).map { .interval($0) }
        }
    }

    fileprivate var settingText: String {
        let word: String? =
            switch sync {
            case .default: nil
            case .always: "always"
            case .none: "none"
            case .interval(let time): time.settingText
            }
        return "\(kind.rawValue):\(path)" + (word.map { Self.syncOption + $0 } ?? "")
    }
}

extension SettingFormat where Value == Endpoint {
    /// Returns the format of a URL with one of these schemes.
    ///
    /// - Parameter schemes: The allowed schemes. If `nil`, the transport of the scheme must be in the registry and
    ///   accept the URL's options.
    package static func url(of schemes: [String]? = nil) -> Self {
        SettingFormat(allowed: "a URL", placeholder: "URL", isSecret: true, isString: true) {
            (value) throws(TransportError) in
            guard let url = value.string else { return nil }
            do throws(TransportError) {
                let endpoint = try Endpoint(url)
                if let schemes {
                    try TransportRegistry.checkName(endpoint.scheme, known: schemes)
                    _ = try SettingFormat<String>.word(of: schemes).read(endpoint.scheme, key: "scheme")
                } else {
                    _ = try value.registry.transport(for: endpoint)
                }
                return endpoint
            } catch {
                throw value.failure(error)
            }
        } text: {
            $0.description
        }
    }
}

extension SettingFormat where Value == [HTTPHeader] {
    /// The format of an object of names and values. Errors do not quote a value, because it may be a secret.
    static var headers: Self {
        SettingFormat(allowed: "an object of at most 64 strings", isSecret: true, absent: "none") {
            (value) throws(TransportError) in
            guard let members = value.members else { return nil }
            guard members.count <= 64 else {
                throw value.failure("are \(members.count); allowed is an object of at most 64 strings")
            }
            var headers: [HTTPHeader] = []
            for member in members {
                let value = value.value(of: member)
                guard let text = value.string else { throw value.wrong("a string", isSecret: true) }
                do throws(TransportError) {
                    headers.append(try HTTPHeader(member.name, text))
                } catch {
                    throw value.failure(error)
                }
            }
            return headers
        }
    }
}

extension SettingFormat where Value == [String] {
    /// The format of the texts of a greeting. Errors do not quote a text, because it may contain a password.
    static var greeting: Self {
        var text = SettingFormat<String>.text(1...65_536)
        text.isSecret = true
        var list = Self.list(1...16, "texts of 1 to 65536 bytes", of: text)
        list.absent = "none"
        return list
    }
}

extension SettingFormat where Value == String {
    /// The format of a token. Errors do not quote it.
    static var loginToken: Self {
        var text = SettingFormat.text(1...ClientHello.longestToken)
        text.isSecret = true
        return text
    }
}

// MARK: Lists

extension SettingFormat {
    /// Returns the format of an array of values in a file.
    ///
    /// - Parameters:
    ///   - count: The allowed number of elements.
    ///   - name: The name of the elements, in the plural.
    ///   - element: The format of each element.
    static func list<Element>(
        _ count: ClosedRange<Int>,
        _ name: String,
        of element: SettingFormat<Element>
    ) -> Self where Value == [Element] {
        let allowed = "a list of \(count.lowerBound) to \(count.upperBound) \(name)"
        return SettingFormat(allowed: allowed, isSecret: element.isSecret, absent: "required") {
            (value) throws(TransportError) in
            guard let elements = value.elements else { return nil }
            guard count.contains(elements.count) else {
                throw value.failure("has \(elements.count) elements; allowed is \(allowed)")
            }
            var values: [Element] = []
            for value in elements { values.append(try element.read(value)) }
            return values
        }
    }

    /// Returns the format of a text such as `ws,tcp`. Empty elements and repetitions are dropped.
    ///
    /// - Parameters:
    ///   - element: The format of each element.
    ///   - limit: The maximum number of different elements.
    package static func commaSeparated<Element: Equatable & SendableMetatype>(
        _ element: SettingFormat<Element>,
        atMost limit: Int = 64
    ) -> Self where Value == [Element] {
        let allowed = "a list of up to \(limit), separated by commas, of: \(element.allowed)"
        return SettingFormat(allowed: allowed, placeholder: "LIST", words: element.words) {
            (value) throws(TransportError) in
            var values: [Element] = []
            for part in value.string?.split(separator: ",") ?? [] {
                let value = try element.read(String(part), key: value.path)
                if !values.contains(value) { values.append(value) }
                guard values.count <= limit else { return nil }
            }
            return values.isEmpty ? nil : values
        } text: {
            $0.isEmpty ? nil : $0.compactMap(element.text).joined(separator: ",")
        }
    }
}
