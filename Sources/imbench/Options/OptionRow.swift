import TransportAPI
import Transports

/// An option of the command line. One row reads its value, suggests its name, documents it and records it in reports. An
/// option that has different meanings in different commands has one row for each meaning.
struct OptionRow: Sendable {
    /// The heading in the help text.
    enum Group: String, Sendable, CaseIterable {
        case what = "Subject"
        case load = "Load"
        case path = "Faults of the path"
        case report = "Report"
        case general = "General"
    }

    /// Reads the value into the options.
    typealias Apply = @Sendable (inout Options, String, Vocabulary) throws(UsageError) -> Void

    /// The name without its dashes.
    var name: String
    /// The name of the value in the help text; `nil` for a switch.
    var placeholder: String?
    var group = Group.general
    /// The commands that have this option.
    var commands = Command.allCases
    /// The help text. The allowed words and the default are appended.
    var summary: String
    /// The allowed words, if there are only a few.
    var allowed: @Sendable (Vocabulary) -> [String] = { _ in [] }
    /// An option that must not be given together with this one.
    var excludes: String?
    /// An option that this one requires.
    var requires: String?
    /// The value as the user would type it; `nil` if there is none. For the default and the record.
    var shown: @Sendable (Options) -> String? = { _ in nil }
    /// The default in the help text, if it is not the shown value of the default options.
    var standard: String?
    var apply: Apply
}

extension OptionRow {
    /// An option with a value, whose format may depend on the vocabulary.
    init<Value>(
        _ name: String,
        _ placeholder: String,
        _ summary: String,
        _ format: @escaping @Sendable (Vocabulary) -> SettingFormat<Value>,
        excludes: String? = nil,
        requires: String? = nil,
        shown: @escaping @Sendable (Options) -> String?,
        set: @escaping @Sendable (inout Options, Value) throws(UsageError) -> Void
    ) {
        self.init(name: name, placeholder: placeholder, summary: summary, excludes: excludes, requires: requires) {
            (options, text, words) throws(UsageError) in
            let value: Value
            do throws(TransportError) {
                value = try format(words).read(text, key: "--\(name)")
            } catch {
                throw UsageError(error, option: name, text)
            }
            try set(&options, value)
        }
        (allowed, self.shown) = ({ format($0).words }, shown)
    }

    /// An option with a value, which is a property of the options.
    init<Value>(
        _ name: String,
        _ placeholder: String,
        _ summary: String,
        _ format: SettingFormat<Value>,
        _ property: WritableKeyPath<Options, Value> & Sendable,
        excludes: String? = nil,
        requires: String? = nil,
        shown: (@Sendable (Options) -> String?)? = nil
    ) {
        let shown = shown ?? { format.text($0[keyPath: property]) }
        self.init(name, placeholder, summary, { _ in format }, excludes: excludes, requires: requires, shown: shown) {
            (options, value) throws(UsageError) in options[keyPath: property] = value
        }
    }

    /// An option with a value, which is `nil` by default.
    init<Value>(
        _ name: String,
        _ placeholder: String,
        _ summary: String,
        _ format: SettingFormat<Value>,
        optional property: WritableKeyPath<Options, Value?> & Sendable,
        excludes: String? = nil,
        requires: String? = nil
    ) {
        self.init(name, placeholder, summary, { _ in format }, excludes: excludes, requires: requires) {
            $0[keyPath: property].flatMap(format.text)
        } set: { (options, value) throws(UsageError) in
            options[keyPath: property] = value
        }
    }

    /// A switch, which is off by default.
    ///
    /// - Parameter shown: the texts in reports for on and off.
    init(
        switch name: String,
        _ summary: String,
        _ property: WritableKeyPath<Options, Bool> & Sendable,
        shown: (on: String?, off: String?) = (nil, nil)
    ) {
        self.init(name: name, summary: summary) { (options, _, _) throws(UsageError) in
            options[keyPath: property] = true
        }
        self.shown = { $0[keyPath: property] ? shown.on : shown.off }
    }
}

extension OptionRow {
    /// The row with another default in the help text, and with other allowed words there.
    func with(allowed: (@Sendable (Vocabulary) -> [String])? = nil, standard: String) -> OptionRow {
        var row = self
        if let allowed { row.allowed = allowed }
        row.standard = standard
        return row
    }
}
