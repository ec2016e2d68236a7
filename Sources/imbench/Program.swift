import Foundation

/// The program: the choice of a command by the command line.
struct Program: Sendable {
    let vocabulary: Vocabulary

    /// Does what the words after the program's name request, and returns the exit status. The status of an interrupted
    /// command is that of its signal.
    func run(_ words: [String]) -> Int32 {
        status {
            switch try OptionParser(vocabulary: vocabulary).parse(words) {
            case .help(let topic): try ReportTarget().write(HelpText.make(vocabulary, command: topic))
            case .version: try ReportTarget().write("imbench \(version)\n")
            case .run(let command): return run(command)
            }
            return ExitStatus.good
        }
    }

    /// Runs a command, and returns the exit status.
    func run<Given: RunnableCommand>(_ given: Given) -> Int32 {
        status {
            var command = given
            try command.prepare()
            if Given.command.isInterruptible { Interruption.listen() } else { Interruption.ignoreBrokenPipes() }
            let status = try command.run()
            return Interruption.status ?? status
        }
    }

    /// The status of a body, whose error is reported.
    private func status(_ body: () throws -> Int32) -> Int32 {
        do {
            return try body()
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
