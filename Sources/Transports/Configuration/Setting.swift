import Protocols
import TransportAPI

/// The declaration of a setting: its name, the format of its values, the property that it sets, and its meaning.
///
/// One declaration serves everywhere. It reads the value from the query of a URL or from a configuration file, suggests
/// its name for misspelled ones, names the allowed values in errors, and makes a row of the documentation. The default is
/// the value that the property has before anything is read.
///
/// ```swift
/// struct GuardedSettings: Sendable {
///     var loginTimeout = Duration.seconds(10)
/// }
/// let setting = Setting("login-timeout", .duration(), \GuardedSettings.loginTimeout, "how long the login may take")
/// ```
public struct Setting<Target>: Sendable {
    /// The name in URLs, files and errors.
    public let name: String
    /// The allowed values, for errors and tables.
    public let allowed: String
    /// The effect of the setting, in one line.
    public let meaning: String
    /// The name of its value in the help of a command; `nil` for a switch, which has no value there.
    package let placeholder: String?
    /// The allowed words, if its value is one of a few.
    package let words: [String]
    /// Whether it may occur more than once.
    package let isRepeatable: Bool
    /// The description of a default without a text.
    package let absent: String
    /// The rows of the object that is its value, with names relative to this setting. Most values are no objects.
    let inner: [SettingRow]
    /// Returns the text of the value in `target`, as in a file.
    let shown: @Sendable (Target) -> String
    /// Returns the text that is read as the value in `target`; `nil` if there is none.
    package let text: @Sendable (Target) -> String?
    /// Reads the values with this name into the target. There is more than one only if an option is repeated.
    package let apply: @Sendable (inout Target, [ConfigurationValue]) throws(TransportError) -> Void

    /// Declares a setting that may occur once.
    ///
    /// - Parameters:
    ///   - name: The name: lower-case words, joined by hyphens.
    ///   - format: The allowed values.
    ///   - property: The property that it sets. The value that it has in the target is the default.
    ///   - meaning: The effect in one line, without the default and the allowed values.
    public init<Value>(
        _ name: String,
        _ format: SettingFormat<Value>,
        _ property: WritableKeyPath<Target, Value> & Sendable,
        _ meaning: String
    ) {
        let shown: @Sendable (Target) -> String = { format.shown($0[keyPath: property]) }
        self.init(name, format, meaning, shown: shown, text: { format.text($0[keyPath: property]) }) {
            (target, values) throws(TransportError) in
            guard values.count <= 1 else {
                throw .configuration(name, "occurs \(values.count) times; once is allowed")
            }
            for value in values { target[keyPath: property] = try format.read(value) }
        }
    }

    /// Declares a setting that may be repeated in a URL or a command line. Its values replace those that are the default.
    ///
    /// - Parameters:
    ///   - name: The name: lower-case words, joined by hyphens.
    ///   - format: The allowed values of each occurrence.
    ///   - limit: The largest number of occurrences. No limit by default.
    ///   - property: The property that it sets. The values that it has in the target are the default.
    ///   - meaning: The effect in one line, without the default and the allowed values.
    public init<Value>(
        _ name: String,
        each format: SettingFormat<Value>,
        atMost limit: Int = .max,
        _ property: WritableKeyPath<Target, [Value]> & Sendable,
        _ meaning: String
    ) {
        let shown: @Sendable (Target) -> String = { target in
            let values = target[keyPath: property]
            return values.isEmpty ? format.absent : values.map(format.shown).joined(separator: ", ")
        }
        let text: @Sendable (Target) -> String? = { target in
            let texts = target[keyPath: property].compactMap(format.text)
            return texts.isEmpty ? nil : texts.joined(separator: "; ")
        }
        self.init(name, format, meaning, isRepeatable: true, shown: shown, text: text) {
            (target, values) throws(TransportError) in
            if values.count > limit {
                throw values[limit].failure("occurs \(values.count) times; allowed are at most \(limit)")
            }
            var read: [Value] = []
            for value in values { read.append(try format.read(value)) }
            target[keyPath: property] = read
        }
    }

