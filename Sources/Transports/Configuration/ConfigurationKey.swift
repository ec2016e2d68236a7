import Codecs
import TransportAPI

/// One key of an object in the file: the row from which it is read, refused, suggested and explained.
struct ConfigurationKey<Target>: Sendable {
    /// Its name.
    var name: String
    /// What it may be, in words.
    var allowed: String
    /// What it means.
    var meaning: String
    /// What `target` has for it, as the file would write it; empty if it is an object.
    var shown: @Sendable (Target) -> String
    /// The rows of the object that is its value, with their paths from here.
    var inner: [KeyReferenceRow]
    /// Reads its value into the target.
    var apply: @Sendable (inout Target, ConfigurationValue) throws(TransportError) -> Void

    init<Value>(
        _ name: String,
        _ form: ValueForm<Value>,
        _ property: WritableKeyPath<Target, Value> & Sendable,
        _ meaning: String,
        inner: [KeyReferenceRow] = []
    ) {
        self.name = name
        self.meaning = meaning
        self.inner = inner
        allowed = form.allowed
        shown = { form.show($0[keyPath: property]) }
        apply = { (target, value) throws(TransportError) in target[keyPath: property] = try form.take(value) }
    }
}

/// The keys of one object in the file.
struct ConfigurationObject<Target>: Sendable {
    /// All keys, in the order in which they are explained.
    var keys: [ConfigurationKey<Target>]
    /// Checks what several keys say together, after they have been read.
    var check: @Sendable (Target, ConfigurationValue) throws(TransportError) -> Void = { _, _ in }

    /// Reads an object into `target`, whose properties are the defaults of what the file leaves out.
    func read(_ value: ConfigurationValue, into target: inout Target) throws(TransportError) {
        guard let members = value.members else { throw value.wrong("an object") }
        for member in members {
            guard let key = keys.first(where: { $0.name.hasSameUTF8(as: member.name) }) else {
                throw value.unknown(member, allowed: keys.map(\.name))
            }
            try key.apply(&target, value.value(of: member))
        }
        try check(target, value)
    }

    /// One row for each key, and for those of the objects inside.
    func reference(defaults: Target) -> [KeyReferenceRow] {
        keys.flatMap { key in
            let row = KeyReferenceRow(key.name, key.allowed, key.shown(defaults), key.meaning)
            return [row] + key.inner.map { $0.inside(key.name) }
        }
    }
}

extension ValueForm {
    /// An object with these keys, which is turned into the value.
    static func object<Target: Sendable>(
        _ object: ConfigurationObject<Target>,
        from defaults: Target,
        _ convert: @escaping @Sendable (Target) -> Value
    ) -> Self {
        ValueForm(allowed: "an object") { (value) throws(TransportError) in
            var target = defaults
            try object.read(value, into: &target)
            return convert(target)
        }
    }
}

/// One row of the table of keys.
struct KeyReferenceRow: Sendable, Hashable {
    /// The keys that lead there, joined by dots.
    var path: String
    /// What it may be.
    var allowed: String
    /// What it is if the file does not say.
    var standard: String
    /// What it means.
    var meaning: String

    init(_ path: String, _ allowed: String, _ standard: String, _ meaning: String) {
        self.path = path
        self.allowed = allowed
        self.standard = standard
        self.meaning = meaning
    }

    /// The row as the table of the object around shows it.
    func inside(_ key: String) -> KeyReferenceRow {
        var row = self
        row.path = "\(key).\(path)"
        return row
    }

    /// The rows under their headings, in aligned columns.
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
