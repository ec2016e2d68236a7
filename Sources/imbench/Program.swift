/// The program: which commands there are, what each does, and how the command line leads to one of them.
struct Program: Sendable {
    /// One command and what it does; it returns the status with which the program ends.
    struct Entry: Sendable {
        var command: Command
        var run: @Sendable (Options) throws(SystemFailure) -> Int32
    }

    let vocabulary: Vocabulary
    private let entries: [Entry]

    /// A program of these commands, the first of which is the default, for these transports and codecs.
    init(_ entries: [Entry], transports: [String], defaultTransports: [String], codecs: [String]) {
        self.entries = entries
        vocabulary = Vocabulary(
            commands: entries.map(\.command),
            transports: transports,
            defaultTransports: defaultTransports,
            codecs: codecs
        )
    }

    /// Reads the words after the program's name and does what they say.
    func run(_ words: [String]) -> Int32 {
        let options: Options
        do throws(UsageError) {
            options = try OptionParser(vocabulary: vocabulary).parse(words)
        } catch {
            remark(error.message, isQuiet: false)
            return ExitStatus.usage
        }
        do throws(SystemFailure) {
            if options.wantsHelp || options.wantsVersion {
                let help = HelpText.make(vocabulary, command: options.helpTopic)
                try ReportTarget(path: nil).write(options.wantsHelp ? help : "imbench \(version)\n")
                return ExitStatus.good
            }
            guard let entry = entries.first(where: { $0.command == options.command }) else { return ExitStatus.usage }
            Interruption.listen()
            return try entry.run(options)
        } catch {
            remark(error.message, isQuiet: false)
            return ExitStatus.failed
        }
    }
}