    private init<Value>(
        _ name: String,
        _ format: SettingFormat<Value>,
        _ meaning: String,
        isRepeatable: Bool = false,
        shown: @escaping @Sendable (Target) -> String,
        text: @escaping @Sendable (Target) -> String?,
        apply: @escaping @Sendable (inout Target, [ConfigurationValue]) throws(TransportError) -> Void
    ) {
        (self.name, self.meaning, self.shown, self.text, self.apply) = (name, meaning, shown, text, apply)
        (allowed, words, inner) = (format.allowed, format.words, format.inner)
        (placeholder, absent, self.isRepeatable) = (format.placeholder, format.absent, isRepeatable)
    }

    /// A setting of a part, as a setting of the whole.
    package init<Part>(_ setting: Setting<Part>, at part: WritableKeyPath<Target, Part> & Sendable) {
        (name, allowed, meaning) = (setting.name, setting.allowed, setting.meaning)
        (words, inner) = (setting.words, setting.inner)
        (placeholder, absent, isRepeatable) = (setting.placeholder, setting.absent, setting.isRepeatable)
        shown = { setting.shown($0[keyPath: part]) }
        text = { setting.text($0[keyPath: part]) }
        apply = { (target, values) throws(TransportError) in try setting.apply(&target[keyPath: part], values) }
    }

    /// Returns the rows of the documentation: its own, and those of the object that is its value.
    fileprivate func rows(_ target: Target) -> [SettingRow] {
        [SettingRow(name, allowed: allowed, standard: shown(target), meaning)] + inner.map { $0.inside(name) }
    }
}

/// All settings of one target: those that clients of a transport have, or its servers, or an object of a configuration
/// file.
///
/// ```swift
/// static let list = SettingList(
///     GuardedSettings(),
///     [Setting("login-timeout", .duration(), \.loginTimeout, "how long the login may take")]
/// )
/// ```
public struct SettingList<Target: Sendable>: Sendable {
    /// The target with all defaults.
    public private(set) var initial: Target
    /// The settings, in the order of the documentation.
    public private(set) var settings: [Setting<Target>]
    /// Checks the values together after all are read. The value is the object or the query that contains them.
    private var checks: [SettingsCheck<Target>]

    /// Creates a list.
    ///
    /// - Parameters:
    ///   - initial: The target with all defaults.
    ///   - settings: The settings, in the order of the documentation.
    public init(_ initial: Target, _ settings: [Setting<Target>] = []) {
        (self.initial, self.settings, checks) = (initial, settings, [])
    }

    /// Creates a list with a check of the values together.
    package init(
        _ initial: Target,
        _ settings: [Setting<Target>],
        check: @escaping @Sendable (Target, ConfigurationValue) throws(TransportError) -> Void
    ) {
        (self.initial, self.settings, checks) = (initial, settings, [SettingsCheck(run: check)])
    }

    /// Appends the settings of a part of the target, and takes over its defaults. A setting that is in this list already
    /// replaces that of the part.
    package mutating func append<Part>(_ list: SettingList<Part>, at part: WritableKeyPath<Target, Part> & Sendable) {
        initial[keyPath: part] = list.initial
        let names = settings.map(\.name)
        settings += list.settings.filter { !names.contains($0.name) }.map { Setting($0, at: part) }
        checks += list.checks.map { SettingsCheck($0, at: part) }
    }

    /// Returns the list with further settings of the same target at its end.
    package func adding(_ more: [Setting<Target>]) -> Self {
        var list = self
        list.settings += more
        return list
    }

    /// Reads the settings from the query of a URL.
    ///
    /// - Parameters:
    ///   - endpoint: The URL.
    ///   - others: Settings that this side ignores, usually those of the other side, so that one URL can serve both.
    ///     None by default.
    /// - Throws: `.invalidConfiguration` for an option that is in neither list, with the name that was probably meant,
    ///   and for a wrong value, with the allowed ones.
    public func read(_ endpoint: Endpoint, ignoring others: [SettingRow] = []) throws(TransportError) -> Target {
        try read(endpoint, ignoring: others) { _ in }
    }

    /// Reads the settings from the query of a URL. `change` sets other defaults first.
    package func read(
        _ endpoint: Endpoint,
        ignoring others: [SettingRow],
        defaults change: (inout Target) -> Void
    ) throws(TransportError) -> Target {
        try endpoint.checkOptions(allowed: settings.map(\.name), ignored: others.map(\.name))
        var target = initial
        change(&target)
        try read(ConfigurationValue(endpoint.options), into: &target, ignoresUnknown: true)
        return target
    }

