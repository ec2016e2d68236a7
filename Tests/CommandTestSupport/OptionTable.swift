import Reporting

extension OptionDescription {
    /// The table of options in Markdown, as documents have it.
    package static func table(_ options: [OptionDescription]) -> [String] {
        let lines = options.map { option in
            let name = "--\(option.name)" + (option.placeholder.map { " " + $0 } ?? "")
            let isAll = option.standard == option.allowed.joined(separator: ",")
            let standard =
                option.placeholder == nil ? "off" : isAll && !option.standard.isEmpty ? "all" : option.standard
            let words = option.allowed.isEmpty ? "" : ": " + option.allowed.joined(separator: ", ")
            return "| `\(name)` | \(standard) | \(option.meaning)\(words) |"
        }
        return ["| option | default | meaning |", "|---|---|---|"] + lines
    }

    /// The tables of a program's commands, by their names in the page.
    package static func tables(_ vocabulary: Vocabulary) -> [(name: String, lines: [String])] {
        [("every command", table(GeneralOptions.list.descriptions))]
            + vocabulary.commands.map { command in
                (command.command.name, table(vocabulary.options(of: command).filter { $0.group != .general }))
            }
    }
}
