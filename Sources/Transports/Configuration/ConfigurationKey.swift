import Codecs
import Protocols
import TransportAPI

/// A key of an object in the file. It reads the value, suggests its name for misspelled ones, and documents it.
struct ConfigurationKey<Target>: Sendable {
    /// Its name.
    var name: String
    /// The allowed values.
    var allowed: String
    /// The allowed words, if its value is one of a few.
    var words: [String]
    /// Its meaning, in one line.
    var meaning: String
    /// The text of the value in `target`, as in the file. Empty for an object.
    var shown: @Sendable (Target) -> String
    /// The rows of the object that is its value, with paths relative to this key.
    var inner: [KeyReferenceRow]
    /// Reads its value into the target.
    var apply: @Sendable (inout Target, ConfigurationValue) throws(TransportError) -> Void

    init<Value>(
        _ name: String,
        _ format: SettingFormat<Value>,
        _ property: WritableKeyPath<Target, Value> & Sendable,
        _ meaning: String,
        inner: [KeyReferenceRow] = []
    ) {
        self.name = name
        self.meaning = meaning
        self.inner = inner
        allowed = format.allowed
        words = format.words
        shown = { format.shown($0[keyPath: property]) }
        apply = { (target, value) throws(TransportError) in target[keyPath: property] = try format.read(value) }
    }
}

/// The keys of an object in the file.
struct ConfigurationObject<Target>: Sendable {
    /// All keys, in the order of the documentation.
    var keys: [ConfigurationKey<Target>]
    /// Checks the values together, after all are read.
    var check: @Sendable (Target, ConfigurationValue) throws(TransportError) -> Void = { _, _ in }

    /// Reads an object into `target`, whose properties are the defaults.
    func read(_ value: ConfigurationValue, into target: inout Target) throws(TransportError) {
        guard let members = value.members else { throw value.wrong("an object\(example(for: value))") }
        for member in members {
            guard let key = keys.first(where: { $0.name.hasSameUTF8(as: member.name) }) else {
                throw value.unknown(member, allowed: keys.map(\.name))
            }
            try key.apply(&target, value.value(of: member))
        }
        try check(target, value)
    }

    /// Returns the object that is meant by a word for one of its keys: `, such as {"mode": "session"}`.
    private func example(for value: ConfigurationValue) -> String {
        guard let word = value.string, let key = keys.first(where: { $0.words.contains(word) }) else { return "" }
        return ", such as {\(key.name.debugDescription): \(word.debugDescription)}"
    }

    /// Returns one row for each key, including the keys of inner objects.
    func reference(defaults: Target) -> [KeyReferenceRow] {
        keys.flatMap { key in
            let row = KeyReferenceRow(key.name, key.allowed, key.shown(defaults), key.meaning)
            return [row] + key.inner.map { $0.inside(key.name) }
        }
    }
}

extension SettingFormat {
    /// Creates the format of an object with these keys, which is converted to the value.
    static func object<Target: Sendable>(
        _ object: ConfigurationObject<Target>,
        from defaults: Target,
        _ convert: @escaping @Sendable (Target) -> Value
    ) -> Self {
        SettingFormat(allowed: "an object") { (value) throws(TransportError) in
            var target = defaults
            try object.read(value, into: &target)
            return convert(target)
        }
    }
}

/// A row of the table of keys in the documentation.
struct KeyReferenceRow: Sendable, Hashable {
    /// All keys that lead to the value, joined by dots.
    var path: String
    /// The allowed values.
    var allowed: String
    /// The default.
    var standard: String
    /// The meaning, in one line.
    var meaning: String

    init(_ path: String, _ allowed: String, _ standard: String, _ meaning: String) {
        self.path = path
        self.allowed = allowed
        self.standard = standard
        self.meaning = meaning
    }

    /// Returns the row in the table of the outer object.
    func inside(_ key: String) -> KeyReferenceRow {
        var row = self
        row.path = "\(key).\(path)"
        return row
    }

    /// Returns the rows under their headings, in aligned columns.
    static func table(_ rows: [KeyReferenceRow]) -> String {
        let lines =
            [["key", "allowed", "default", "meaning"]] + rows.map { [$0.path, $0.allowed, $0.standard, $0.meaning] }
        let widths = (0..<3).map { column in lines.reduce(0) { max($0, $1[column].count) } }
        return lines.map { cells in
            let padded = zip(cells, widths).map { $0 + String(repeating: " ", count: $1 - $0.count) }
            return (padded + [cells[3]]).joined(separator: "  ") + "\n"
        }.joined()
    }
}
