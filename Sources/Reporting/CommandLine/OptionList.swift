import CommandSupport
import TransportAPI
import Transports

/// The heading of options in the help text.
package enum OptionGroup: String, Sendable, CaseIterable {
    case what = "Subject"
    case load = "Load"
    case path = "Faults of the path"
    case report = "Report"
    case general = "General"
}

/// The place of an option in the command line.
package struct OptionPlace: Sendable {
    var group: OptionGroup
    /// An option that must not be given together with this one.
    var excludes: String?
    /// An option that this one requires.
    var requires: String?
}

/// The options of a command, or a part of them: the package's ``SettingList``, and what only a command line has. A setting
/// reads its value, suggests its words, documents it and records it in reports.
package struct OptionList<Target: Sendable>: Sendable {
    /// The settings, in the order of the help text. A switch is a flag, whose name alone turns it on.
    package private(set) var settings: SettingList<Target>
    private var places: [String: OptionPlace] = [:]

    /// Creates a list without options.
    ///
    /// - Parameter initial: The target with all defaults.
    package init(_ initial: Target) { settings = SettingList(initial) }

    /// Appends settings under one heading. An option that the list has already keeps its declaration.
    package mutating func add(
        _ group: OptionGroup,
        excludes: String? = nil,
        requires: String? = nil,
        _ more: [Setting<Target>]
    ) {
        for setting in more {
            add(setting, OptionPlace(group: group, excludes: excludes, requires: requires))
        }
    }

    /// Appends the options of a part of the target, whose defaults are those of this list's target. An option that the list
    /// has already keeps its declaration.
    package mutating func add<Part>(_ list: OptionList<Part>, at part: WritableKeyPath<Target, Part> & Sendable) {
        for setting in list.settings.settings {
            guard let place = list.places[setting.name] else { continue }
            add(Setting(setting, at: part), place)
        }
    }

    private mutating func add(_ setting: Setting<Target>, _ place: OptionPlace) {
        guard places[setting.name] == nil else { return }
        settings = settings.adding([setting])
        places[setting.name] = place
    }

    /// The option of this name, and its place.
    package func option(_ name: String) -> (setting: Setting<Target>, place: OptionPlace)? {
        guard let place = places[name], let setting = settings.settings.first(where: { $0.name == name }) else {
            return nil
        }
        return (setting, place)
    }

    /// Throws if an option is given without the one that it requires, or with one that it excludes.
    func checkTogether(_ line: TypedLine) throws(UsageError) {
        for name in settings.settings.map(\.name) where line.has(name) {
            guard let place = places[name] else { continue }
            if let other = place.requires, !line.has(other) { throw UsageError("--\(name) needs --\(other)") }
            if let other = place.excludes, line.has(other) { throw .exclusion(name, other) }
        }
    }

    /// The options of a target as the user could type them again. An option is omitted if it has no effect, because the one
    /// that it requires is absent, or one that it excludes is there.
    package func record(of target: Target) -> [(name: String, value: String)] {
        var texts: [String: String] = [:]
        for setting in settings.settings { texts[setting.name] = setting.text(target) }
        return settings.settings.compactMap { setting in
            guard let text = texts[setting.name], let place = places[setting.name],
                place.requires.map({ texts[$0] != nil }) ?? true, place.excludes.map({ texts[$0] == nil }) ?? true
            else { return nil }
            return (setting.name, text)
        }
    }

    /// The given names of options that change what is measured, the network first, because it changes most: the seed, the
    /// options of the report and those of every command do not.
    func changes(among given: Set<String>) -> [String] {
        let names = settings.settings.map(\.name).filter { name in
            guard given.contains(name), let group = places[name]?.group else { return false }
            return group != .report && group != .general && name != "seed"
        }
        return names.filter { $0 == "network" } + names.filter { $0 != "network" }
    }

    /// The options as they are documented.
    package var descriptions: [OptionDescription] {
        settings.settings.map { setting in
            OptionDescription(
                name: setting.name,
                group: places[setting.name]?.group ?? .general,
                placeholder: setting.placeholder,
                words: setting.words,
                meaning: setting.meaning,
                standard: setting.text(settings.initial) ?? setting.absent
            )
        }
    }
}

/// An option of any command, as it is documented.
package struct OptionDescription: Sendable {
    /// The name without its dashes.
    package var name: String
    package var group: OptionGroup
    /// The name of its value; `nil` for a switch.
    package var placeholder: String?
    /// The words that its value may be.
    package var words: [String]
    package var meaning: String
    /// The default as the user would type it, or in words; empty if there is none.
    package var standard: String

    /// The words, if the value is always one of them, or a list of them.
    package var allowed: [String] { placeholder == "WORD" || placeholder == "LIST" ? words : [] }
}

/// The options and arguments that a command line has.
package struct TypedLine: Sendable {
    /// The words after the command that are no options.
    package var arguments: [String] = []
    /// The values of each option, in the order of the line.
    private var values: [String: [ConfigurationValue]] = [:]

    /// The names of the options that were given.
    package var names: Set<String> { Set(values.keys) }

    /// Whether an option was given.
    package func has(_ name: String) -> Bool { values[name] != nil }

    /// Adds a value of an option, and returns those that count: all of them, or the last one.
    package mutating func add(_ text: String, to name: String, isRepeatable: Bool) -> [ConfigurationValue] {
        let value = ConfigurationValue(text, key: "--\(name)")
        guard isRepeatable else {
            values[name] = [value]
            return [value]
        }
        values[name, default: []].append(value)
        return values[name] ?? [value]
    }
}
