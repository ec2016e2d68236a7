/// The help text, generated from the parser's table.
enum HelpText {
    private static let width = 100

    /// The help for all commands, or for one.
    static func make(_ vocabulary: Vocabulary, command: Command?) -> String {
        var lines = ["imbench \(version): the cost of a chat message on each transport, on this machine", ""]
        if let command {
            let argument = command.argument.map { " " + $0 } ?? ""
            lines += ["usage: imbench \(command.rawValue)\(argument) [options]", ""]
            lines += wrap(command.summary.prefix(1).uppercased() + command.summary.dropFirst() + ".", width)
        } else {
            lines += ["usage: imbench [command] [options]", "", "Commands"]
            lines += entries(vocabulary.commands.map { ($0.rawValue, $0.summary) })
        }
        for group in OptionRow.Group.allCases {
            let rows = OptionTable.rows.filter { row in
                row.group == group
                    && row.commands.contains(where: command.map { [$0] }?.contains ?? vocabulary.commands.contains)
            }
            guard !rows.isEmpty else { continue }
            lines += ["", group.rawValue]
            lines += entries(rows.map { entry($0, vocabulary) })
        }
        lines += ["", "Status"]
        lines += entries([
            ("0", "good"), ("1", "a run failed, or its accounts do not close"), ("64", "wrong usage"),
            ("99", "an --assert, or a check of the command, did not hold"), ("130", "interrupted by Ctrl-C"),
        ])
        return lines.joined(separator: "\n") + "\n"
    }

    private static func entry(_ row: OptionRow, _ vocabulary: Vocabulary) -> (String, String) {
        let term = "--\(row.name)" + (row.placeholder.map { " \($0)" } ?? "")
        let allowed = row.allowed(vocabulary)
        var text = row.summary
        if !allowed.isEmpty { text += ": " + allowed.joined(separator: ", ") }
        if row.placeholder != nil, let standard = row.shown(Options(vocabulary)),
            standard != allowed.joined(separator: ",")
        {
            text += " (default \(standard))"
        }
        return (term, text)
    }

    /// Terms in one column, their wrapped explanations in another.
    private static func entries(_ entries: [(term: String, text: String)]) -> [String] {
        let column = 22
        return entries.flatMap { term, text in
            let wrapped = wrap(text, width - column)
            let first = "  " + term.padded(to: column - 3) + " " + (wrapped.first ?? "")
            return [first] + wrapped.dropFirst().map { String(repeating: " ", count: column) + $0 }
        }
    }

    /// Breaks a text into lines of at most `width` characters at its spaces.
    private static func wrap(_ text: String, _ width: Int) -> [String] {
        var lines: [String] = []
        var line = ""
        for word in text.split(separator: " ") {
            if !line.isEmpty, line.count + 1 + word.count > width {
                lines.append(line)
                line = ""
            }
            line += line.isEmpty ? String(word) : " " + word
        }
        return line.isEmpty ? lines : lines + [line]
    }
}
