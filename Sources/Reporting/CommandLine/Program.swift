import CommandSupport
import Foundation

/// The program: the choice of a command by the command line.
package struct Program: Sendable {
    package let vocabulary: Vocabulary

    package init(vocabulary: Vocabulary) {
        self.vocabulary = vocabulary
    }

    /// Does what the words after the program's name request, and returns the exit status. The status of an interrupted
    /// command is that of its signal.
    package func run(_ words: [String]) -> Int32 {
        status {
            switch try OptionParser(vocabulary: vocabulary).parse(words) {
            case .help(let topic): try ReportTarget().write(HelpText.make(vocabulary, command: topic))
            case .version:
                try ReportTarget().write(VersionText.make(vocabulary.program, .current(), SystemLibrary.all))
            case .run(let command): return run(command)
            }
            return ExitStatus.good
        }
    }

    /// Runs a command, and returns the exit status.
    package func run<Given: RunnableCommand>(_ given: Given) -> Int32 {
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
