import Foundation

/// The program: its commands, and the choice of one by the command line.
struct Program: Sendable {
    /// One command, whose function returns the exit status.
    struct Entry: Sendable {
        var command: Command
        /// Whether the command checks ``Interruption`` and then ends early with its report. Ctrl-C ends any other command at
        /// once.
        var isInterruptible = true
        /// Throws a ``UsageError``, or a ``SystemFailure`` if the command failed.
        var run: @Sendable (Options) throws -> Int32
    }

    let vocabulary: Vocabulary
    private let entries: [Entry]

    /// A program of these commands, the first of which is the default, for these transports and codecs.
    init(
        _ entries: [Entry],
        transports: [String],
        defaultTransports: [String],
        local: [String] = [],
        modes: [String] = [],
        codecs: [String]
    ) {
        self.entries = entries
        vocabulary = Vocabulary(
            commands: entries.map(\.command),
            transports: transports,
            defaultTransports: defaultTransports,
            codecs: codecs,
            local: local,
            modes: modes
        )
    }

    /// Runs the command in the words after the program's name, and returns the exit status. The status of an interrupted
    /// command is that of its signal.
    func run(_ words: [String]) -> Int32 {
        do {
            var options = try OptionParser(vocabulary: vocabulary).parse(words)
            if options.wantsHelp || options.wantsVersion {
                let help = HelpText.make(vocabulary, command: options.helpTopic)
                try ReportTarget().write(options.wantsHelp ? help : "imbench \(version)\n")
                return ExitStatus.good
            }
            // A process with threads cannot move.
            if !options.networks.isEmpty { try NetworkLab.isolateProcess() }
            if options.command == .heartbeat { options.heartbeat.refusal = NetworkLab.refusal() }
            guard let entry = entries.first(where: { $0.command == options.command }) else { return ExitStatus.usage }
            if entry.isInterruptible { Interruption.listen() } else { Interruption.ignoreBrokenPipes() }
            let status = try entry.run(options)
            return Interruption.status ?? status
        } catch let error as UsageError {
            remark(error.message)
            return ExitStatus.usage
        } catch {
            remark((error as? SystemFailure)?.message ?? "\(error)")
            return Interruption.status ?? ExitStatus.failed
        }
    }
}

/// The status with which the program ends, if no signal interrupts it (``Interruption/status``).
enum ExitStatus {
    static let good: Int32 = 0
    /// A run failed, or its accounts do not close.
    static let failed: Int32 = 1
    /// Wrong usage.
    static let usage: Int32 = 64
    /// An `--assert` did not hold.
    static let assertion: Int32 = 99
}
