import SocketIO
import TestSupport
import Testing

/// The page of `imbench serve --chat` in Chromium where WebSocket does not reach the server.
@Suite("The chat page without WebSocket", .peer(Peers.browser), .serialized, .timeLimit(.minutes(5)), .ownThread)
struct ChatPageFallbackTests {
    /// Takes WebSocket from a page before its scripts run.
    private static let withoutWebSocket = "delete window.WebSocket"
    private static let isOpen = "element('pill').textContent === 'open'"

    private func say(_ text: String, on page: Chromium.Page) async throws {
        _ = try await page.value("(element('text').value = '\(text)', element('composer').requestSubmit())")
    }

    private func lines(_ text: String) -> String { "element('lines').innerText.includes('\(text)')" }

    /// The texts of the other members, in order.
    private static let others = "[...document.querySelectorAll('.other .body')].map(body => body.textContent).join()"

    /// Waits until the page is open, and returns what it says about its connection.
    private func state(_ page: Chromium.Page) async throws -> String? {
        try await page.wait(until: Self.isOpen)
        return try await page.value("element('state').textContent")
    }

    /// Lets both pages say something to each other.
    private func talk(_ round: String, _ ann: Chromium.Page, _ bob: Chromium.Page) async throws {
        try await say("Soup \(round)?", on: ann)
        try await bob.wait(until: lines("Soup \(round)?"))
        try await say("Salad \(round).", on: bob)
        try await ann.wait(until: lines("Salad \(round)."))
    }

    @Test("A page without WebSocket talks to one that has it, and a broken connection loses no message")
    func deleted() async throws {
        let server = try await Serving.start("ws://127.0.0.1:0/room", "--chat")
        let browser = try await Chromium.start()
        defer { browser.stop() }
        let url = "http://127.0.0.1:\(server.port)/"
        let ann = try await browser.open("\(url)?name=ann", running: Self.withoutWebSocket)
        #expect(try await state(ann) == "open over HTTP, new session")
        #expect(try await ann.value("typeof WebSocket") == "undefined")
        let bob = try await browser.open("\(url)?name=bob")
        #expect(try await state(bob) == "open over WebSocket, new session")
        try await talk("one", ann, bob)
        try await ann.wait(until: "document.querySelectorAll('.mark.confirmed').length === 1")
        try await ann.wait(until: "Number(element('trip-count').textContent) > 0")

        // Messages of a member that is offline, and of one whose connection breaks, arrive once.
        _ = try await ann.value("element('offline').click()")
        for text in ["first", "second", "third"] { try await say(text, on: ann) }
        _ = try await ann.value("element('offline').click()")
        try await bob.wait(until: lines("third"))
        _ = try await ann.value("element('break').click()")
        try await say("fourth", on: ann)
        try await bob.wait(until: lines("fourth"))
        #expect(try await bob.value(Self.others) == "Soup one?,first,second,third,fourth")
        #expect(try await state(ann) == "open over HTTP, session resumed")
        try await ann.wait(until: "element('unconfirmed').textContent === '0'")
        #expect(browser.scriptErrors.isEmpty)
    }

    @Test("Pages without WebSocket pass on hundreds of messages each way, once and in order")
    func many() async throws {
        let server = try await Serving.start("ws://127.0.0.1:0", "--chat")
        let browser = try await Chromium.start()
        defer { browser.stop() }
        let url = "http://127.0.0.1:\(server.port)/"
        var pages: [Chromium.Page] = []
        for name in ["ann", "bob"] {
            pages.append(try await browser.open("\(url)?name=\(name)", running: Self.withoutWebSocket))
            try await pages[pages.count - 1].wait(until: Self.isOpen)
        }
        // A page keeps 500 lines at least, and these are 480 with its own.
        for page in pages {
            _ = try await page.value(
                "(() => { for (let index = 0; index < 240; index++) conversation.typed('text ' + index) })()"
            )
        }
        for page in pages {
            try await page.wait(until: "element('unconfirmed').textContent === '0'")
            try await page.wait(until: "document.querySelectorAll('.other').length === 240")
            #expect(try await page.value(Self.others) == (0..<240).map { "text \($0)" }.joined(separator: ","))
            #expect(try await state(page) == "open over HTTP, new session")
        }
        #expect(browser.scriptErrors.isEmpty)
    }

    @Test("A page without WebSocket opens a new session after the restart of its server, and sends again what is lost")
    func restart() async throws {
        let port = try ReservedPort(isDatagram: false)
        let url = "ws://\(port.address)"
        var server = try await Serving.start(url, "--chat")
        let browser = try await Chromium.start()
        defer { browser.stop() }
        let ann = try await browser.open("http://\(port.address)/?name=ann", running: Self.withoutWebSocket)
        try await ann.wait(until: Self.isOpen)
        try await say("before", on: ann)
        try await ann.wait(until: "document.querySelector('.mark')?.textContent.startsWith('✓')")
        #expect(try await server.interrupt() == 130)
        try await ann.wait(until: "element('pill').textContent === 'waiting'")
        try await say("while away", on: ann)
        server = try await Serving.start(url, "--chat")
        try await ann.wait(until: "element('state').textContent === 'open over HTTP, new session'")
        let bob = try await browser.open("http://\(port.address)/?name=bob", running: Self.withoutWebSocket)
        try await bob.wait(until: lines("while away"))
        #expect(try await bob.value(Self.others) == "before,while away")
        #expect(browser.scriptErrors.isEmpty)
        withExtendedLifetime((port, server)) {}
    }

    @Test(
        "Behind nginx without upgrades, a page goes over requests, and keeps its session when nginx changes",
        .enabled(if: Peers.nginx != nil)
    )
    func nginx() async throws {
        let server = try await Serving.start("ws://127.0.0.1:0", "--chat")
        let proxy = try await MiddleboxProcess(.nginx, to: server.port, hasTLS: false)
        let browser = try await Chromium.start()
        defer { browser.stop() }
        let ann = try await browser.open("http://127.0.0.1:\(proxy.port)/?name=ann")
        #expect(try await state(ann) == "open over HTTP, new session")
        let bob = try await browser.open("http://127.0.0.1:\(server.port)/?name=bob")
        #expect(try await state(bob) == "open over WebSocket, new session")
        try await talk("one", ann, bob)
        // nginx has answered no request that receives: the event stream is still open.
        #expect(try proxy.requests() == [])

        try await proxy.become(.nginxCollecting)
        try await talk("two", ann, bob)
        // nginx passes no event any more, so the page polls.
        _ = try await ann.value("element('break').click()")
        try await say("Soup three?", on: ann)
        try await bob.wait(until: lines("Soup three?"))
        try await say("Salad three.", on: bob)
        try await ann.wait(until: lines("Salad three."))
        #expect(try proxy.requests().contains("long-poll 200"))
        #expect(try await ann.value(Self.others) == "Salad one.,Salad two.,Salad three.")
        #expect(try await bob.value(Self.others) == "Soup one?,Soup two?,Soup three?")
        #expect(browser.scriptErrors.isEmpty)
    }
}
