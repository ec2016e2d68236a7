/// A report as text for a terminal.
enum TextRenderer {
    static func text(_ report: Report, _ style: Style) -> String {
        var text = report.warnings.map { style.red($0) + "\n" }.joined() + style.bold(report.title) + "\n"
        for (name, value) in report.facts { text += style.dim(name.padded(to: 10)) + " " + value + "\n" }
        for section in report.sections {
            text += "\n"
            if let heading = section.heading { text += style.bold(heading) + "\n" }
            text += section.table?.plain(style) ?? ""
            for line in section.drawing + section.notes { text += line + "\n" }
        }
        return text
    }
}
