import Codecs
import Testing
import TransportAPI

@testable import imbench

/// Two conversations without a network. The test passes messages from one to the other, in any order.
@Suite struct ChatConversationTests {
    private typealias Action = ChatConversation.Action

    private var ann = ChatConversation(name: "ann", room: "lobby", instance: "a")
    private var bob = ChatConversation(name: "bob", room: "lobby", instance: "b")

    private func sent(_ actions: [Action]) -> [ChatMessage] {
        actions.compactMap { if case .send(_, let message) = $0 { message } else { nil } }
    }

    private func shown(_ actions: [Action]) -> [String] {
        actions.compactMap { if case .show(let line) = $0 { line.text } else { nil } }
    }

    private func run(_ event: (inout [Action]) -> Void) -> [Action] {
        var actions: [Action] = []
        event(&actions)
        return actions
    }

    @Test("A message gets its first tick from the server and its second from the other member")
    mutating func ticks() {
        let typed = run { ann.typed("hi", atMs: 1, &$0) }
        #expect(shown(typed) == ["#1 ann: hi"])
        #expect(shown(run { ann.settled(1, .acknowledged, &$0) }) == ["✓ #1"])
        let received = run { bob.received(sent(typed)[0], atMs: 0, &$0) }
        #expect(shown(received) == ["ann: hi"])
        #expect(shown(run { ann.received(sent(received)[0], atMs: 0, &$0) }) == ["✓✓ #1 bob"])
        #expect(ann.unconfirmed == 0)
        #expect(ann.history == ["#1 ann: hi ✓✓"])
        #expect(bob.history == ["ann: hi"])
    }

    @Test("A message that the server acknowledged and lost is sent again, and is shown before later ones")
    mutating func lostSession() {
        let first = run { ann.typed("1", atMs: 1, &$0) }
        let second = run { ann.typed("2", atMs: 2, &$0) }
        _ = run { ann.settled(1, .acknowledged, &$0) }
        _ = run { ann.settled(2, .acknowledged, &$0) }
        let third = sent(run { ann.typed("3", atMs: 3, &$0) })[0]
        // The server has lost 1 and 2; the supervisor sends 3 on the new session before the chat is notified of it.
        #expect(run { bob.received(third, atMs: 0, &$0) } == [.wait])
        let again = sent(run { ann.began(&$0) }).filter { $0.kind == .text }
        #expect(again.map(\.text) == ["1", "2"])
        #expect(again.map(\.id) == [sent(first)[0].id, sent(second)[0].id])
        #expect(shown(run { bob.received(again[0], atMs: 0, &$0) }) == ["ann: 1"])
        #expect(shown(run { bob.received(again[1], atMs: 0, &$0) }) == ["ann: 2", "ann: 3"])
        #expect(run { bob.waited(&$0) }.isEmpty)
    }

