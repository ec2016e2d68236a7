import CommandSupport
import Reporting

extension OptionParser {
    /// Reads a line of one command.
    package func parse<Parsed: RunnableCommand>(_ words: [String], as _: Parsed.Type) throws(UsageError) -> Parsed {
        guard case .run(let command) = try parse(words), let parsed = command as? Parsed else {
            throw UsageError("the line is not one of '\(Parsed.command.name)'")
        }
        return parsed
    }
}
