/// A table as CSV (RFC 4180), for spreadsheets and scripts: a line of names, and one line per row. What was not measured is
/// an empty field.
enum CSVRenderer {
    static func text(_ table: Table) -> String {
        let lines = table.rows.map { row in
            zip(table.columns, row.cells).compactMap { $0.name == nil ? nil : field($1.value) }
        }
        return ([table.columns.compactMap(\.name)] + lines).map { line in
            line.map(quoted).joined(separator: ",") + "\r\n"
        }.joined()
    }

    private static func field(_ value: JSONValue) -> String {
        switch value {
        case .null: ""
        case .string(let text): text
        default: value.text
        }
    }

    /// Quotes a field that has a comma, a quotation mark, CR or LF.
    private static func quoted(_ field: String) -> String {
        guard field.unicodeScalars.contains(where: { "\",\r\n".unicodeScalars.contains($0) }) else { return field }
        return "\"" + field.unicodeScalars.map { $0 == "\"" ? "\"\"" : String($0) }.joined() + "\""
    }
}
