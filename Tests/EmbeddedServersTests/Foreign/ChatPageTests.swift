import Foundation
import SocketIO
import TestSupport
import Testing

/// The page of `imbench serve --chat` in Chromium, as a user opens it.
@Suite(
    "The chat page in a browser",
    .peer(Peers.browser),
    .serialized,
    .timeLimit(.minutes(5)),
    .ownThread
)
struct ChatPageTests {
    private static let isOpen = "element('pill').textContent === 'open'"

    private func say(_ text: String, on page: Chromium.Page) async throws {
        _ = try await page.value("(element('text').value = '\(text)', element('composer').requestSubmit())")
    }

    private func lines(_ text: String) -> String { "element('lines').innerText.includes('\(text)')" }

    @Test("Two pages talk to each other, texts are no markup, and a broken connection loses no message")
    func conversation() async throws {
        let server = try await Serving.start("ws://127.0.0.1:0/room", "--chat")
        let browser = try await Chromium.start()
        defer { browser.stop() }
        let ann = try await browser.open("http://127.0.0.1:\(server.port)/?name=ann")
        try await ann.wait(until: Self.isOpen)
        let bob = try await browser.open("http://127.0.0.1:\(server.port)/?name=bob")
        try await bob.wait(until: Self.isOpen)
        try await say("Soup <b id=evil>or</b> salad?", on: ann)
        try await bob.wait(until: lines("Soup <b id=evil>or</b> salad?"))
        #expect(try await bob.value("document.getElementById('evil') === null") == "true")
        try await say("Soup.", on: bob)
        try await ann.wait(until: lines("Soup."))
        try await ann.wait(until: "document.querySelectorAll('.mark.confirmed').length === 1")
        try await ann.wait(until: "Number(element('trip-count').textContent) > 0")
        #expect(try await ann.value("Number(element('sent-text').textContent) >= 29") == "true")

        // Messages of an offline member, and of one whose connection breaks, arrive once.
        _ = try await ann.value("element('offline').click()")
        try await say("one", on: ann)
        try await say("two", on: ann)
        #expect(try await ann.value("element('unconfirmed').textContent") == "2")
        _ = try await ann.value("element('offline').click()")
        try await bob.wait(until: lines("two"))
        _ = try await ann.value("element('break').click()")
        try await say("three", on: ann)
        try await bob.wait(until: lines("three"))
        try await ann.wait(until: "element('reconnects').textContent === '2'")
        let texts = "[...document.querySelectorAll('.other .body')].map(body => body.textContent).slice(1).join()"
        #expect(try await bob.value(texts) == "one,two,three")
        try await ann.wait(until: "element('unconfirmed').textContent === '0'")
        #expect(browser.scriptErrors.isEmpty)
    }

    @Test("A page reconnects after the restart of its server, and sends again what the server has forgotten")
    func restart() async throws {
        let port = try ReservedPort(isDatagram: false)
        let url = "ws://\(port.address)"
        var server = try await Serving.start(url, "--chat")
        let browser = try await Chromium.start()
        defer { browser.stop() }
        let ann = try await browser.open("http://\(port.address)/?name=ann")
        try await ann.wait(until: Self.isOpen)
        try await say("before", on: ann)
        try await ann.wait(until: "document.querySelector('.mark')?.textContent.startsWith('✓')")
        #expect(try await server.interrupt() == 130)
        try await ann.wait(until: "element('pill').textContent === 'waiting'")
        try await say("while away", on: ann)
        server = try await Serving.start(url, "--chat")
        try await ann.wait(until: "element('state').textContent === 'open, new session'")
        let bob = try await browser.open("http://\(port.address)/?name=bob")
        try await bob.wait(until: lines("while away"))
        try await ann.wait(until: "document.querySelectorAll('.mark.confirmed').length === 2")
        let texts = "[...document.querySelectorAll('.other .body')].map(body => body.textContent).join()"
        #expect(try await bob.value(texts) == "before,while away")
        #expect(browser.scriptErrors.isEmpty)
        withExtendedLifetime((port, server)) {}
    }

    @Test("A message of wrong types stops no page: the session goes on, and the next message is shown")
    func wrongTypes() async throws {
        let server = try await Serving.start("ws://127.0.0.1:0", "--chat")
        let browser = try await Chromium.start()
        defer { browser.stop() }
        let ann = try await browser.open("http://127.0.0.1:\(server.port)/?name=ann")
        try await ann.wait(until: Self.isOpen)
        let eve = try await browser.open("http://127.0.0.1:\(server.port)/?name=eve")
        try await eve.wait(until: Self.isOpen)
        for (kind, field) in [
            ("KIND_RECEIPT", #""replyTo":{"toString":1}"#), ("KIND_TEXT", #""attributes":{"after":{"toString":1}}"#),
            ("KIND_SYSTEM", #""attributes":{"event":["here"]}"#),
            ("KIND_TEXT", #""text":"x","sentAtMs":{"valueOf":1}"#),
        ] {
            let message = #"{"conversation":"lobby","kind":"\#(kind)",\#(field)}"#
            _ = try await eve.value("session.send(encoder.encode('\(message)'), 0, null)")
        }
        try await say("still here", on: eve)
        try await ann.wait(until: lines("still here"))
        try await eve.wait(until: "document.querySelectorAll('.mark.confirmed').length === 1")
        #expect(browser.scriptErrors.isEmpty)
    }

    @Test("Mutated messages and frames leave the page's lists within their limits and its session alive")
    func mutated() async throws {
        let server = try await Serving.start("ws://127.0.0.1:0", "--chat")
        let browser = try await Chromium.start()
        defer { browser.stop() }
        let page = try await browser.open("http://127.0.0.1:\(server.port)/")
        try await page.wait(until: Self.isOpen)
        let script = try String(contentsOfFile: "\(Foreign.support)/fuzz-page.js", encoding: .utf8)
        let start = try #require(script.firstRange(of: "async (")).lowerBound
        // IM_PAGE_ROUNDS makes a longer run.
        let rounds = ProcessInfo.processInfo.environment["IM_PAGE_ROUNDS"].flatMap { Int($0) } ?? 1500
        let seed = UInt32.random(in: 0...UInt32.max)
        let verdict = try await page.value("(\(script[start...]))(\(seed), \(rounds))")
        #expect(verdict == "ok", "seed \(seed)")
    }

    @Test("The policy of the page allows its own scripts and its own server, and nothing else")
    func policy() async throws {
        let (server, other) = (
            try await Serving.start("ws://127.0.0.1:0", "--chat"),
            try await Serving.start("ws://127.0.0.1:0/?origins=any", "--chat")
        )
        let browser = try await Chromium.start()
        defer { browser.stop() }
        let page = try await browser.open("http://127.0.0.1:\(server.port)/")
        try await page.wait(until: Self.isOpen)
        // In each case, the browser reports the violated directive.
        for (attempt, directive) in [
            (
                "document.body.append(Object.assign(document.createElement('script'), { textContent: 'evil = 1' }))",
                "script-src"
            ),
            ("new WebSocket('ws://127.0.0.1:\(other.port)/')", "connect-src"),
            ("document.body.append(Object.assign(new Image(), { src: 'http://127.0.0.1:\(other.port)/' }))", "img-src"),
        ] {
            let violation = """
                new Promise(done => {
                    addEventListener("securitypolicyviolation", event => done(event.effectiveDirective), { once: true })
                    try { \(attempt) } catch {}
                })
                """
            #expect(try await page.value(violation)?.hasPrefix(directive) == true)
        }
        #expect(try await page.value("typeof evil") == "undefined")
    }
}
