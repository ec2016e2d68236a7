import Protocols
import TransportAPI
import Transports

/// Reads a command line into ``Options``. It does no I/O: the input is words, the output is options or one sentence.
///
/// A value follows its option as `--name=value` or `--name value`. `--` ends the options. The first other word is the command.
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
            // Help is given even if the rest of the line has a mistake.
            if options.wantsHelp || options.wantsVersion { return options }
        }
        try finish(&options, given)
        return options
    }

    /// The first word that is neither an option nor an option's value.
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
                // A misspelt option may have a value. The error is about the option, not about the next word.
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
        guard let near = spellingSuggestion(for: "--" + word.drop { $0 == "-" }, in: names) else {
            return UsageError("unknown option '\(word)'; 'imbench --help' lists them")
        }
        return UsageError("unknown option '\(word)'; did you mean '\(near)'?")
    }

    // MARK: Options together

    private func finish(_ options: inout Options, _ given: Set<String>) throws(UsageError) {
        for row in OptionTable.rows where given.contains(row.name) {
            if let other = row.requires, !given.contains(other) { throw UsageError("--\(row.name) needs --\(other)") }
            if let other = row.excludes, given.contains(other) {
                throw UsageError("--\(row.name) and --\(other) exclude each other")
            }
        }
        if !options.users.isEmpty, !options.listen.isEmpty,
            !options.listen.contains(where: { TransportRegistry.hasBroker($0.scheme) })
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
        switch options.command {
        case .crowd: return try finishCrowd(&options, given)
        case .compare: return try finishCompare(&options)
        case .chat: return try finishChat(&options)
        default: break
        }
        if options.config != nil, let other = ["transport", "url", "proxy"].first(where: given.contains) {
            throw UsageError("--config and --\(other) exclude each other")
        }
        // Without a name, `work` lists all of them.
        if let argument = options.command.argument, options.arguments.isEmpty, options.command != .work {
            let name = options.command.rawValue
            throw UsageError("'\(name)' needs a text: imbench \(name) \(argument)")
        }
    }

    private func finishCompare(_ options: inout Options) throws(UsageError) {
        guard options.arguments.count == 2 else {
            throw UsageError("'compare' needs two files: imbench compare A.json B.json")
        }
        (options.comparison.before, options.comparison.after) = (options.arguments[0], options.arguments[1])
    }

    private func finishChat(_ options: inout Options) throws(UsageError) {
        guard options.arguments.count <= 1 else {
            throw UsageError("'chat' takes one URL, but got '\(options.arguments[1])' as well")
        }
        if let url = options.arguments.first {
            options.chat.url = try UsageError.translate { () throws(TransportError) in
                try SettingFormat.url(of: vocabulary.transports).read(url, key: "URL")
            }
        } else if options.config == nil {
            throw UsageError("'chat' needs a URL: imbench chat ws://127.0.0.1:8080 --name ann")
        }
        guard !options.chat.name.isEmpty else { throw UsageError("'chat' needs a name: --name ann") }
        guard !options.isCodecGiven || options.codecs.count == 1 else {
            throw UsageError("--codec: a chat has one codec, not \(options.codecs.count)")
        }
    }

    private func finishCrowd(_ options: inout Options, _ given: Set<String>) throws(UsageError) {
        options.crowd.isIdleGiven = given.contains("idle")
        if !given.contains("repeat") { options.repeats = 1 }
        guard options.crowd.isHostile || options.repeats == 1 else { throw UsageError("--repeat needs --hostile") }
        if options.crowd.isHostile {
            if !options.crowd.isIdleGiven { options.crowd.idle = 0 }
            guard options.crowd.idle <= IdleCrowd.connectionsPerAddress else {
                throw UsageError("--idle: at most \(IdleCrowd.connectionsPerAddress) beside hostile clients")
            }
        }
        // Idle UDP clients are not measured: they use no descriptor of the server, and the answer to a ping may be lost.
        let mustIdle = !options.crowd.isHostile || options.crowd.idle > 0
        let known = (options.crowd.isHostile ? HostileScript.transports : CrowdOptions.transports)
            .filter { !mustIdle || CrowdOptions.transports.contains($0) }
        guard given.contains("transport") else {
            return options.transports = options.crowd.isHostile ? known : [TransportDescriptor.webSocket.name]
        }
        if let other = options.transports.first(where: { !known.contains($0) }) {
            throw UsageError("--transport: 'crowd' knows \(known.joined(separator: ", ")), not \(other)")
        }
    }
}

/// A mistake in the command line: one line with the mistake and the allowed values.
/// The program ends with status 64 (EX_USAGE of sysexits.h).
struct UsageError: Error, Sendable, Hashable {
    /// The sentence, without the program's name.
    var message: String

    init(_ message: String) {
        self.message = message
    }

    /// `word` is not in `allowed`. The sentence suggests the nearest one, or lists all if none is near.
    static func unknown(_ kind: String, _ word: String, allowed: [String]) -> UsageError {
        if let near = spellingSuggestion(for: word, in: allowed) {
            return UsageError("unknown \(kind) '\(word)'; did you mean '\(near)'?")
        }
        return UsageError("unknown \(kind) '\(word)'; there is \(allowed.joined(separator: ", "))")
    }

    /// Calls `read`, whose errors are mistakes in the command line.
    static func translate<Value>(_ read: () throws(TransportError) -> Value) throws(UsageError) -> Value {
        do throws(TransportError) { return try read() } catch { throw UsageError(error.reason) }
    }
}
