import TestSupport
import Testing

@testable import imbench

/// The pages of all sample reports in Chromium, as a reader opens them from a disk.
@Suite(
    "Reports in a browser",
    .peer(Peers.browser),
    .serialized,
    .timeLimit(.minutes(5)),
    .ownThread
)
struct HTMLPagesInBrowserTests {
    @Test(
        "A page fits into a narrow and a wide window, in light and dark, sorts its tables, loads nothing and has no error",
        arguments: [390, 1280]
    )
    func pages(width: Int) async throws {
        let folder = try ScratchFolder()
        let browser = try await Chromium.start()
        defer { browser.stop() }
        for (number, report) in try sampleReports(hostile: "<script>alert(1)</script>").enumerated() {
            let file = try folder.write("\(number).html", report.text(.html, .none))
            let page = try await browser.open("file://\(file)")
            var backgrounds: [String] = []
            for isDark in [false, true] {
                try await page.show(width: width, isDark: isDark)
                try await page.wait(until: Self.isShown(width, isDark))
                let fits = try await page.value("document.documentElement.scrollWidth <= innerWidth")
                #expect(fits == "true", "\(report.name), \(isDark ? "dark" : "light")")
                let background = try await page.value("getComputedStyle(document.body).backgroundColor")
                backgrounds.append(try #require(background))
            }
            #expect(backgrounds[0] != backgrounds[1], "\(report.name)")
            for order in ["ascending", "descending"] {
                #expect(try await page.value(Self.click) == order, "\(report.name)")
            }
            #expect(try await page.value("performance.getEntriesByType('resource').length") == "0", "\(report.name)")
        }
        #expect(browser.scriptErrors.isEmpty, "\(browser.scriptErrors)")
    }

    /// Whether the page is loaded, and has the width and the colours.
    private static func isShown(_ width: Int, _ isDark: Bool) -> String {
        "document.readyState === 'complete' && location.protocol === 'file:' && innerWidth === \(width) "
            + "&& matchMedia('(prefers-color-scheme: dark)').matches === \(isDark)"
    }

    /// Clicks the first heading of a table, and gives its order.
    private static let click =
        "(document.querySelector('thead th button').click(), document.querySelector('thead th').getAttribute('aria-sort'))"
}
