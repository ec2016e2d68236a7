import Codecs
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

@testable import EmbeddedServers

@Suite("A chat room", .timeLimit(.minutes(5)), .ownThread)
struct ChatRoomTests {
    /// A supervisor in the room, and what it hears.
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

    @Test("gives each message to all but its sender, whichever listener they came by")
    func fanOut() async throws {
        let room = ChatRoom()
        let first = try await ChatServer.start("tcp://127.0.0.1:0", room: room)
        let second = try await ChatServer.start("ws://127.0.0.1:0", room: room)
        let people = [try enter(first), try enter(first), try enter(second)]
        var heard = people.map { $0.messages.makeAsyncIterator() }
        for (index, person) in people.enumerated() {
            // Each knows of the others' first messages before it speaks, and so has entered.
            #expect(await person.send(try message("\(index)")) == .acknowledged)
            for other in people.indices where other != index {
                #expect(await texts(1, &heard[other]) == ["\(index)"])
            }
        }
        for person in people { await person.close() }
        await first.stop()
        await second.stop()
    }

    @Test("gives the last messages to whoever comes later, without receipts, within its bounds")
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
        // The room has all of them, and not only the server.
        #expect(await texts(40, &witnessed).last == "receipt")
        let bob = try enter(server)
        var heard = bob.messages.makeAsyncIterator()
        #expect(await texts(5, &heard) == ["5", "6", "7", "8", "9"])
        #expect(await ann.send(try message("a text of 28 bytes, as it is")) == .acknowledged)
        #expect(await texts(1, &heard) == ["a text of 28 bytes, as it is"])
        let carol = try enter(server)
        var late = carol.messages.makeAsyncIterator()
        #expect(await texts(1, &late) == ["a text of 28 bytes, as it is"])
        for person in [ann, witness, bob, carol] { await person.close() }
        await server.stop()
    }

    @Test("drops the oldest messages of a session that is away, tells it so, and holds up nobody")
    func slow() async throws {
        var limits = ChatRoom.Limits()
        limits.outboxCount = 10
        limits.historyCount = 0
        let server = try await ChatServer.start("tcp://127.0.0.1:0", room: ChatRoom(limits))
        let (ann, bob, slow) = (try enter(server), try enter(server), try enter(server))
        var (bobHears, slowHears) = (bob.messages.makeAsyncIterator(), slow.messages.makeAsyncIterator())
        #expect(await bob.send(try message("bob")) == .acknowledged)
        #expect(await slow.send(try message("slow")) == .acknowledged)
        #expect(await ann.send(try message("first")) == .acknowledged)
        #expect(await texts(2, &bobHears) == ["slow", "first"])
        while await texts(1, &slowHears) != ["first"] {}
        slow.suspend()
        var states = slow.states.makeAsyncIterator()
        while let state = await states.next(), state != .suspended {}
        for number in 0..<100 {
            #expect(await ann.send(try message("\(number)")) == .acknowledged)
            #expect(await texts(1, &bobHears) == ["\(number)"])
        }
        slow.resume()
        var missed = 0
        var heard: [String] = []
        while heard.last != "99" || missed == 0, let payload = await slowHears.next() {
            let message = try #require(ChatMessage.read(payload)?.message)
            guard message.kind == .system else {
                heard.append(message.text)
                continue
            }
            #expect(message.attributes["event"] == "missed")
            missed += message.text.split(separator: " ").compactMap { Int($0) }.reduce(0, +)
        }
        #expect(missed + heard.count == 100)
        #expect(heard == heard.sorted { (Int($0) ?? 0) < (Int($1) ?? 0) })
        for person in [ann, bob, slow] { await person.close() }
        await server.stop()
    }

    @Test("A session that is away is given the last messages, and the number of those that it missed")
    func away() async throws {
        var limits = ChatRoom.Limits()
        limits.outboxCount = 100
        limits.historyCount = 0
        let server = try await ChatServer.start("tcp://127.0.0.1:0", room: ChatRoom(limits))
        let (ann, away) = (try enter(server), try enter(server))
        var (annHears, awayHears) = (ann.messages.makeAsyncIterator(), away.messages.makeAsyncIterator())
        #expect(await away.send(try message("away")) == .acknowledged)
        #expect(await texts(1, &annHears) == ["away"])
        #expect(await ann.send(try message("first")) == .acknowledged)
        #expect(await texts(1, &awayHears) == ["first"])
        away.suspend()
        var states = away.states.makeAsyncIterator()
        while let state = await states.next(), state != .suspended {}
        let third = try enter(server)
        var thirdHears = third.messages.makeAsyncIterator()
        #expect(await third.send(try message("here")) == .acknowledged)
        #expect(await texts(1, &annHears) == ["here"])
        for number in 0..<500 { #expect(await ann.send(try message("\(number)")) == .acknowledged) }
        // Acknowledged means that the server has it. The room passes it on later, since this member writes much.
        while let text = await texts(1, &thirdHears).first, text != "499" {}
        #expect(await third.send(try message("third")) == .acknowledged)
        #expect(await texts(1, &annHears) == ["third"])
        away.resume()
        var heard: [String] = []
        while heard.last != "third" { heard += await texts(1, &awayHears) }
        // The session holds what was in flight when its connection ended, or one message.
        let held = heard.prefix { $0 == "here" || Int($0) != nil }.count
        #expect(held <= 4)
        let sent = ["here"] + (0..<500).map(String.init) + ["third"]
        #expect(heard == sent.prefix(held) + ["you have missed \(402 - held) messages"] + sent.suffix(100))
        for person in [ann, away, third] { await person.close() }
        await server.stop()
    }

    @Test("A member that acknowledges nothing is sent two messages, and holds up nobody")
    func silent() async throws {
        let server = try await ChatServer.start("tcp://127.0.0.1:0", room: ChatRoom())
        let silent = try await TransportRegistry.standard.transport(for: server.endpoint).connect(timeout: .seconds(30))
        let hello = SessionFrame.hello(SessionID(high: 1, low: 1), incarnation: 0, received: 0, attempt: 1)
        #expect(await silent.send(hello.payload).isSuccess)
        guard case .welcome = try SessionFrame(try #require(try await silent.receive())) else {
            Issue.record("the session did not begin")
            return
        }
        let (ann, bob) = (try enter(server), try enter(server))
        var bobHears = bob.messages.makeAsyncIterator()
        #expect(await bob.send(try message("bob", .receipt)) == .acknowledged)
        for number in 0..<50 {
            #expect(await ann.send(try message("\(number)")) == .acknowledged)
            #expect(await texts(1, &bobHears) == ["\(number)"])
        }
        for person in [ann, bob] { await person.close() }
        await server.stop()
        var received = 0
        while let payload = try? await silent.receive() {
            if case .message = try SessionFrame(payload) { received += 1 }
        }
        #expect(received == 2)
    }

    @Test("A member that writes little is heard while others flood the room, and all hear everybody in order")
    func flood() async throws {
        let server = try await ChatServer.start("tcp://127.0.0.1:0", room: ChatRoom())
        let (ann, bob, flooder) = (try enter(server), try enter(server), try enter(server))
        var bobHears = bob.messages.makeAsyncIterator()
        let flood = Task {
            var number = 0
            while !Task.isCancelled {
                _ = try await flooder.submit(try message("flood \(number)"))
                number += 1
            }
        }
        for number in 0..<20 {
            #expect(await ann.send(try message("ann \(number)")) == .acknowledged)
            var heard: String?
            while let text = await texts(1, &bobHears).first {
                guard text.hasPrefix("ann") else { continue }
                heard = text
                break
            }
            #expect(heard == "ann \(number)")
        }
        flood.cancel()
        for person in [ann, bob, flooder] { await person.close() }
        await server.stop()
    }

    @Test("A member that writes little waits for its turn with a large message, and not with a small one")
    func largeMessages() async throws {
        let (entered, entering) = AsyncStream<Session>.makeStream()
        let loop = try EventLoop(name: "room")
        let server = SessionServer(on: loop) { entering.yield($0) }
        let listener = try await TransportRegistry.standard.listen("tcp://127.0.0.1:0", on: loop)
        let serving = Task { try await server.serve(listener) }
        var configuration = SupervisorConfiguration()
        configuration.delivery.mode = .session
        let supervisor = try Supervisor(listener.endpoint.description, configuration)
        supervisor.connect()
        var sessions = entered.makeAsyncIterator()
        let session = try #require(await sessions.next())
        let waits = await Task(executorPreference: loop) {
            let people = ChatPeople(ChatRoom.Limits(), on: loop)
            let member = people.enter(session)
            // A new member waits for the first 10 ms, whatever it writes.
            while await people.turn(of: member, 100) {}
            return await people.turn(of: member, 8 << 10)
        }.value
        #expect(waits)
        await supervisor.close()
        await listener.close()
        await server.close()
        try await serving.value
    }

    @Test("of a transport that routes by topic is a broker")
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
