import TransportAPI

/// Reads a command line into ``Options``. Pure: words in, options or one sentence out.
///
/// Values are written `--name=value` or `--name value`; `--` ends the options; the first other word is the command.
struct OptionParser: Sendable {
    var vocabulary: Vocabulary

    /// Reads the words after the program's name.
    func parse(_ words: [String]) throws(UsageError) -> Options {
        var options = Options(vocabulary)
        let command = try Self.command(in: words, vocabulary.commands)
        options.command = command.value ?? options.command
        options.helpTopic = command.value

        var given: Set<String> = []
        var optionsEnded = false
        var index = 0
        while index < words.count {
            let word = words[index]
            index += 1
            if index - 1 == command.index { continue }
            if word == "--", !optionsEnded {
                optionsEnded = true
            } else if word == "-h", !optionsEnded {
                options.wantsHelp = true
            } else if word.hasPrefix("-"), word != "-", !optionsEnded {
                try option(word, words, &index, &given, &options)
            } else if options.command.argument != nil {
                options.arguments.append(word)
            } else {
                throw UsageError("'\(options.command.rawValue)' takes no argument, but got '\(word)'")
            }
            // Whoever asks for help gets it, whatever else the line says.
            if options.wantsHelp || options.wantsVersion { return options }
        }
        try finish(&options, given)
        return options
    }

    /// The first word that is no option and no option's value.
    private static func command(
        in words: [String],
        _ offered: [Command]
    ) throws(UsageError) -> (index: Int?, value: Command?) {
        var index = 0
        while index < words.count, words[index] != "--" {
            let word = words[index]
            guard word.hasPrefix("-") else {
                guard let command = Command(rawValue: word), offered.contains(command) else {
                    throw .unknown("command", word, allowed: offered.map(\.rawValue))
                }
                return (index, command)
            }
            if word.contains("=") {
                index += 1
            } else if let row = OptionTable.rows.first(where: { "--" + $0.name == word }) {
                index += row.placeholder == nil ? 1 : 2
            } else if word == "-h" {
                index += 1
            } else {
                // A misspelt option may or may not have a value; it is the mistake to speak of, not what follows it.
                return (nil, nil)
            }
        }
        return (nil, nil)
    }

    private func option(
        _ word: String,
        _ words: [String],
        _ index: inout Int,
        _ given: inout Set<String>,
        _ options: inout Options
    ) throws(UsageError) {
        let body = word.drop { $0 == "-" }
        let parts = body.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let name = parts.first.map(String.init) ?? ""
        let inline = parts.count == 2 ? String(parts[1]) : nil
        guard word.hasPrefix("--"), let row = OptionTable.rows.first(where: { $0.name == name && isOffered($0) }) else {
            throw Self.unknownOption(
                String(word.prefix { $0 != "=" }),
                OptionTable.rows.filter(isOffered).map { "--" + $0.name }
            )
        }
        guard row.commands.contains(options.command) else {
            let owners = row.commands.filter(vocabulary.commands.contains).map { "'\($0.rawValue)'" }
            throw UsageError(
                "--\(name) belongs to \(owners.joined(separator: " and ")), not to '\(options.command.rawValue)'"
            )
        }
        var value = ""
        if let placeholder = row.placeholder {
            if let inline {
                value = inline
            } else if index < words.count, !words[index].hasPrefix("--") {
                value = words[index]
                index += 1
            } else {
                throw UsageError("--\(name) needs a value: --\(name) \(placeholder)")
            }
        } else if inline != nil {
            throw UsageError("--\(name) takes no value")
        }
        if let other = row.excludes, given.contains(other) {
            throw UsageError("--\(name) and --\(other) exclude each other")
        }
        given.insert(name)
        try row.apply(&options, value, vocabulary)
    }

    private func isOffered(_ row: OptionRow) -> Bool {
        row.commands.contains(where: vocabulary.commands.contains)
    }

    private static func unknownOption(_ word: String, _ names: [String]) -> UsageError {
        guard let near = nearestWord(to: "--" + word.drop { $0 == "-" }, in: names) else {
            return UsageError("unknown option '\(word)'; 'imbench --help' lists them")
        }
        return UsageError("unknown option '\(word)'; did you mean '\(near)'?")
    }

    /// Checks what several options say together.
    private func finish(_ options: inout Options, _ given: Set<String>) throws(UsageError) {
        for row in OptionTable.rows where given.contains(row.name) {
            if let other = row.requires, !given.contains(other) { throw UsageError("--\(row.name) needs --\(other)") }
            if let other = row.excludes, given.contains(other) {
                throw UsageError("--\(row.name) and --\(other) exclude each other")
            }
        }
        if !options.users.isEmpty, !options.listen.isEmpty,
            !options.listen.contains(where: { $0.scheme.hasPrefix("mqtt") })
        {
            throw UsageError("--user is for a broker, and no --listen is one")
        }
        if !options.urls.isEmpty {
            if !given.contains("transport") { options.transports = options.urls.map(\.scheme) }
            if let stray = options.urls.first(where: { !options.transports.contains($0.scheme) }) {
                throw UsageError("--url \(stray) is for \(stray.scheme), which --transport leaves out")
            }
        }
        options.isCodecGiven = given.contains("codec") && (options.command == .chat || options.config != nil)
        if options.command == .crowd { return try OptionTable.finishCrowd(&options, given) }
        if options.command == .compare { return try OptionTable.finishCompare(&options) }
        if options.command == .chat { return try OptionTable.finishChat(&options, given, vocabulary) }
        if options.config != nil, let other = ["transport", "url", "proxy"].first(where: given.contains) {
            throw UsageError("--config and --\(other) exclude each other")
        }
        // Without a name, `work` says which there are.
        if let argument = options.command.argument, options.arguments.isEmpty, options.command != .work {
            let name = options.command.rawValue
            throw UsageError("'\(name)' needs a text: imbench \(name) \(argument)")
        }
    }
}
