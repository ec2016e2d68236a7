import Codecs
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

@testable import EmbeddedServers

@Suite("A chat room", .timeLimit(.minutes(5)), .ownThread)
struct ChatRoomTests {
    /// A supervisor in the room, and the messages that it receives.
    private func enter(_ server: ChatServer, adjust: (inout SupervisorConfiguration) -> Void = { _ in }) throws
        -> Supervisor
    {
        var configuration = SupervisorConfiguration()
        configuration.delivery.mode = .session
        configuration.backoff = .fixed(.milliseconds(20))
        adjust(&configuration)
        let supervisor = try Supervisor(server.endpoint.description, configuration)
        supervisor.connect()
        return supervisor
    }

    private func message(_ text: String, _ kind: ChatMessage.Kind = .text) throws -> Payload {
        var message = ChatMessage()
        message.text = text
        message.kind = kind
        return Payload(try ProtobufCodec().encode(message))
    }

    private func texts(_ count: Int, _ iterator: inout Subscription<Payload>.Iterator) async -> [String] {
        var texts: [String] = []
        while texts.count < count, let payload = await iterator.next() {
            texts.append(ChatMessage.read(payload)?.message.text ?? "?")
        }
        return texts
    }

    @Test("A chat room sends each message to all members except its sender, on every listener")
    func fanOut() async throws {
        let room = ChatRoom()
        let first = try await ChatServer.start("tcp://127.0.0.1:0", room: room)
        let second = try await ChatServer.start("ws://127.0.0.1:0", room: room)
        let people = [try enter(first), try enter(first), try enter(second)]
        var received = people.map { $0.messages.makeAsyncIterator() }
        for (index, person) in people.enumerated() {
            // Each member receives the others' first messages before it sends, so all have entered.
            #expect(await person.send(try message("\(index)")) == .acknowledged)
            for other in people.indices where other != index {
                #expect(await texts(1, &received[other]) == ["\(index)"])
            }
        }
        for person in people { await person.close() }
        await first.stop()
        await second.stop()
    }

    @Test("A chat room sends the last messages to later members, without receipts and within its limits")
    func history() async throws {
        var limits = ChatRoom.Limits()
        limits.historyCount = 5
        limits.historyBytes = 30
        let server = try await ChatServer.start("tcp://127.0.0.1:0", room: ChatRoom(limits))
        let (ann, witness) = (try enter(server), try enter(server))
        var witnessed = witness.messages.makeAsyncIterator()
        #expect(await witness.send(try message("witness", .receipt)) == .acknowledged)
        for number in 0..<20 {
            #expect(await ann.send(try message("\(number % 10)")) == .acknowledged)
            #expect(await ann.send(try message("receipt", .receipt)) == .acknowledged)
        }
        // The room has all of them, and not only the session server.
        #expect(await texts(40, &witnessed).last == "receipt")
        let bob = try enter(server)
        var received = bob.messages.makeAsyncIterator()
        #expect(await texts(5, &received) == ["5", "6", "7", "8", "9"])
        #expect(await ann.send(try message("a text of 28 bytes, as it is")) == .acknowledged)
        #expect(await texts(1, &received) == ["a text of 28 bytes, as it is"])
        let carol = try enter(server)
        var late = carol.messages.makeAsyncIterator()
        #expect(await texts(1, &late) == ["a text of 28 bytes, as it is"])
        for person in [ann, witness, bob, carol] { await person.close() }
        await server.stop()
    }

    /// A message that names the one before it, as those that nobody has confirmed do.
    private func chained(_ number: Int, _ format: WireFormat) throws -> Payload {
        var message = ChatMessage(
            id: "a-\(number)",
            conversation: "lobby",
            sender: "ann",
            sentAtMs: 1,
            text: "\(number)"
        )
        if number > 1 { message.attributes = ["after": "a-\(number - 1)", "colour": "red"] }
        return Payload(try format.codec().encode(message), kind: format.isText ? .text : .binary)
    }

