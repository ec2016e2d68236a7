import Protocols
import TransportAPI
import Transports
import TrialCertificates

/// Reads a command line into ``Options``. It does no I/O: the input is words, the output is options or one sentence.
///
/// A value follows its option as `--name=value` or `--name value`. `--` ends the options. The first other word is the
/// command.
struct OptionParser: Sendable {
    var vocabulary: Vocabulary

    /// The commands that print a text. They may stand in place of a command.
    static let textCommands = ["help", "version"]

    /// Reads the words after the program's name.
    func parse(_ words: [String]) throws(UsageError) -> Options {
        var options = Options(vocabulary)
        let first = Self.firstWord(in: words)
        if let first, Self.textCommands.contains(words[first]) {
            try readTextCommand(words[first], Array(words.dropFirst(first + 1)), &options)
            return options
        }
        if let first { options.command = try command(words[first]) }
        options.helpTopic = first.map { _ in options.command }

        var given: Set<String> = []
        var optionsEnded = false
        var index = 0
        while index < words.count {
            let word = words[index]
            index += 1
            if index - 1 == first { continue }
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

    /// The place of the first word that is neither an option nor an option's value.
    private static func firstWord(in words: [String]) -> Int? {
        var index = 0
        while index < words.count, words[index] != "--" {
            let word = words[index]
            guard word.hasPrefix("-") else { return index }
            if word.contains("=") {
                index += 1
            } else if let row = OptionTable.rows.first(where: { "--" + $0.name == word }) {
                index += row.placeholder == nil ? 1 : 2
            } else if word == "-h" {
                index += 1
            } else {
                // A misspelt option may have a value. The error is about the option, not about the next word.
                return nil
            }
        }
        return nil
    }

    private func command(_ word: String) throws(UsageError) -> Command {
        guard let command = Command(rawValue: word), vocabulary.commands.contains(command) else {
            throw .unknown("command", word, allowed: vocabulary.commands.map(\.rawValue) + Self.textCommands)
        }
        return command
    }

    /// `imbench help`, `imbench help COMMAND` and `imbench version`.
    private func readTextCommand(
        _ name: String,
        _ words: [String],
        _ options: inout Options
    ) throws(UsageError) {
        options.wantsHelp = name == "help"
        options.wantsVersion = name == "version"
        let allowed = options.wantsHelp ? 1 : 0
        if words.count > allowed {
            let most = options.wantsHelp ? "one command" : "no argument"
            throw UsageError("'\(name)' takes \(most), but got '\(words[allowed])'")
        }
        if let topic = words.first, !Self.textCommands.contains(topic) { options.helpTopic = try command(topic) }
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
        let command = options.command
        let rows = OptionTable.rows.filter { $0.name == name && isOffered($0) }
        guard word.hasPrefix("--"), !rows.isEmpty else {
            throw unknownOption(String(word.prefix { $0 != "=" }), command)
        }
        guard let row = rows.first(where: { $0.commands.contains(command) }) else {
            let owners = rows.flatMap(\.commands).filter(vocabulary.commands.contains).map { "'\($0.rawValue)'" }
            throw UsageError(
                "--\(name) belongs to \(owners.joined(separator: " and ")), not to '\(command.rawValue)'; "
                    + Self.hint(command)
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
                let allowed = row.allowed(vocabulary).map(\.debugDescription).joined(separator: ", ")
                throw UsageError(
                    "--\(name) needs a value: --\(name) \(placeholder)"
                        + (allowed.isEmpty ? "" : "; allowed is \(allowed)")
                )
            }
        } else if let inline {
            throw UsageError("--\(name) takes no value, but got '\(inline)'")
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

    /// The nearest option is one of the command, or else one of another command.
    private func unknownOption(_ word: String, _ command: Command) -> UsageError {
        let typed = "--" + word.drop { $0 == "-" }
        let own = OptionTable.rows(of: command).map { "--" + $0.name }
        let near =
            spellingSuggestion(for: typed, in: own)
            ?? spellingSuggestion(for: typed, in: OptionTable.rows.filter(isOffered).map { "--" + $0.name })
        let suggestion = near.map { " did you mean '\($0)'?" } ?? ""
        return UsageError("unknown option '\(word)' of '\(command.rawValue)';\(suggestion) \(Self.hint(command))")
    }

    private static func hint(_ command: Command) -> String { "'imbench help \(command.rawValue)' lists its options" }

    // MARK: Options together

    private func finish(_ options: inout Options, _ given: Set<String>) throws(UsageError) {
        for row in OptionTable.rows(of: options.command) where given.contains(row.name) {
            if let other = row.requires, !given.contains(other) { throw UsageError("--\(row.name) needs --\(other)") }
            if let other = row.excludes, given.contains(other) {
                throw UsageError("--\(row.name) and --\(other) exclude each other")
            }
        }
        if !options.users.isEmpty, !options.listen.isEmpty,
            !options.listen.contains(where: { TransportRegistry.hasBroker($0.scheme) })
        {
            throw UsageError("--user is for a broker, and no --listen has the scheme mqtt or mqtt+ws")
        }
        try refusePlain(options.listen + options.urls + [options.proxy].compactMap { $0 }, options)
        let comparesTLS = options.command == .open && !given.contains("transport")
        if options.usesTLS || comparesTLS {
            options.transports = Self.withEncrypted(options.transports, among: vocabulary.transports)
        }
        if !options.urls.isEmpty {
            if !given.contains("transport") { options.transports = options.urls.map(\.scheme) }
            if let stray = options.urls.first(where: { !options.transports.contains($0.scheme) }) {
                let transports = options.transports.joined(separator: ",")
                throw UsageError("--url \(stray.address) is not of a transport of --transport \(transports)")
            }
        }
        try finishDelivery(options)
        options.isCodecGiven = given.contains("codec") && (options.command == .chat || options.config != nil)
        if options.networks.count > 1, [.outage, .fanout].contains(options.command) {
            throw UsageError("--network may be given once for '\(options.command.rawValue)'")
        }
        if [.run, .fanout].contains(options.command), options.networks.contains(where: { $0.nat != nil }) {
            // Connections of other rows are idle meanwhile, and would be forgotten.
            throw UsageError("--network: 'nat' is for 'open' and 'outage', not for '\(options.command.rawValue)'")
        }
        // As few as sentences about the differences of 25 rows need, because connections over a network take long.
        if options.command == .open, !given.contains("repeat") { options.repeats = 10 }
        if !options.networks.isEmpty {
            try refuseLocal(options)
            if options.command == .run { finishNetworks(&options, given) }
        }
        if options.pictureBytes != nil { try finishPicture(&options, given) }
        switch options.command {
        case .crowd: return try finishCrowd(&options, given)
        case .fanout: return try finishFanout(&options, given)
        case .compare: return try finishCompare(&options)
        case .chat: return try finishChat(&options)
        default: break
        }
        if options.config != nil, let other = ["transport", "url", "proxy", "network"].first(where: given.contains) {
            throw UsageError("--config and --\(other) exclude each other")
        }
        // Without a name, `work` lists all of them.
        if let argument = options.command.argument, options.arguments.isEmpty, options.command != .work {
            let name = options.command.rawValue
            throw UsageError("'\(name)' needs a text: imbench \(name) \(argument)")
        }
        if options.command == .run, options.config == nil {
            for assertion in options.assertions {
                try assertion.check(
                    options.rowTransports,
                    options.codecs,
                    options.sizes.map { String($0) },
                    options.picturePlaces.map(\.rawValue)
                )
            }
        }
    }

    /// The transports, each followed by the same one over TLS.
    private static func withEncrypted(_ names: [String], among known: [String]) -> [String] {
        names.flatMap { name in
            let encrypted = TransportRegistry.available.transports.first { $0.name == name }?.encryptedName
            return [name] + [encrypted].compactMap { $0 }.filter { known.contains($0) && !names.contains($0) }
        }
    }

    /// Refuses transports without a network path.
    private func refuseLocal(_ options: Options) throws(UsageError) {
        guard let local = options.transports.first(where: vocabulary.local.contains) else { return }
        let others = vocabulary.transports.filter { !vocabulary.local.contains($0) }
        throw UsageError(
            "--transport \(local) stays in this process, so --network does not change it; "
                + "allowed is \(others.joined(separator: ", "))"
        )
    }

    /// Over a network, a message at a time would measure its delay alone, and thousands a second its rate. So the default
    /// is a chat: 20 messages a second on each of 4 connections. They send up to 25 kB a second. A slow network gets one
    /// connection, because a queue at its entry would hide the rest.
    private func finishNetworks(_ options: inout Options, _ given: Set<String>) {
        if !given.contains("rate"), !given.contains("in-flight") {
            options.rate = 20
            if !given.contains("connections") {
                let slowest = options.networks.flatMap { [$0.rateToServer, $0.rateToClient] }.compactMap { $0 }.min()
                options.connections = (slowest ?? .infinity) < 400_000 ? 1 : 4
            }
        }
        if !given.contains("duration"), !given.contains("messages") { options.extent = .duration(.seconds(15)) }
        if !given.contains("repeat") { options.repeats = 5 }
        if !given.contains("size") { options.sizes = [128] }
        if !given.contains("codec") { options.codecs = ["protobuf"].filter(vocabulary.codecs.contains) }
        if !given.contains("transport") {
            options.transports += ["udp-reliable", "udp-unordered"].filter(
                (vocabulary.transports + vocabulary.modes).contains
            )
        }
    }

    /// There are three rows for each transport, codec and size. So by default there is one codec and one size, and over a
    /// network one connection, whose messages share its rate with one picture.
    private func finishPicture(_ options: inout Options, _ given: Set<String>) throws(UsageError) {
        if !given.contains("size") { options.sizes = [128] }
        if !given.contains("codec"), options.config == nil {
            options.codecs = ["protobuf"].filter(vocabulary.codecs.contains)
        }
        if !options.networks.isEmpty, !given.contains("connections") { options.connections = 1 }
        // Enough repeats for differences to be sure, and as long as possible, because messages beside a picture are few.
        if !given.contains("repeat") { options.repeats = 12 }
        if !given.contains("transport"), options.urls.isEmpty, options.config == nil {
            options.transports.removeAll { $0 == "udp-unordered" }
            options.transports += ["udp-reliable"].filter {
                vocabulary.transports.contains($0) && !options.transports.contains($0)
            }
        }
        let unfit = options.rowTransports.allSatisfy { $0 == "udp" || $0 == "dtls" }
        guard !unfit || options.rowTransports.isEmpty else {
            throw UsageError(
                "--mix picture: \(options.transports.joined(separator: ", ")) does not send lost datagrams again, so a "
                    + "picture would not arrive whole; allowed is any other transport, such as udp-reliable"
            )
        }
    }

    /// Only embedded servers are session servers that send messages back.
    private func finishDelivery(_ options: Options) throws(UsageError) {
        guard options.deliveries.contains(.session) else { return }
        if !options.urls.isEmpty || options.config != nil {
            let other = options.urls.isEmpty ? "config" : "url"
            throw UsageError("--delivery session measures embedded servers, so it excludes --\(other)")
        }
        guard options.rowTransports.isEmpty else { return }
        let known = vocabulary.transports.filter { TransportRegistry.nameWithSessions($0) != nil }
        throw UsageError(
            "--delivery session: \(options.transports.joined(separator: ", ")) has no session server; "
                + "allowed is \(known.joined(separator: ", "))"
        )
    }

    private func finishCompare(_ options: inout Options) throws(UsageError) {
        guard options.arguments.count == 2 else {
            let count = options.arguments.count
            throw UsageError("'compare' needs two files, but got \(count): imbench compare A.json B.json")
        }
        (options.comparison.before, options.comparison.after) = (options.arguments[0], options.arguments[1])
    }

    private func finishChat(_ options: inout Options) throws(UsageError) {
        guard options.arguments.count <= 1 else {
            throw UsageError("'chat' takes one URL, but got '\(options.arguments[1])' as well")
        }
        if let url = options.arguments.first {
            options.chat.url = try UsageError.translate("'chat'") { () throws(TransportError) in
                try SettingFormat.url(of: vocabulary.transports).read(url, key: "URL")
            }
        } else if options.config == nil {
            throw UsageError("'chat' needs a URL: imbench chat ws://127.0.0.1:8080 --name ann")
        }
        guard !options.chat.name.isEmpty else { throw UsageError("'chat' needs a name: --name ann") }
    }

    private func finishFanout(_ options: inout Options, _ given: Set<String>) throws(UsageError) {
        if !given.contains("size") { options.sizes = [256] }
        let transports = TransportRegistry.measured.transports.filter { options.transports.contains($0.name) }
        let servers = options.fanout.servers.filter { transports.contains(where: $0.serves) }
        guard !servers.isEmpty else {
            let known = FanoutServerKind.allCases.filter { transports.contains(where: $0.serves) }.map(\.rawValue)
            let transports = options.transports.joined(separator: ",")
            throw UsageError(
                "--server \(options.fanout.servers.map(\.rawValue).joined(separator: ",")) does not serve "
                    + "--transport \(transports); allowed is \(known.joined(separator: ", "))"
            )
        }
        for assertion in options.assertions {
            try assertion.check(
                options.transports,
                servers.map(\.rawValue),
                options.fanout.subscribers.map { String($0) },
                options.sizes.map { String($0) }
            )
        }
    }

    private func finishCrowd(_ options: inout Options, _ given: Set<String>) throws(UsageError) {
        options.crowd.isIdleGiven = given.contains("idle")
        if !given.contains("repeat") { options.repeats = 1 }
        guard options.crowd.isHostile || options.repeats == 1 else { throw UsageError("--repeat needs --hostile") }
        if options.crowd.isHostile {
            if !options.crowd.isIdleGiven { options.crowd.idle = 0 }
            guard options.crowd.idle <= IdleCrowd.connectionsPerAddress else {
                let most = IdleCrowd.connectionsPerAddress
                throw UsageError("--idle is \"\(options.crowd.idle)\"; allowed with --hostile is 1 to \(most)")
            }
        }
        // Idle UDP clients are not measured: they use no descriptor of the server, and the answer to a ping may be lost.
        let mustIdle = !options.crowd.isHostile || options.crowd.idle > 0
        let known = (options.crowd.isHostile ? HostileScript.transports : CrowdOptions.transports)
            .filter { !mustIdle || CrowdOptions.transports.contains($0) }
        guard given.contains("transport") else {
            let plain = known.filter { !HostileScript.isEncrypted($0) }
            let usual = options.crowd.isHostile ? plain : [TransportDescriptor.webSocket.name]
            options.transports = options.usesTLS ? Self.withEncrypted(usual, among: known) : usual
            return
        }
        if let other = options.transports.first(where: { !known.contains($0) }) {
            let allowed = known.map(\.debugDescription).joined(separator: ", ")
            throw UsageError(
                "--transport is \"\(other)\"; allowed with idle clients is \(allowed); "
                    + "--hostile without --idle allows it"
            )
        }
    }
}
