import CommandTestSupport
import TestSupport
import Testing

@testable import Reporting
@testable import imbench

/// The tables of Docs/reference/imbench.md come from the declarations of the options.
@Suite("The documented options of imbench")
struct OptionReferenceTests {
    @Test("The page has a table of each command, as the code declares its options", .enabled(if: hasOpenSSL))
    func page() throws {
        let page = try WrittenPage("reference/imbench.md")
        let tables = OptionDescription.tables(.measured)
        #expect(page.names == tables.map(\.name))
        let missing = try page.difference(from: page.with(tables))
        #expect(
            missing == nil,
            "write it again: IM_WRITE_TABLES=1 swift test --filter OptionReference; missing: \(missing ?? [])"
        )
    }
}
