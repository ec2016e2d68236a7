import Codecs
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

    /// Opens the page with a name and waits for its connection.
    private func enter(_ name: String, _ server: Serving, _ browser: Chromium) async throws -> Chromium.Page {
        let page = try await browser.open("http://127.0.0.1:\(server.port)/?name=\(name)")
        try await page.wait(until: Self.isOpen)
        return page
    }

    @Test(
        "Marks count the members that have read a message, also one that leaves later, and not one that leaves before"
    )
    func readers() async throws {
        let server = try await Serving.start("ws://127.0.0.1:0", "--chat")
        let browser = try await Chromium.start()
        defer { browser.stop() }
        let ann = try await enter("ann", server, browser)
        let (bob, carol) = (try await enter("bob", server, browser), try await enter("carol", server, browser))
        try await ann.wait(until: lines("carol is here"))
        _ = try await bob.value("element('offline').click()")
        func mark(_ number: Int, _ text: String) -> String {
            "document.querySelectorAll('.mark')[\(number)]?.textContent.startsWith('✓✓ read by \(text),')"
        }
        // The newest member knows those who were there.
        for page in [ann, carol] {
            try await say("hi", on: page)
            try await page.wait(until: mark(0, "1 of 2"))
        }
        _ = try await bob.value("element('offline').click()")
        for page in [ann, carol] { try await page.wait(until: mark(0, "2 of 2")) }
        #expect(try await ann.value("document.querySelector('.mark').title") == "carol, bob")
        _ = try await bob.value("element('offline').click()")
        try await say("ho", on: ann)
        try await ann.wait(until: mark(1, "1 of 2"))
        _ = try await carol.value("location.replace('about:blank')")
        try await ann.wait(until: lines("carol has left"))
        #expect(try await ann.value(mark(0, "2 of 2")) == "true")
        #expect(try await ann.value(mark(1, "1 of 2")) == "true")
        _ = try await bob.value("element('offline').click()")
        try await ann.wait(until: mark(1, "2 of 2"))
        _ = try await bob.value("location.replace('about:blank')")
        try await ann.wait(until: lines("bob has left"))
        try await say("hm", on: ann)
        try await ann.wait(until: "document.querySelectorAll('.mark')[2]?.textContent.startsWith('✓ ')")
        let dave = try await enter("dave", server, browser)
        try await ann.wait(until: mark(2, "1 of 1"))
        try await dave.wait(until: "conversation.members.size === 1")
        #expect(browser.scriptErrors.isEmpty)
    }

    @Test("A member that comes late sees the history at once and in order, and above the newest message")
    func longHistory() async throws {
        let server = try await Serving.start("ws://127.0.0.1:0", "--chat")
        let browser = try await Chromium.start()
        defer { browser.stop() }
        let (ann, carol) = (try await enter("ann", server, browser), try await enter("carol", server, browser))
        // Ann writes 250 messages before any receipt arrives, so each names the one before it. The room stores 200.
        _ = try await ann.value(
            "(() => { for (let index = 0; index < 250; index++) conversation.typed('text ' + index) })()"
        )
        try await carol.wait(until: lines("text 249"))
        _ = try await ann.value("location.replace('about:blank')")
        let bob = try await enter("bob", server, browser)
        try await carol.wait(until: lines("bob is here"))
        try await say("newest", on: carol)
        try await bob.wait(until: lines("newest"))
        let texts = "[...document.querySelectorAll('.other .body')].map(body => body.textContent).join()"
        #expect(try await bob.value(texts) == (50..<250).map { "text \($0)," }.joined() + "newest")
        #expect(browser.scriptErrors.isEmpty)
    }

    @Test("Messages and inputs have lines, and the direction of their script; Enter sends, and Shift+Enter does not")
    func texts() async throws {
        let server = try await Serving.start("ws://127.0.0.1:0", "--chat")
        let browser = try await Chromium.start()
        defer { browser.stop() }
        let (ann, bob) = (try await enter("ann", server, browser), try await enter("bob", server, browser))
        func press(_ key: String) async throws {
            let event = "new KeyboardEvent('keydown', { key: 'Enter', cancelable: true, bubbles: true, \(key) })"
            _ = try await ann.value("element('text').dispatchEvent(\(event))")
        }
        let height = try await ann.value("element('text').offsetHeight")
        _ = try await ann.value(
            "(element('text').value = 'one\\n\\ttwo', element('text').dispatchEvent(new Event('input')))"
        )
        #expect(try await ann.value("element('text').offsetHeight > \(height ?? "")") == "true")
        try await press("shiftKey: true")
        try await press("isComposing: true")
        #expect(try await ann.value("element('text').value") == "one\n\ttwo")
        try await press("shiftKey: false")
        try await ann.wait(until: "element('text').value === ''")
        #expect(try await ann.value("element('text').offsetHeight === \(height ?? "")") == "true")
        try await bob.wait(until: lines("two"))
        #expect(try await bob.value("document.querySelector('.other .body').textContent") == "one\n\ttwo")
        #expect(try await bob.value("document.querySelector('.other .body').getClientRects()[0].height > 35") == "true")

        func direction(_ selector: String) -> String {
            "getComputedStyle([...document.querySelectorAll('\(selector)')].pop()).direction"
        }
        for (text, expected) in [("שלום, John!", "rtl"), ("Hello, שלום", "ltr"), ("123 مرحبا", "rtl")] {
            for input in ["text", "name"] {
                _ = try await ann.value(
                    "(element('\(input)').value = '\(text)', element('\(input)').dispatchEvent(new Event('change')))"
                )
                #expect(try await ann.value(direction("#\(input)")) == expected)
            }
            try await say(text, on: ann)
            try await bob.wait(until: lines(text))
            for selector in [".other .body", ".other .sender"] {
                #expect(try await bob.value(direction(selector)) == expected)
            }
            #expect(try await ann.value(direction(".own .body")) == expected)
        }
        // A control character of another program is shown as what it is, in a name also a line feed.
        _ = try await ann.value(
            "conversation.name = 'a\\nb', conversation.typed('x\\u0007\\r\\ny' + '\\n'.repeat(1000))"
        )
        try await bob.wait(until: lines("x\u{fffd}"))
        #expect(
            try await bob.value("[...document.querySelectorAll('.other .sender')].pop().textContent") == "a\u{fffd}b"
        )
        let rows = try await bob.value(
            "[...document.querySelectorAll('.other .body')].pop().textContent.split('\\n').length"
        )
        #expect(rows == "101")
        #expect(browser.scriptErrors.isEmpty)
    }

    @Test("What a reader reads stays in its place while older lines are removed, and a button counts the new messages")
    func reading() async throws {
        let server = try await Serving.start("ws://127.0.0.1:0", "--chat")
        let browser = try await Chromium.start()
        defer { browser.stop() }
        let page = try await enter("ann", server, browser)
        func add(_ range: Range<Int>, _ kind: String = "other") async throws {
            let line = "view.\(kind)({ sender: 'bob', text: 'text ' + index, sentAtMs: 1 })"
            _ = try await page.value(
                "(() => { for (let index = \(range.lowerBound); index < \(range.upperBound); index++) \(line) })()"
            )
        }
        try await add(0..<600)
        _ = try await page.value("window.edges = line => line.getBoundingClientRect()")
        let lastIsVisible = "edges(element('lines').lastElementChild).bottom <= edges(element('lines')).bottom"
        #expect(try await page.value("\(lastIsVisible) && element('unread').hidden") == "true")
        // Some lines have more rows than others.
        _ = try await page.value("element('lines').scrollTop = element('lines').scrollHeight / 2")
        _ = try await page.value("view.other({ sender: 'bob', text: 'a\\nb\\nc', sentAtMs: 1 })")
        let top = "[...element('lines').children].find(line => edges(line).bottom > edges(element('lines')).top)"
        _ = try await page.value("(window.line = \(top), window.place = edges(line).top)")
        try await add(600..<750)
        _ = try await page.value("view.status('a status')")
        let isInPlace = "line.isConnected && Math.abs(edges(line).top - place) < 2"
        #expect(try await page.value(isInPlace) == "true")
        #expect(try await page.value("element('lines').firstElementChild.innerText.includes('text 0')") == "false")
        #expect(
            try await page.value("element('unread').hidden ? '' : element('unread').textContent") == "151 new messages"
        )
        _ = try await page.value("element('unread').click()")
        #expect(try await page.value("\(lastIsVisible) && element('unread').hidden") == "true")
        // A message of the user leads to the end, and so does the reader's own scrolling.
        for step in ["conversation.typed('mine')", "element('lines').scrollTop = element('lines').scrollHeight"] {
            _ = try await page.value("element('lines').scrollTop = 100")
            try await add(0..<1)
            #expect(try await page.value("element('unread').textContent") == "1 new message")
            _ = try await page.value(step)
            try await page.wait(until: "\(lastIsVisible) && element('unread').hidden")
        }
        #expect(browser.scriptErrors.isEmpty)
    }

    @Test("A name survives a reload, also a made-up one, and a chosen name is that of later pages")
    func name() async throws {
        let server = try await Serving.start("ws://127.0.0.1:0", "--chat")
        let browser = try await Chromium.start()
        defer { browser.stop() }
        let url = "http://127.0.0.1:\(server.port)/"
        func reload(_ page: Chromium.Page) async throws -> String? {
            _ = try await page.value("(window.isOld = true, location.reload())")
            try await page.wait(until: "!window.isOld && \(Self.isOpen)")
            return try await page.value("element('name').value + ' ' + conversation.name")
        }
        func choose(_ name: String, on page: Chromium.Page) async throws {
            _ = try await page.value(
                "(element('name').value = '\(name)', element('name').dispatchEvent(new Event('change')))"
            )
        }
        let (one, other) = (try await browser.open(url), try await browser.open(url))
        for page in [one, other] { try await page.wait(until: Self.isOpen) }
        let guest = try await one.value("conversation.name") ?? ""
        #expect(guest.hasPrefix("guest-"))
        #expect(try await reload(one) == "\(guest) \(guest)")
        try await choose("ann", on: one)
        try await choose("bob", on: other)
        #expect(try await reload(one) == "ann ann")
        #expect(try await reload(other) == "bob bob")
        let later = try await browser.open(url)
        try await later.wait(until: Self.isOpen)
        #expect(try await later.value("conversation.name") == "bob")
        try await one.wait(until: lines("bob is here"))
        try await later.wait(until: "conversation.members.size === 2")
        _ = try await one.value("location.replace('about:blank')")
        try await later.wait(until: lines("ann has left"))
        // The name of the address has priority, and changes with the choice.
        let named = try await enter("carol", server, browser)
        try await choose("dave & co", on: named)
        #expect(try await reload(named) == "dave & co dave & co")

        // A browser may deny the storage.
        let denied = try await browser.open(
            url,
            running: """
                for (const store of ["sessionStorage", "localStorage"]) {
                    Object.defineProperty(window, store, { get() { throw new DOMException("denied", "SecurityError") } })
                }
                """
        )
        try await denied.wait(until: Self.isOpen)
        try await choose("eve", on: denied)
        #expect(try await denied.value("conversation.name") == "eve")
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
        try await ann.wait(until: "element('state').textContent.endsWith(', new session')")
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

    @Test("The page reads messages of members that write XML, and none with a document type declaration")
    func xml() async throws {
        let server = try await Serving.start("ws://127.0.0.1:0", "--chat")
        let browser = try await Chromium.start()
        defer { browser.stop() }
        let page = try await browser.open("http://127.0.0.1:\(server.port)/")
        try await page.wait(until: Self.isOpen)
        var message = ChatMessage(id: "m-2", conversation: "lobby", sender: "bob", sentAtMs: 7, text: "1 < 2 & é\u{1}")
        message.kind = .receipt
        message.mentions = ["ann", ""]
        message.attributes = ["after": "m-1", "colour": "red", "event": "\u{2}"]
        func read(_ bytes: [UInt8]) async throws -> String? {
            let list = bytes.map { "\($0)" }.joined(separator: ",")
            return try await page.value(
                """
                (message => message === null ? "nothing" : [
                    message.id, message.conversation, message.sender, message.sentAtMs, message.kind,
                    message.text === "1 < 2 & é\\u0001", message.mentions.length, message.attributes.after,
                    message.attributes.event === "\\u0002",
                ].join("|"))(readMessage(new Uint8Array([\(list)])))
                """
            )
        }
        let document = try XMLCodec().encode(message)
        #expect(try await read(document) == "m-2|lobby|bob|7|KIND_RECEIPT|true|2|m-1|true")
        #expect(try await read(Array("<!DOCTYPE message>".utf8) + document) == "nothing")
        #expect(try await read(Array(document.dropLast())) == "nothing")
        #expect(try await read(Array("<html/>".utf8)) == "nothing")
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
