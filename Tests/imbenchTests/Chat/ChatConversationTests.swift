import Codecs
import Testing
import TransportAPI

@testable import CommandSupport
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
        #expect(shown(run { ann.received(sent(received)[0], atMs: 0, &$0) }) == ["✓✓ #1 bob, read by 1 of 1"])
        #expect(ann.unconfirmed == 0)
        #expect(ann.history == ["#1 ann: hi ✓✓ read by 1 of 1"])
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
        let again = sent(run { ann.began(isOverBroker: false, &$0) }).filter { $0.kind == .text }
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

    /// A notice that only a server can send.
    private func notice(_ event: String, members: [String] = [], instance: String? = nil) -> ChatMessage {
        var notice = ChatMessage()
        notice.kind = .system
        notice.sender = "server"
        notice.mentions = members
        notice.attributes["event"] = event
        notice.attributes["instance"] = instance
        return notice
    }

    private func events(_ messages: [ChatMessage]) -> [String?] { messages.map { $0.attributes["event"] } }

    @Test(
        "A member that enters a room asks after the history, and gets all unconfirmed messages, also those in flight"
    )
    mutating func newMember() {
        _ = run { ann.typed("1", atMs: 1, &$0) }
        _ = run { ann.settled(1, .acknowledged, &$0) }
        _ = run { ann.typed("2", atMs: 2, &$0) }
        let hello = sent(run { bob.began(isOverBroker: false, &$0) })
        #expect(events(hello) == ["here"])
        let greeted = run { ann.received(hello[0], atMs: 0, &$0) }
        #expect(shown(greeted) == ["· bob is here"] && sent(greeted).isEmpty)
        // The list has two parts.
        var part = notice("members", members: ["c"])
        part.attributes["more"] = "yes"
        #expect(run { bob.received(part, atMs: 0, &$0) }.isEmpty)
        let question = sent(run { bob.received(notice("members", members: ["a", "b"]), atMs: 0, &$0) })
        #expect(events(question) == ["repeat"])
        #expect(sent(run { ann.received(question[0], atMs: 0, &$0) }).map(\.text) == ["1"])
        #expect(sent(run { ann.settled(2, .acknowledged, &$0) }).map(\.text) == ["2"])
        #expect(sent(run { ann.settled(2, .acknowledged, &$0) }).isEmpty)
        // An empty room has nobody to ask.
        #expect(sent(run { ann.received(notice("members"), atMs: 0, &$0) }).count == 1)
        _ = run { ann.began(isOverBroker: false, &$0) }
        #expect(run { ann.received(notice("members", members: ["a"]), atMs: 0, &$0) }.isEmpty)
    }

    @Test("Over a broker, a new member asks at once, and members answer one that they do not know")
    mutating func overBroker() {
        _ = run { ann.began(isOverBroker: true, &$0) }
        _ = run { ann.typed("1", atMs: 1, &$0) }
        _ = run { ann.settled(1, .acknowledged, &$0) }
        let hello = sent(run { bob.began(isOverBroker: true, &$0) })
        #expect(events(hello) == ["here", "repeat"])
        let answer = sent(run { ann.received(hello[0], atMs: 0, &$0) })
        #expect(events(answer) == ["members"])
        #expect(sent(run { ann.received(hello[0], atMs: 0, &$0) }).isEmpty)
        #expect(sent(run { ann.received(hello[1], atMs: 0, &$0) }).map(\.text) == ["1"])
        #expect(run { bob.received(answer[0], atMs: 0, &$0) }.isEmpty)
        // Now ann is known to bob, and is expected to read.
        let message = sent(run { bob.typed("hi", atMs: 1, &$0) })[0]
        var receipt = sent(run { ann.received(message, atMs: 0, &$0) })[0]
        receipt.attributes["instance"] = "c"
        receipt.sender = "carol"
        #expect(shown(run { bob.received(receipt, atMs: 0, &$0) }) == ["✓✓ #1 carol, read by 1 of 2"])
        // A broker returns the member's own notices, which have no effect.
        for own in sent(run { ann.began(isOverBroker: true, &$0) }) where own.kind == .system {
            #expect(run { ann.received(own, atMs: 0, &$0) }.isEmpty)
        }
        // A forged list of a server makes nobody ask again.
        #expect(run { bob.received(notice("members", members: ["d"]), atMs: 0, &$0) }.isEmpty)
        #expect(shown(run { ann.received(bob.farewell, atMs: 0, &$0) }) == ["· bob has left"])
    }

    @Test("A member whose history begins later is asked for no earlier messages, and waits for none")
    mutating func laterBeginning() {
        for number in 1...UInt64(3) {
            _ = run { ann.typed("\(number)", atMs: 1, &$0) }
            _ = run { ann.settled(number, .acknowledged, &$0) }
        }
        // The server still has the third message, without its predecessor.
        var third = ChatMessage(id: "a-3", conversation: "lobby", sender: "ann", sentAtMs: 1, text: "3")
        for _ in 1...2 {
            let receipt = sent(run { bob.received(third, atMs: 0, &$0) })[0]
            #expect(receipt.attributes["first"] == "yes")
            _ = run { ann.received(receipt, atMs: 0, &$0) }
        }
        #expect(ann.unconfirmed == 0)
        let fourth = sent(run { ann.typed("4", atMs: 1, &$0) })[0]
        let receipt = sent(run { bob.received(fourth, atMs: 0, &$0) })[0]
        #expect(receipt.replyTo == "a-4" && receipt.attributes["first"] == nil)
        // A lost receipt of another program says nothing about earlier messages.
        third.id = "c-3"
        #expect(sent(run { bob.received(third, atMs: 0, &$0) })[0].attributes["first"] == "yes")
    }

    @Test(
        "Receipts are counted by member, without the sender, and a member that has left counts if it has read"
    )
    mutating func readers() {
        _ = run { ann.received(notice("members", members: ["a", "b", "c", "d"]), atMs: 0, &$0) }
        func receipt(_ number: Int, of instance: String) -> ChatMessage {
            var receipt = ChatMessage()
            (receipt.kind, receipt.conversation, receipt.sender) = (.receipt, "lobby", instance)
            (receipt.replyTo, receipt.attributes["instance"]) = ("a-\(number)", instance)
            return receipt
        }
        _ = run { ann.typed("1", atMs: 1, &$0) }
        let lines = ["b", "a", "b", "c", "d", "e"].map { name in
            shown(run { ann.received(receipt(1, of: name), atMs: 0, &$0) })
        }
        #expect(lines == [["✓✓ #1 b, read by 1 of 3"], [], [], [], ["✓✓ #1 d, read by 3 of 3"], []])
        #expect(ann.history == ["#1 ann: 1 ✓✓ read by 4 of 4"])
        _ = run { ann.typed("2", atMs: 1, &$0) }
        _ = run { ann.received(receipt(2, of: "b"), atMs: 0, &$0) }
        for name in ["b", "c"] {
            let left = run { ann.received(notice("gone", instance: name), atMs: 0, &$0) }
            #expect(shown(left) == ["· server has left"])
        }
        #expect(run { ann.received(notice("gone", instance: "c"), atMs: 0, &$0) }.isEmpty)
        #expect(ann.history.last == "#2 ann: 2 ✓✓ read by 1 of 2")
        #expect(run { ann.received(receipt(7, of: "b"), atMs: 0, &$0) }.isEmpty)
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

    @Test("The members and the readers of a message are limited")
    mutating func floodOfMembers() {
        _ = run { ann.typed("1", atMs: 1, &$0) }
        for number in 0..<5000 {
            let instance = String(repeating: "x", count: 28) + "\(number)"
            var message = notice("members", members: [instance, String(repeating: "y", count: 33)])
            message.attributes["more"] = "yes"
            _ = run { ann.received(message, atMs: 0, &$0) }
            var receipt = ChatMessage()
            (receipt.kind, receipt.conversation, receipt.replyTo) = (.receipt, "lobby", "a-1")
            receipt.attributes["instance"] = instance
            _ = run { ann.received(receipt, atMs: 0, &$0) }
        }
        #expect(ann.history == ["#1 ann: 1 ✓✓ read by 1000 of 1000"])
    }

    @Test("Received texts cannot control the terminal")
    func harmless() {
        let line = ChatLine.other(sender: "a\nb", text: "\u{1b}[2J\u{202e}x")
        #expect(line.text == "a\u{fffd}b: \u{fffd}[2J\u{fffd}x")
    }
}
