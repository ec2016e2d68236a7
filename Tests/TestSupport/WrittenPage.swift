import Foundation

/// A page of the documentation with tables that are written from the code. A comment before each one names it:
/// `<!-- options: NAME -->`.
package struct WrittenPage {
    private let path: String
    package let text: String

    /// Reads a page of the folder Docs.
    package init(_ name: String, file: String = #filePath) throws {
        path = file.components(separatedBy: "/Tests/")[0] + "/Docs/" + name
        text = try String(contentsOfFile: path, encoding: .utf8)
    }

    /// The names of the tables, in their order.
    package var names: [String] {
        text.components(separatedBy: "<!-- options: ").dropFirst().map { $0.components(separatedBy: " -->")[0] }
    }

    /// Returns the text of the page with other tables. A table with an unknown name is dropped.
    package func with(_ tables: [(name: String, lines: [String])]) -> String {
        var parts = text.components(separatedBy: "<!-- options: ")
        for index in parts.indices.dropFirst() {
            let name = parts[index].components(separatedBy: " -->\n")[0]
            let rest = parts[index].dropFirst(name.count + " -->\n".count).split(
                separator: "\n",
                omittingEmptySubsequences: false
            ).drop { $0.hasPrefix("|") }
            let lines = tables.first { $0.name == name }?.lines ?? []
            parts[index] = "\(name) -->\n\((lines + rest.map(String.init)).joined(separator: "\n"))"
        }
        return parts.joined(separator: "<!-- options: ")
    }

    /// Returns the lines that the page lacks if it is not this text; `nil` if it is. With `IM_WRITE_TABLES` in the
    /// environment, the page is written instead.
    package func difference(from written: String) throws -> [Substring]? {
        if ProcessInfo.processInfo.environment["IM_WRITE_TABLES"] != nil {
            try written.write(toFile: path, atomically: true, encoding: .utf8)
            return nil
        }
        guard text != written else { return nil }
        let lines = Set(text.split(separator: "\n"))
        return written.split(separator: "\n").filter { !lines.contains($0) }
    }
}