    /// Reads an object of a file, or the options of a URL.
    ///
    /// - Parameters:
    ///   - value: The object.
    ///   - target: The target, whose properties are the defaults.
    ///   - ignoresUnknown: Whether other names are allowed. Default `false`.
    package func read(
        _ value: ConfigurationValue,
        into target: inout Target,
        ignoresUnknown: Bool = false
    ) throws(TransportError) {
        guard let members = value.members else { throw value.wrong("an object\(example(for: value))") }
        var seen: Set<String> = []
        for member in members {
            guard let setting = settings.first(where: { $0.name.hasSameUTF8(as: member.name) }) else {
                guard ignoresUnknown else { throw value.unknown(member, allowed: settings.map(\.name)) }
                continue
            }
            guard seen.insert(setting.name).inserted else { continue }
            let values = members.filter { $0.name.hasSameUTF8(as: setting.name) }.map(value.value(of:))
            try setting.apply(&target, values)
        }
        for check in checks { try check.run(target, value) }
    }

    /// Returns the object that is meant by a word for one of its settings: `, such as {"mode": "session"}`.
    private func example(for value: ConfigurationValue) -> String {
        guard let word = value.string, let setting = settings.first(where: { $0.words.contains(word) }) else {
            return ""
        }
        return ", such as {\(setting.name.debugDescription): \(word.debugDescription)}"
    }

    /// One row of documentation for each setting, including those of inner objects.
    public var rows: [SettingRow] { settings.flatMap { $0.rows(initial) } }
}

/// A check of several settings together.
private struct SettingsCheck<Target>: Sendable {
    let run: @Sendable (Target, ConfigurationValue) throws(TransportError) -> Void

    init(run: @escaping @Sendable (Target, ConfigurationValue) throws(TransportError) -> Void) {
        self.run = run
    }

    /// The check of a part, as a check of the whole.
    init<Part>(_ check: SettingsCheck<Part>, at part: WritableKeyPath<Target, Part> & Sendable) {
        run = { (target, value) throws(TransportError) in try check.run(target[keyPath: part], value) }
    }
}

extension SettingFormat {
    /// Creates the format of an object with these settings, which is converted to the value.
    static func object<Target>(
        _ list: SettingList<Target>,
        _ convert: @escaping @Sendable (Target) -> Value
    ) -> Self {
        var format = SettingFormat(allowed: "an object") { (value) throws(TransportError) in
            var target = list.initial
            try list.read(value, into: &target)
            return convert(target)
        }
        format.inner = list.rows
        return format
    }
}

/// The documentation of a setting.
public struct SettingRow: Sendable, Hashable {
    /// Its name. In a file it is all keys that lead to the value, joined by dots.
    public var name: String
    /// The allowed values.
    public var allowed: String
    /// The default.
    public var standard: String
    /// The effect, in one line.
    public var meaning: String

    /// Creates a row from its parts.
    public init(_ name: String, allowed: String, standard: String, _ meaning: String) {
        self.name = name
        self.allowed = allowed
        self.standard = standard
        self.meaning = meaning
    }

    /// Returns the row in the table of the outer object.
    fileprivate func inside(_ key: String) -> SettingRow {
        var row = self
        row.name = "\(key).\(name)"
        return row
    }

    /// Returns the rows in aligned columns under their headings.
    ///
    /// - Parameters:
    ///   - rows: The rows.
    ///   - name: The heading of the first column.
    package static func table(_ rows: [SettingRow], name: String) -> String {
        let lines =
            [[name, "allowed", "default", "meaning"]] + rows.map { [$0.name, $0.allowed, $0.standard, $0.meaning] }
        let widths = (0..<3).map { column in lines.reduce(0) { max($0, $1[column].count) } }
        return lines.map { cells in
            let padded = zip(cells, widths).map { $0 + String(repeating: " ", count: $1 - $0.count) }
            return (padded + [cells[3]]).joined(separator: "  ") + "\n"
        }.joined()
    }
}