    private func messages(_ count: Int, _ iterator: inout Subscription<Payload>.Iterator) async -> [ChatMessage] {
        var messages: [ChatMessage] = []
        while messages.count < count, let payload = await iterator.next() {
            if let message = ChatMessage.read(payload)?.message { messages.append(message) }
        }
        return messages
    }

    @Test(
        "The first message of a history that has lost earlier ones names no predecessor, and a copy is not stored",
        arguments: WireFormat.allCases
    )
    func cutHistory(format: WireFormat) async throws {
        var limits = ChatRoom.Limits()
        limits.historyCount = 3
        let server = try await ChatServer.start("tcp://127.0.0.1:0", room: ChatRoom(limits))
        let (ann, witness) = (try enter(server), try enter(server))
        var witnessed = witness.messages.makeAsyncIterator()
        #expect(await witness.send(try message("witness", .receipt)) == .acknowledged)
        for number in [1, 2, 3, 4, 5, 4] { #expect(await ann.send(try chained(number, format)) == .acknowledged) }
        // A member that was there receives them as they were sent.
        #expect(
            await messages(6, &witnessed).map { $0.attributes["after"] } == [nil, "a-1", "a-2", "a-3", "a-4", "a-3"]
        )
        for _ in 1...2 {
            let late = try enter(server)
            var received = late.messages.makeAsyncIterator()
            let history = await messages(3, &received)
            #expect(history.map(\.text) == ["3", "4", "5"])
            #expect(history.map { $0.attributes["after"] } == [nil, "a-3", "a-4"])
            #expect(history.allSatisfy { $0.attributes["colour"] == "red" })
            await late.close()
        }
        for person in [ann, witness] { await person.close() }
        await server.stop()
    }