    @Test("Identifiers that are equal only after normalisation belong to two messages")
    mutating func identifiersAreBytes() {
        var messages = ["b-\u{e9}", "b-e\u{301}"].map {
            ChatMessage(id: $0, conversation: "lobby", sender: "eve", sentAtMs: 1, text: "hi")
        }
        #expect(
            messages.map { message in shown(run { ann.received(message, atMs: 0, &$0) }) } == [
                ["eve: hi"], ["eve: hi"],
            ]
        )
        // The predecessor of the second message equals the first message only after normalisation, so it waits.
        messages = ([("c-e\u{301}", nil), ("2", "c-\u{e9}")] as [(String, String?)]).map { id, after in
            var message = ChatMessage(id: id, conversation: "lobby", sender: "eve", sentAtMs: 1, text: "ho")
            message.attributes["after"] = after
            return message
        }
        #expect(shown(run { ann.received(messages[0], atMs: 0, &$0) }) == ["eve: ho"])
        #expect(run { ann.received(messages[1], atMs: 0, &$0) } == [.wait])
    }

    @Test("A message that arrives twice is shown once and confirmed twice")
    mutating func repeated() {
        let message = sent(run { ann.typed("hi", atMs: 1, &$0) })[0]
        _ = run { bob.received(message, atMs: 0, &$0) }
        let again = run { bob.received(message, atMs: 0, &$0) }
        #expect(shown(again).isEmpty)
        #expect(sent(again).map(\.kind) == [.receipt])
    }

    @Test("A new member receives all unconfirmed messages, also those in flight")
    mutating func newMember() {
        _ = run { ann.typed("1", atMs: 1, &$0) }
        _ = run { ann.settled(1, .acknowledged, &$0) }
        _ = run { ann.typed("2", atMs: 2, &$0) }
        let hello = sent(run { bob.began(&$0) })[0]
        #expect(sent(run { ann.received(hello, atMs: 0, &$0) }).map(\.text) == ["1"])
        #expect(sent(run { ann.settled(2, .acknowledged, &$0) }).map(\.text) == ["2"])
        #expect(sent(run { ann.settled(2, .acknowledged, &$0) }).isEmpty)
        // A broker returns the member's own greeting, which has no effect.
        let own = sent(run { ann.began(&$0) })[0]
        #expect(run { ann.received(own, atMs: 0, &$0) }.isEmpty)
    }

    @Test("A message whose predecessor never arrives is shown after the longest hold")
    mutating func neverComes() {
        _ = run { ann.typed("1", atMs: 1, &$0) }
        let second = sent(run { ann.typed("2", atMs: 2, &$0) })[0]
        #expect(run { bob.received(second, atMs: 0, &$0) } == [.wait])
        #expect(shown(run { bob.waited(&$0) }) == ["ann: 2"])
    }

    @Test("A rejected message is reported, and does not block later ones")
    mutating func refused() {
        _ = run { ann.typed("1", atMs: 1, &$0) }
        let error = TransportError(.messageTooLarge, .open, "too large")
        #expect(shown(run { ann.settled(1, .rejected(error), &$0) }) == ["✗ #1 not sent: too large"])
        let second = sent(run { ann.typed("2", atMs: 2, &$0) })[0]
        #expect(shown(run { bob.received(second, atMs: 0, &$0) }) == ["ann: 2"])
    }

    @Test("Messages of other rooms are ignored")
    mutating func otherRoom() {
        var carol = ChatConversation(name: "carol", room: "kitchen", instance: "c")
        let message = sent(run { carol.typed("hi", atMs: 1, &$0) })[0]
        #expect(run { bob.received(message, atMs: 0, &$0) }.isEmpty)
    }

    @Test("Memory is limited, for unconfirmed messages and for messages whose predecessor never arrives")
    mutating func bounds() {
        for number in 1...UInt64(3000) {
            _ = run { ann.typed("\(number)", atMs: 1, &$0) }
            _ = run { ann.settled(number, .acknowledged, &$0) }
        }
        #expect(ann.unconfirmed == ChatConversation.keptLimit)
        #expect(ann.history.count == ChatConversation.historyLimit)
        var order = IncomingOrder()
        var given = 0
        for number in 0..<1000 {
            var message = ChatMessage()
            message.id = "x-\(number)"
            message.attributes["after"] = "never"
            if case .ready(let messages) = order.take(message) { given += messages.count }
        }
        #expect(given == 1000 - IncomingOrder.heldLimit)
    }

    @Test("Held messages and the history are limited in bytes, and one wait serves all held messages")
    mutating func bytes() {
        var waits = 0
        for number in 0..<500 {
            let text = String(repeating: "x", count: 1 << 20)
            var message = ChatMessage(id: "b-\(number)", conversation: "lobby", sender: "eve", sentAtMs: 1, text: text)
            message.attributes["after"] = "b-never"
            waits += run { ann.received(message, atMs: 0, &$0) }.count { $0 == .wait }
        }
        #expect(waits == 1)
        // 64 KiB of each text are shown, so that the rest need not be stored.
        let held = shown(run { ann.waited(&$0) }) + shown(run { ann.waited(&$0) })
        #expect(held.count == IncomingOrder.bufferedBytesLimit / (1 << 16) - 1)
        #expect(ann.history.reduce(0) { $0 + $1.utf8.count } < ChatConversation.historyBytesLimit + 4096)
        #expect(run { ann.waited(&$0) }.isEmpty)
    }

    @Test("A message that is held when others wait already gets the next wait")
    mutating func secondWait() {
        func message(_ id: String) -> ChatMessage {
            var message = ChatMessage(id: id, conversation: "lobby", sender: "eve", sentAtMs: 1, text: id)
            message.attributes["after"] = "never"
            return message
        }
        let (first, second) = (message("b-1"), message("b-2"))
        #expect(run { ann.received(first, atMs: 0, &$0) } == [.wait])
        #expect(run { ann.received(second, atMs: 0, &$0) }.isEmpty)
        #expect(shown(run { ann.waited(&$0) }) == ["eve: b-1"])
        #expect(shown(run { ann.waited(&$0) }) == ["eve: b-2"])
        #expect(run { ann.waited(&$0) }.isEmpty)
    }

    @Test("An identifier that is too long for the lists is none")
    mutating func longIdentifier() {
        let id = String(repeating: "i", count: IncomingOrder.identifierLimit + 1)
        let message = ChatMessage(id: id, conversation: "lobby", sender: "eve", sentAtMs: 1, text: "hi")
        for _ in 0..<2 {
            let actions = run { ann.received(message, atMs: 0, &$0) }
            #expect(shown(actions) == ["eve: hi"])
            #expect(sent(actions).isEmpty)
        }
    }

    @Test("A flood of notices of missed messages is answered once in ten seconds")
    mutating func notices() {
        var notice = ChatMessage()
        notice.kind = .system
        notice.sender = "server"
        notice.attributes["event"] = "missed"
        let answers = (0..<100).map { number in sent(run { ann.received(notice, atMs: 5000 + number, &$0) }).count }
        #expect(answers.reduce(0, +) == 1)
        #expect(sent(run { ann.received(notice, atMs: 15_000, &$0) }).count == 1)
    }

    @Test("Received texts cannot control the terminal")
    func harmless() {
        let line = ChatLine.other(sender: "a\nb", text: "\u{1b}[2J\u{202e}x")
        #expect(line.text == "a\u{fffd}b: \u{fffd}[2J\u{fffd}x")
    }
}
