/// The program: which commands there are, what each does, and how the command line leads to one of them.
struct Program: Sendable {
    /// One command and what it does; it returns the status with which the program ends.
    struct Entry: Sendable {
        var command: Command
        /// Whether the command looks at ``Interruption`` while it runs, and then ends with what it has. Ctrl-C ends the process
        /// at once where it does not.
        var isInterruptible = true
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

    /// Reads the words after the program's name and does what they say. The status of an interrupted command is that of its
    /// signal, whatever the command returns or throws.
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
            if entry.isInterruptible { Interruption.listen() } else { Interruption.ignoreBrokenPipes() }
            let status = try entry.run(options)
            return Interruption.status ?? status
        } catch {
            remark(error.message, isQuiet: false)
            return Interruption.status ?? ExitStatus.failed
        }
    }
}
