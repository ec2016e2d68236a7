import CommandSupport
import Protocols
import TransportAPI
import Transports

/// The checked command line.
package enum Invocation: Sendable {
    /// Prints the help of a command, or the list of all commands.
    case help((any RunnableCommand.Type)?)
    case version
    case run(any RunnableCommand)
}

/// Reads a command line. It does no I/O: the input is words, the output is a command with its options, or one sentence.
///
/// A value follows its option as `--name=value` or `--name value`. `--` ends the options. The first other word is the
/// command.
package struct OptionParser: Sendable {
    let vocabulary: Vocabulary

    /// The commands that print a text. They may stand in place of a command.
    static let textCommands = ["help", "version"]

    /// The options of all commands.
    private let known: [(command: String, option: OptionDescription)]

    init(vocabulary: Vocabulary) {
        self.vocabulary = vocabulary
        known = vocabulary.commands.flatMap { command in
            vocabulary.options(of: command).map { (command: command.command.name, option: $0) }
        }
    }

    /// Reads the words after the program's name.
    package func parse(_ words: [String]) throws(UsageError) -> Invocation {
        guard let first = firstWord(in: words) else {
            guard let standard = vocabulary.commands.first else { return .help(nil) }
            return try standard.parse(words, self, isNamed: false)
        }
        if Self.textCommands.contains(words[first]) {
            return try textCommand(words[first], Array(words.dropFirst(first + 1)))
        }
        let command = try command(words[first])
        return try command.parse(Array(words[..<first] + words[(first + 1)...]), self, isNamed: true)
    }

    /// The place of the first word that is neither an option nor an option's value.
    private func firstWord(in words: [String]) -> Int? {
        var index = 0
        while index < words.count, words[index] != "--" {
            let word = words[index]
            guard word.hasPrefix("-") else { return index }
            if word.contains("=") {
                index += 1
            } else if let option = known.first(where: { "--" + $0.option.name == word })?.option {
                index += option.placeholder == nil ? 1 : 2
            } else if word == "-h" {
                index += 1
            } else {
                // A misspelt option may have a value. The error is about the option, not about the next word.
                return nil
            }
        }
        return nil
    }

    private func command(_ word: String) throws(UsageError) -> any RunnableCommand.Type {
        guard let command = vocabulary.command(word) else {
            throw .unknown("command", word, allowed: vocabulary.commands.map { $0.command.name } + Self.textCommands)
        }
        return command
    }

    /// `help`, `help COMMAND` and `version`.
    private func textCommand(_ name: String, _ words: [String]) throws(UsageError) -> Invocation {
        let isHelp = name == "help"
        let allowed = isHelp ? 1 : 0
        if words.count > allowed {
            let most = isHelp ? "one command" : "no argument"
            throw UsageError("'\(name)' takes \(most), but got '\(words[allowed])'")
        }
        guard isHelp else { return .version }
        guard let topic = words.first, !Self.textCommands.contains(topic) else { return .help(nil) }
        return .help(try command(topic))
    }

    // MARK: The options of a command

    /// Reads the words of a command's line, without the command.
    ///
    /// - Parameter isNamed: Whether the line names the command, so that its help is about it.
    fileprivate func parse<Target: RunnableCommand>(
        _ words: [String],
        of _: Target.Type,
        isNamed: Bool
    ) throws(UsageError) -> Invocation {
        let options = Target.options(vocabulary)
        var (target, line, rest) = (options.settings.initial, TypedLine(), words[...])
        var optionsEnded = false
        while let word = rest.popFirst() {
            if word == "--", !optionsEnded {
                optionsEnded = true
            } else if word == "-h", !optionsEnded {
                target.general.wantsHelp = true
            } else if word.hasPrefix("-"), word != "-", !optionsEnded {
                try read(word, &rest, options, &line, &target)
            } else if Target.command.argument != nil {
                line.arguments.append(word)
            } else {
                throw UsageError("'\(Target.command.name)' takes no argument, but got '\(word)'")
            }
            // Help is given even if the rest of the line has a mistake.
            if target.general.wantsHelp { return .help(isNamed ? Target.self : nil) }
            if target.general.wantsVersion { return .version }
        }
        try options.checkTogether(line)
        target.general.given.names = line.names
        try target.check(line, vocabulary)
        return .run(target)
    }

    /// Reads one option, whose value may be the next word.
    private func read<Target: RunnableCommand>(
        _ word: String,
        _ rest: inout ArraySlice<String>,
        _ options: OptionList<Target>,
        _ line: inout TypedLine,
        _ target: inout Target
    ) throws(UsageError) {
        let body = word.drop { $0 == "-" }
        let parts = body.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let name = parts.first.map(String.init) ?? ""
        let inline = parts.count == 2 ? String(parts[1]) : nil
        guard word.hasPrefix("--"), let (setting, place) = options.option(name) else {
            throw unread(word, name, of: Target.self)
        }
        var value = ""
        if let placeholder = setting.placeholder {
            if let inline {
                value = inline
            } else if let next = rest.first, !next.hasPrefix("--") {
                value = next
                rest.removeFirst()
            } else {
                throw missingValue(name, placeholder, of: Target.self)
            }
        } else if let inline {
            throw UsageError("--\(name) takes no value, but got '\(inline)'")
        }
        if let other = place.excludes, line.has(other) { throw .exclusion(name, other) }
        let values = line.add(value, to: name, isRepeatable: setting.isRepeatable)
        do throws(TransportError) {
            try setting.apply(&target, values)
        } catch {
            guard setting.placeholder == "URL" else { throw UsageError(error.reason) }
            throw UsageError(error, option: name, value)
        }
    }

    // MARK: Mistakes

    private func missingValue(_ name: String, _ placeholder: String, of type: any RunnableCommand.Type) -> UsageError {
        let words = vocabulary.options(of: type).first { $0.name == name }?.allowed ?? []
        let allowed = words.map(\.debugDescription).joined(separator: ", ")
        return UsageError(
            "--\(name) needs a value: --\(name) \(placeholder)" + (allowed.isEmpty ? "" : "; allowed is \(allowed)")
        )
    }

    /// The option belongs to other commands, or is unknown.
    private func unread(_ word: String, _ name: String, of type: any RunnableCommand.Type) -> UsageError {
        let command = type.command.name
        let owners = known.filter { $0.option.name == name }.map { "'\($0.command)'" }
        let hint = "'\(vocabulary.program) help \(command)' lists its options"
        if word.hasPrefix("--"), !owners.isEmpty {
            return UsageError(
                "--\(name) belongs to \(owners.joined(separator: " and ")), not to '\(command)'; \(hint)"
            )
        }
        // The nearest option is one of the command, or else one of another command.
        let option = String(word.prefix { $0 != "=" })
        let typed = "--" + option.drop { $0 == "-" }
        let own = known.filter { $0.command == command }.map { "--" + $0.option.name }
        let near =
            spellingSuggestion(for: typed, in: own)
            ?? spellingSuggestion(for: typed, in: known.map { "--" + $0.option.name })
        let suggestion = near.map { " did you mean '\($0)'?" } ?? ""
        return UsageError("unknown option '\(option)' of '\(command)';\(suggestion) \(hint)")
    }
}

extension RunnableCommand {
    fileprivate static func parse(
        _ words: [String],
        _ parser: OptionParser,
        isNamed: Bool
    ) throws(UsageError) -> Invocation {
        try parser.parse(words, of: Self.self, isNamed: isNamed)
    }
}
