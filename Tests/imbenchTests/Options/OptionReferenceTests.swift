import TestSupport
import Testing

@testable import imbench

/// The tables of Docs/reference/imbench.md come from the declarations of the options.
@Suite("The documented options of imbench")
struct OptionReferenceTests {
    /// Returns the table in Markdown.
    private static func markdown(_ options: [OptionDescription]) -> [String] {
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

    @Test("The page has a table of each command, as the code declares its options", .enabled(if: hasOpenSSL))
    func page() throws {
        let page = try WrittenPage("reference/imbench.md")
        #expect(page.names == ["every command"] + Command.allCases.map(\.rawValue))
        var tables: [(name: String, lines: [String])] = [
            ("every command", Self.markdown(GeneralOptions.list.descriptions))
        ]
        for command in Command.allCases {
            let own = command.options(.measured).filter { $0.group != .general }
            tables.append((command.rawValue, Self.markdown(own)))
        }
        let missing = try page.difference(from: page.with(tables))
        #expect(
            missing == nil,
            "write it again: IM_WRITE_TABLES=1 swift test --filter OptionReference; missing: \(missing ?? [])"
        )
    }
}
