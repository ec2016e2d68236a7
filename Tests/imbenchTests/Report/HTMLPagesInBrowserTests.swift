import TestSupport
import Testing

@testable import CommandSupport
@testable import Reporting
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
                let defects = try await page.value(Self.defects)
                #expect(defects == "", "\(report.name), \(isDark ? "dark" : "light")")
                let background = try await page.value("getComputedStyle(document.body).backgroundColor")
                backgrounds.append(try #require(background))
            }
            #expect(backgrounds[0] != backgrounds[1], "\(report.name)")
            for order in ["ascending", "descending", "null"] {
                #expect(try await page.value(Self.click) == order, "\(report.name)")
            }
            #expect(try await page.value("document.querySelector('a.save').protocol") == "blob:", "\(report.name)")
            #expect(try await page.value("performance.getEntriesByType('resource').length") == "0", "\(report.name)")
        }
        #expect(browser.scriptErrors.isEmpty, "\(browser.scriptErrors)")
    }

    @Test("A sorted table shows each label where it begins, and keeps a reason below its row")
    func sorts() async throws {
        try await withPage(Self.results(4)) { (page) async throws in
            #expect(try await page.value(Self.rows()) == "tcp,a,1|,b,4|ws,a,3|,b|no reply")
            let sort = "document.querySelectorAll('thead button')[2].click()"
            #expect(try await page.value(Self.rows(after: sort)) == "tcp,a,1|ws,a,3|tcp,b,4|ws,b|no reply")
            #expect(try await page.value(Self.rows(after: sort)) == "tcp,b,4|ws,a,3|tcp,a,1|ws,b|no reply")
            #expect(try await page.value(Self.rows(after: sort)) == "tcp,a,1|,b,4|ws,a,3|,b|no reply")
            #expect(try await page.value("document.querySelectorAll('input').length") == "0")
        }
    }

    @Test("A table of many rows is filtered by words, with its reasons, and stays sorted")
    func filters() async throws {
        try await withPage(Self.results(9)) { (page) async throws in
            func filter(_ words: String) -> String {
                "(field => { field.value = '\(words)'; field.dispatchEvent(new Event('input')) })"
                    + "(document.querySelector('input'))"
            }
            let sort = "document.querySelectorAll('thead button')[2].click()"
            #expect(try await page.value(Self.rows(after: filter("WS a"))) == "ws,a,3")
            #expect(try await page.value("document.querySelector('output').value") == "1 of 9 rows")
            #expect(try await page.value(Self.rows(after: filter("reply"))) == "ws,b|no reply")
            #expect(try await page.value(Self.rows(after: "\(sort), \(sort), \(filter("tcp"))")) == "tcp,b,4|,a,1")
            #expect(try await page.value(Self.rows(after: filter("nowhere"))) == "")
            #expect(try await page.value("(\(filter("")), document.querySelector('output').value)") == "")
        }
    }

    @Test("A link to a folded section opens it")
    func folds() async throws {
        try await withPage(Self.results(4)) { (page) async throws in
            let isOpen = "document.getElementById('more').open"
            #expect(try await page.value(isOpen) == "false")
            _ = try await page.value("document.querySelector('#more a').click()")
            try await page.wait(until: isOpen)
        }
    }

    @Test("The JSON that a page saves is that of its report")
    func saves() async throws {
        try await withPage(Self.results(4)) { (page) async throws in
            #expect(try await page.value("document.querySelector('a.save').download") == "imbench-test.json")
            let text = "JSON.parse(document.getElementById('data').textContent).text"
            #expect(try await page.value(text) == "</script>&")
        }
    }

    /// Opens the page of a report in a window, and requires that it has no error.
    private func withPage(_ report: Report, _ body: (Chromium.Page) async throws -> Void) async throws {
        let folder = try ScratchFolder()
        let file = try folder.write("report.html", report.text(.html, .none))
        let browser = try await Chromium.start()
        defer { browser.stop() }
        let page = try await browser.open("file://\(file)")
        try await page.wait(until: "document.readyState === 'complete' && location.protocol === 'file:'")
        try await body(page)
        #expect(browser.scriptErrors.isEmpty, "\(browser.scriptErrors)")
    }

    /// A report with a table of `count` rows, of which the last of the first four has a reason, and with a folded section.
    private static func results(_ count: Int) -> Report {
        var table = Table(labels: 2, columns: [.text("transport"), .text("codec"), .number("p50")])
        table.rows = [("tcp", "a", 1), ("tcp", "b", 4), ("ws", "a", 3), ("ws", "b", 0)].map { name, codec, time in
            .init(cells: [.init(name), .init(codec), .init(time)], note: time == 0 ? "no reply" : nil)
        }
        for number in 4..<max(4, count) {
            table.rows.append(.init(cells: [.init("udp"), .init("c"), .init(number + 1)]))
        }
        return Report(
            name: "imbench test",
            title: "A test",
            trust: .exact,
            sections: [.init(heading: "Times", table: table), .init(heading: "More", isDetail: true)],
            records: Table(columns: []),
            data: .object([("text", .string("</script>&"))])
        )
    }

    /// The visible cells of the visible rows of the first table, after an expression.
    private static func rows(after expression: String = "0") -> String {
        "(\(expression), [...document.querySelector('tbody').rows].filter(row => !row.hidden).map(row => [...row.cells]"
            + ".filter(cell => cell.colSpan > 1 || cell.textContent)"
            + ".map(cell => getComputedStyle(cell).color === 'rgba(0, 0, 0, 0)' ? '' : cell.textContent).join()).join('|'))"
    }

    /// What a reader could not read or use, a line for each: parts beyond the window, texts of charts that overlap or leave
    /// their drawing, a contrast below 4.5 : 1 (WCAG 2.2, section 1.4.3), targets below 24 pixels (section 2.5.8), and
    /// parts that keys reach but that have no name (section 4.1.2). Folded parts are opened before.
    private static let defects = """
        (() => {
          for (const part of document.querySelectorAll("details")) part.open = true;
          const found = [];
          const add = (kind, part) => found.push(`${kind}: ${part.textContent.trim().slice(0, 40)}`);
          const isSeen = part => part.checkVisibility({ opacityProperty: true, visibilityProperty: true });
          const parts = [...document.body.querySelectorAll("*")].filter(isSeen);
          const scrolls = part => part.closest(".table, pre");
          for (const part of parts) {
            const box = part.getBoundingClientRect();
            if (!part.closest("svg") && !scrolls(part) && (box.left < -1 || box.right > innerWidth + 1)) add("beyond", part);
          }
          for (const svg of document.querySelectorAll("figure > svg")) {
            if (!isSeen(svg)) continue;
            const frame = svg.getBoundingClientRect();
            const texts = [...svg.querySelectorAll("text")].map(text => [text, text.getBoundingClientRect()]);
            texts.forEach(([text, box], index) => {
              if (box.left < frame.left - 3 || box.right > frame.right + 3) add("outside", text);
              for (const [, other] of texts.slice(index + 1)) {
                const across = Math.min(box.right, other.right) - Math.max(box.left, other.left);
                const along = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
                if (across > 2 && along > 4) add("overlaps", text);
              }
            });
          }
          const channels = colour => {
            const scale = colour.startsWith("color(") ? 255 : 1;
            const values = colour.replace("srgb", "").match(/[0-9.e-]+/g).map(Number);
            return [...values.slice(0, 3).map(value => value * scale), values[3] ?? 1];
          };
          const over = (top, below) => below.map((value, index) => top[index] * top[3] + value * (1 - top[3]));
          const ground = part => part
            ? over(channels(getComputedStyle(part).backgroundColor), ground(part.parentElement)) : [255, 255, 255];
          const light = colour => colour.map(value => value / 255)
            .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
            .reduce((sum, value, index) => sum + value * [0.2126, 0.7152, 0.0722][index], 0);
          for (const part of parts) {
            if (![...part.childNodes].some(node => node.nodeType === 3 && node.textContent.trim())) continue;
            const style = getComputedStyle(part);
            const colour = channels(part.closest("svg") ? style.fill : style.color);
            if (colour[3] === 0 || part.closest("script, title")) continue;
            for (let owner = part; owner; owner = owner.parentElement) colour[3] *= getComputedStyle(owner).opacity;
            const below = ground(part);
            const [dark, bright] = [light(over(colour, below)), light(below)].sort((a, b) => a - b);
            if ((bright + 0.05) / (dark + 0.05) < 4.5) add("contrast", part);
          }
          for (const part of document.querySelectorAll("a, button, input, summary")) {
            if (isSeen(part) && part.getBoundingClientRect().height < 23.9) add("target", part);
          }
          for (const part of document.querySelectorAll("[tabindex]")) if (!part.ariaLabel) add("no name", part);
          return [...new Set(found)].join("\\n");
        })()
        """

    /// Whether the page is loaded, and has the width and the colours.
    private static func isShown(_ width: Int, _ isDark: Bool) -> String {
        "document.readyState === 'complete' && location.protocol === 'file:' && innerWidth === \(width) "
            + "&& matchMedia('(prefers-color-scheme: dark)').matches === \(isDark)"
    }

    /// Clicks the first heading of a table, and gives its order.
    private static let click =
        "(document.querySelector('thead th button').click(), document.querySelector('thead th').getAttribute('aria-sort'))"
}