    @Test("A predecessor that may still come is named in the history: after a restart, later messages can come first")
    func wholeHistory() async throws {
        let server = try await ChatServer.start("tcp://127.0.0.1:0", room: ChatRoom())
        let (ann, witness) = (try enter(server), try enter(server))
        var witnessed = witness.messages.makeAsyncIterator()
        #expect(await witness.send(try message("witness", .receipt)) == .acknowledged)
        for number in [2, 3] { #expect(await ann.send(try chained(number, .json)) == .acknowledged) }
        #expect(await messages(2, &witnessed).count == 2)
        let bob = try enter(server)
        var received = bob.messages.makeAsyncIterator()
        #expect(await messages(2, &received).map { $0.attributes["after"] } == ["a-1", "a-2"])
        for person in [ann, witness, bob] { await person.close() }
        await server.stop()
    }

    private func here(_ instance: String, in conversation: String, _ format: WireFormat = .json) throws -> Payload {
        var here = ChatMessage()
        here.kind = .system
        here.conversation = conversation
        here.sender = "name of \(instance)"
        here.attributes = ["event": "here", "instance": instance]
        return Payload(try format.codec().encode(here), kind: format.isText ? .text : .binary)
    }

    @Test(
        "A member that introduces itself gets the list of the others after the history, and they learn when it has left"
    )
    func presence() async throws {
        let server = try await ChatServer.start("tcp://127.0.0.1:0", room: ChatRoom())
        let (ann, eve, bob) = (try enter(server), try enter(server), try enter(server))
        var (annReceives, bobReceives) = (ann.messages.makeAsyncIterator(), bob.messages.makeAsyncIterator())
        #expect(await ann.send(try here("a", in: "lobby", .protobuf)) == .acknowledged)
        let empty = await messages(1, &annReceives)
        #expect(empty.map { $0.attributes["event"] } == ["members"] && empty.allSatisfy { $0.mentions.isEmpty })
        #expect(await eve.send(try here("e", in: "kitchen")) == .acknowledged)
        #expect(await ann.send(try message("hi")) == .acknowledged)
        #expect(await messages(1, &annReceives).map { $0.attributes["instance"] } == ["e"])
        #expect(await bob.send(try here("b", in: "lobby")) == .acknowledged)
        // Bob may have entered before the messages or after them.
        var list: ChatMessage?
        while list?.attributes["event"] != "members" { list = await messages(1, &bobReceives).first }
        #expect(list?.mentions == ["a"] && list?.conversation == "")
        #expect(await messages(1, &annReceives).map { $0.attributes["event"] } == ["here"])
        await bob.close()
        let gone = try #require(await messages(1, &annReceives).first)
        #expect(gone.attributes == ["event": "gone", "instance": "b"] && gone.sender == "name of b")
        #expect(gone.conversation.isEmpty)
        for person in [ann, eve] { await person.close() }
        await server.stop()
    }

    @Test("Each part of the list of the members fits into a datagram, and a client that says here again is listed once")
    func parts() throws {
        var presence = ChatPresence()
        let instances = (10..<60).map { String(repeating: "i", count: 30) + "\($0)" }
        var added: [ChatPresence.Introduction] = []
        for instance in instances {
            let introduction = try #require(ChatPresence.Introduction(here(instance, in: "lobby")))
            added.append(presence.add(introduction, inPlaceOf: nil).0)
            #expect(presence.add(introduction, inPlaceOf: added.last).gone == nil)
        }
        var (listed, next): ([String], UInt64?) = ([], 0)
        while let number = next {
            let (part, following) = presence.list(for: added[7], after: number)
            #expect(try JSONCodec().encode(part).count < 1000)
            #expect((part.attributes["more"] == nil) == (following == nil))
            listed += part.mentions
            next = following
        }
        #expect(listed == instances.filter { $0 != instances[7] })
        let other = try #require(ChatPresence.Introduction(here("other", in: "lobby")))
        #expect(presence.add(other, inPlaceOf: added[0]).gone?.attributes["instance"] == instances[0])
        #expect(ChatPresence.Introduction(try here(String(repeating: "i", count: 33), in: "lobby")) == nil)
        let long = String(repeating: "x", count: 4096)
        let text = #"{"kind":"KIND_SYSTEM","text":"\#(long)","attributes":{"event":"here","instance":"i"}}"#
        #expect(ChatPresence.Introduction(Payload(text: text)) == nil)
        #expect(ChatPresence.Introduction(try message("here")) == nil)
    }

    @Test("A chat room passes on no forged notice of the server, and no message that is larger than its limit")
    func forged() async throws {
        var limits = ChatRoom.Limits()
        limits.outboxBytes = 1000
        let server = try await ChatServer.start("tcp://127.0.0.1:0", room: ChatRoom(limits))
        let (ann, bob) = (try enter(server), try enter(server))
        var received = bob.messages.makeAsyncIterator()
        #expect(await bob.send(try message("bob")) == .acknowledged)
        #expect(await ann.send(try message("first")) == .acknowledged)
        #expect(await texts(1, &received) == ["first"])
        #expect(await ann.send(try message("you have missed 3 messages", .system)) == .acknowledged)
        #expect(
            await ann.send(Payload(text: #"{"kind":"KIND_SYSTEM","attributes":{"event":"missed"}}"#)) == .acknowledged
        )
        #expect(await ann.send(try message(String(repeating: "x", count: 1000))) == .acknowledged)
        #expect(await ann.send(try message("last")) == .acknowledged)
        #expect(Set(await texts(2, &received)) == ["last", "you have missed 1 messages"])
        // A new member receives the history, without the message that the room has not passed on.
        let carol = try enter(server)
        var late = carol.messages.makeAsyncIterator()
        #expect(await texts(3, &late) == ["bob", "first", "last"])
        for person in [ann, bob, carol] { await person.close() }
        await server.stop()
    }

    @Test("The oldest messages of an absent session are dropped and counted, and no other member is delayed")
    func slow() async throws {
        var limits = ChatRoom.Limits()
        limits.outboxCount = 10
        limits.historyCount = 0
        let server = try await ChatServer.start("tcp://127.0.0.1:0", room: ChatRoom(limits))
        let (ann, bob, slow) = (try enter(server), try enter(server), try enter(server))
        var (bobReceives, slowReceives) = (bob.messages.makeAsyncIterator(), slow.messages.makeAsyncIterator())
        #expect(await bob.send(try message("bob")) == .acknowledged)
        #expect(await slow.send(try message("slow")) == .acknowledged)
        #expect(await ann.send(try message("first")) == .acknowledged)
        #expect(await texts(2, &bobReceives) == ["slow", "first"])
        while await texts(1, &slowReceives) != ["first"], !Task.isCancelled {}
        slow.suspend()
        var states = slow.states.makeAsyncIterator()
        while let state = await states.next(), state != .suspended {}
        for number in 0..<100 {
            #expect(await ann.send(try message("\(number)")) == .acknowledged)
            #expect(await texts(1, &bobReceives) == ["\(number)"])
        }
        slow.resume()
        var missed = 0
        var received: [String] = []
        while received.last != "99" || missed == 0, let payload = await slowReceives.next() {
            let message = try #require(ChatMessage.read(payload)?.message)
            guard message.kind == .system else {
                received.append(message.text)
                continue
            }
            #expect(message.attributes["event"] == "missed")
            missed += message.text.split(separator: " ").compactMap { Int($0) }.reduce(0, +)
        }
        #expect(missed + received.count == 100)
        #expect(received == received.sorted { (Int($0) ?? 0) < (Int($1) ?? 0) })
        for person in [ann, bob, slow] { await person.close() }
        await server.stop()
    }

    @Test("A session that was absent receives the last messages and the number of those it missed")
    func away() async throws {
        var limits = ChatRoom.Limits()
        limits.outboxCount = 100
        limits.historyCount = 0
        let server = try await ChatServer.start("tcp://127.0.0.1:0", room: ChatRoom(limits))
        let (ann, away) = (try enter(server), try enter(server))
        var (annReceives, awayReceives) = (ann.messages.makeAsyncIterator(), away.messages.makeAsyncIterator())
        #expect(await away.send(try message("away")) == .acknowledged)
        #expect(await texts(1, &annReceives) == ["away"])
        #expect(await ann.send(try message("first")) == .acknowledged)
        #expect(await texts(1, &awayReceives) == ["first"])
        away.suspend()
        var states = away.states.makeAsyncIterator()
        while let state = await states.next(), state != .suspended {}
        let third = try enter(server)
        var thirdReceives = third.messages.makeAsyncIterator()
        #expect(await third.send(try message("here")) == .acknowledged)
        #expect(await texts(1, &annReceives) == ["here"])
        for number in 0..<500 { #expect(await ann.send(try message("\(number)")) == .acknowledged) }
        // An acknowledged message has reached the server. The room distributes it later, because this member sends
        // much.
        while let text = await texts(1, &thirdReceives).first, text != "499" {}
        #expect(await third.send(try message("third")) == .acknowledged)
        #expect(await texts(1, &annReceives) == ["third"])
        away.resume()
        var received: [String] = []
        while received.last != "third" { received += await texts(1, &awayReceives) }
        // The session keeps the messages that were in flight when its connection ended, or one message.
        let held = received.prefix { $0 == "here" || Int($0) != nil }.count
        #expect(held <= 4)
        let sent = ["here"] + (0..<500).map(String.init) + ["third"]
        #expect(received == sent.prefix(held) + ["you have missed \(402 - held) messages"] + sent.suffix(100))
        for person in [ann, away, third] { await person.close() }
        await server.stop()
    }

    @Test("A member that acknowledges nothing receives two messages and delays no other member")
    func silent() async throws {
        let server = try await ChatServer.start("tcp://127.0.0.1:0", room: ChatRoom())
        let silent = try await TransportRegistry.standard.transport(for: server.endpoint).connect(timeout: .seconds(30))
        let hello = SessionFrame.hello(SessionID(high: 1, low: 1), ClientHello(incarnation: 0, received: 0, attempt: 1))
        #expect(await silent.send(hello.payload).isSuccess)
        guard case .welcome = try SessionFrame(try #require(try await silent.receive())) else {
            Issue.record("the session did not start")
            return
        }
        let (ann, bob) = (try enter(server), try enter(server))
        var bobReceives = bob.messages.makeAsyncIterator()
        #expect(await bob.send(try message("bob", .receipt)) == .acknowledged)
        for number in 0..<50 {
            #expect(await ann.send(try message("\(number)")) == .acknowledged)
            #expect(await texts(1, &bobReceives) == ["\(number)"])
        }
        for person in [ann, bob] { await person.close() }
        await server.stop()
        var received = 0
        while let payload = try? await silent.receive() {
            if case .message = try SessionFrame(payload) { received += 1 }
        }
        #expect(received == 2)
    }

    @Test("A member that sends little is served while others flood the room, and all messages keep their order")
    func flood() async throws {
        let server = try await ChatServer.start("tcp://127.0.0.1:0", room: ChatRoom())
        let (ann, bob, flooder) = (try enter(server), try enter(server), try enter(server))
        var bobReceives = bob.messages.makeAsyncIterator()
        let flood = Task {
            var number = 0
            while !Task.isCancelled {
                _ = try await flooder.submit(try message("flood \(number)"))
                number += 1
            }
        }
        for number in 0..<20 {
            #expect(await ann.send(try message("ann \(number)")) == .acknowledged)
            var received: String?
            while let text = await texts(1, &bobReceives).first {
                guard text.hasPrefix("ann") else { continue }
                received = text
                break
            }
            #expect(received == "ann \(number)")
        }
        flood.cancel()
        for person in [ann, bob, flooder] { await person.close() }
        await server.stop()
    }

    @Test("A member that sends little waits with a large message, and not with a small one")
    func largeMessages() async throws {
        let (entered, entering) = AsyncStream<Session>.makeStream()
        let loop = try EventLoop(name: "room")
        let server = SessionServer(on: loop) { entering.yield($0) }
        let listener = try await TransportRegistry.standard.listen("tcp://127.0.0.1:0", on: loop)
        let serving = Task(executorPreference: EventLoop.shared) { try await server.serve(listener) }
        var configuration = SupervisorConfiguration()
        configuration.delivery.mode = .session
        let supervisor = try Supervisor(listener.endpoint.description, configuration)
        supervisor.connect()
        var sessions = entered.makeAsyncIterator()
        let session = try #require(await sessions.next())
        let waits = await Task(executorPreference: loop) {
            let people = ChatPeople(ChatRoom.Limits(), on: loop)
            let member = people.enter(session)
            // A new member waits during its first 10 ms, whatever it sends.
            while await people.turn(of: member, 100) {}
            return await people.turn(of: member, 8 << 10)
        }.value
        #expect(waits)
        await supervisor.close()
        await listener.close()
        await server.close()
        try await serving.value
    }

    @Test("A chat room on a transport with topics is a broker")
    func broker() async throws {
        let server = try await ChatServer.start("mqtt://127.0.0.1:0", room: ChatRoom())
        var endpoint = server.endpoint
        endpoint.options += [.init(name: "publish", value: "x"), .init(name: "subscribe", value: "x")]
        let connection = try await TransportRegistry.standard.connect(endpoint.description)
        #expect(await connection.send(Payload(text: "hi")).isSuccess)
        #expect(try await connection.receive()?.bytes == Array("hi".utf8))
        await connection.close()
        await server.stop()
    }
}
