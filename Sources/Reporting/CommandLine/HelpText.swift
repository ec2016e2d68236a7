/// The help text, generated from the declarations of the options.
package enum HelpText {
    private static let width = TextRenderer.Page().width
    /// The column of the explanations.
    private static let column = 20
    /// The same in the list of all commands.
    private static let overviewColumn = 16

    /// The help of one command, or the list of all commands.
    package static func make(_ vocabulary: Vocabulary, command: (any RunnableCommand.Type)?) -> String {
        let lines = command.map { text(of: $0, vocabulary) } ?? overview(vocabulary)
        return (lines + ["", "Exit status"] + entries(statuses)).joined(separator: "\n") + "\n"
    }

    private static func overview(_ vocabulary: Vocabulary) -> [String] {
        var lines = ["\(vocabulary.program) \(version): \(vocabulary.purpose)", ""]
        lines += ["Usage: \(vocabulary.program) [COMMAND] [OPTIONS]"]
        let standard = vocabulary.commands.first?.command.name
        var groups = vocabulary.groups.map { group in
            (group.question, group.entries.map { ($0.command.command.name, $0.answer) })
        }
        groups.append(
            (
                "How do I go on?",
                [
                    ("help COMMAND", "its options, with examples"),
                    ("version", "versions of this program and of the libraries that it finds"),
                ]
            )
        )
        for (question, entries) in groups {
            lines += ["", question]
            lines += entries.flatMap { name, answer in
                entry(name, answer + (name == standard ? " (the default)" : ""), indent: 2, column: overviewColumn)
            }
        }
        let options = GeneralOptions.list.descriptions.map { "--" + $0.name }
        return lines + ["", "Every command also takes \(options.joined(separator: ", "))."]
    }

    private static func text(of type: any RunnableCommand.Type, _ vocabulary: Vocabulary) -> [String] {
        let command = type.command
        let argument = command.argument.map { " " + $0 } ?? ""
        var lines = "\(vocabulary.program) \(command.name): \(command.summary)".wrapped(to: width)
        lines += ["", "Usage: \(vocabulary.program) \(command.name)\(argument) [OPTIONS]"]
        let options = vocabulary.options(of: type)
        for group in OptionGroup.allCases {
            let own = options.filter { $0.group == group }
            if !own.isEmpty { lines += ["", group.rawValue] + entries(own.map(entry)) }
        }
        let values = placeholders.filter { name, _ in options.contains { $0.placeholder == name } }
        if !values.isEmpty { lines += ["", "Values"] + entries(values) }
        lines += ["", "Examples"]
        for example in command.examples { lines += ["  " + example.line, "      " + example.effect] }
        return lines
    }

    /// The values that are written alike in several options.
    private static let placeholders = [
        ("TIME", "a number with its unit: ns, us, ms, s, m or h, as in 250ms"),
        ("LIST", "values with commas between them, as in a,b"),
        ("BYTES", "bytes, or a number with its unit, as in 64KiB or 1MB"),
        ("SHARE", "a number from 0 to 1, or a percentage, as in 2%"),
        ("URL", "SCHEME://HOST:PORT/PATH?OPTION=VALUE (Docs/reference/urls.md)"),
    ]

    private static let statuses = [
        ("0", "good"), ("1", "a run failed, or its accounts do not close"), ("64", "wrong usage"),
        ("99", "an --assert, or a check of the command, did not hold"), ("130", "interrupted by Ctrl-C"),
    ]

    private static func entry(_ option: OptionDescription) -> (String, String) {
        let term = "--\(option.name)" + (option.placeholder.map { " \($0)" } ?? "")
        var text = option.meaning
        if !option.allowed.isEmpty { text += ": " + option.allowed.joined(separator: ", ") }
        if option.placeholder != nil, !option.standard.isEmpty {
            let isAll = option.standard == option.allowed.joined(separator: ",")
            text += " (default: \(isAll ? "all" : option.standard))"
        }
        return (term, text)
    }

    /// Terms in one column, their wrapped explanations in another.
    private static func entries(_ entries: [(String, String)]) -> [String] {
        entries.flatMap { entry($0, $1, indent: 2, column: column) }
    }

    /// A term, and its explanation beside it from `column` on, or below it if the term is too long.
    package static func entry(_ term: String, _ text: String, indent: Int, column: Int) -> [String] {
        let space = String(repeating: " ", count: column)
        let name = String(repeating: " ", count: indent) + term
        let wrapped = text.wrapped(to: width - column)
        guard name.count <= column - 2, let first = wrapped.first else { return [name] + wrapped.map { space + $0 } }
        return [name.padded(to: column) + first] + wrapped.dropFirst().map { space + $0 }
    }
}
