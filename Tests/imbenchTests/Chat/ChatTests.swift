import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import Transports
import TrialCertificates

@testable import imbench

@Suite("Members of a chat", .timeLimit(.minutes(5)), .ownThread)
struct ChatTests {
    static let names = TransportRegistry.available.transports.map(\.name)

    /// A URL at which a server can be started repeatedly, and the port that is reserved for it.
    private func place(_ name: String, _ test: String) throws -> (url: String, port: ReservedPort?) {
        let transport = try TransportRegistry.trial.transport(named: name)
        guard transport.defaultPort != nil else { return ("\(name)://chat-\(test):1", nil) }
        let port = try ReservedPort(isDatagram: transport.isDatagram)
        return ("\(name)://\(port.address)", port)
    }

    @Test(
        "No message is lost, duplicated or reordered while the server is stopped and started again",
        arguments: names
    )
    func restart(name: String) async throws {
        let (url, port) = try place(name, "restart")
        var server = try await ChatServer.start(url, room: ChatRoom(), registry: .trial)
        let ann = try await ChatPerson("ann", at: server.endpoint)
        let bob = try await ChatPerson("bob", at: server.endpoint, codec: .protobuf)

        // Both members continue to type while the server is stopped and started twice. It keeps nothing.
        async let annTypes: Void = ann.type(0..<10)
        async let bobTypes: Void = bob.type(0..<10)
        _ = await (annTypes, bobTypes)
        await bob.display.wait { RecordingDisplay.received($0).count >= 5 }
        for round in 1...2 {
            let next = round * 40
            async let annGoesOn: Void = ann.type(next - 30..<next + 10)
            async let bobGoesOn: Void = bob.type(next - 30..<next + 10)
            await server.stop()
            _ = await (annGoesOn, bobGoesOn)
            server = try await ChatServer.start(url, room: ChatRoom(), registry: .trial)
            for person in [ann, bob] { await person.display.wait { RecordingDisplay.openings($0) > round } }
        }
        await ann.type(90..<100)
        await bob.type(90..<100)
        for person in [ann, bob] { await person.display.wait { RecordingDisplay.confirmed($0) >= 100 } }

        #expect(bob.display.received == (0..<100).map { "ann \($0)" })
        #expect(ann.display.received == (0..<100).map { "bob \($0)" })
        for person in [ann, bob] {
            let lines = person.display.lines
            for number in 1...UInt64(100) {
                let first = lines.firstIndex(of: .acknowledged(number))
                let second = lines.firstIndex { if case .read(number, _, _, _) = $0 { true } else { false } }
                #expect(second != nil)
                // If the receipt overtakes the acknowledgement, there is no first tick.
                if let first, let second { #expect(first < second) }
            }
            #expect(!lines.contains { if case .failed = $0 { true } else { false } })
            await person.leave()
        }
        await server.stop()
        withExtendedLifetime(port) {}
    }

    @Test("A message that a stopped server had acknowledged reaches a later member", arguments: names)
    func forgotten(name: String) async throws {
        let (url, port) = try place(name, "forgotten")
        var server = try await ChatServer.start(url, room: ChatRoom(), registry: .trial)
        let ann = try await ChatPerson("ann", at: server.endpoint)
        await ann.type(0..<20)
        await ann.display.wait { lines in (1...20).allSatisfy { lines.contains(.acknowledged($0)) } }
        await server.stop()
        await ann.type(20..<40)
        server = try await ChatServer.start(url, room: ChatRoom(), registry: .trial)
        let bob = try await ChatPerson("bob", at: server.endpoint)
        await ann.display.wait { RecordingDisplay.confirmed($0) == 40 }
        #expect(bob.display.received == (0..<40).map { "ann \($0)" })
        await ann.leave()
        await bob.leave()
        await server.stop()
        withExtendedLifetime(port) {}
    }

    @Test("Members of one room use different transports and formats")
    func bridged() async throws {
        let room = ChatRoom()
        let first = try await ChatServer.start("ws://127.0.0.1:0", room: room)
        let second = try await ChatServer.start("udp://127.0.0.1:0", room: room)
        let ann = try await ChatPerson("ann", at: first.endpoint, codec: .json)
        let bob = try await ChatPerson("bob", at: second.endpoint, codec: .protobuf)
        await ann.type("Grüße")
        await bob.type("世界")
        for person in [ann, bob] { await person.display.wait { RecordingDisplay.confirmed($0) == 1 } }
        #expect(ann.display.received == ["世界"])
        #expect(bob.display.received == ["Grüße"])
        await ann.leave()
        await bob.leave()
        await first.stop()
        await second.stop()
    }

    @Test("A later member receives the earlier messages", arguments: ["tcp", "mqtt"])
    func history(name: String) async throws {
        let server = try await ChatServer.start("\(name)://127.0.0.1:0", room: ChatRoom(), registry: .trial)
        let ann = try await ChatPerson("ann", at: server.endpoint)
        await ann.type(0..<20)
        await ann.display.wait { lines in (1...20).allSatisfy { lines.contains(.acknowledged($0)) } }
        let bob = try await ChatPerson("bob", at: server.endpoint)
        await ann.display.wait { RecordingDisplay.confirmed($0) == 20 }
        #expect(bob.display.received == (0..<20).map { "ann \($0)" })
        await ann.leave()
        await bob.leave()
        await server.stop()
    }

    @Test(
        "A member that comes late receives the history at once and in order, whether its sender is still there or not",
        arguments: ["tcp", "udp"],
        [true, false]
    )
    func longHistory(name: String, stays: Bool) async throws {
        let server = try await ChatServer.start("\(name)://127.0.0.1:0", room: ChatRoom())
        let ann = try await ChatPerson("ann", at: server.endpoint)
        // Nobody confirms the messages, so each names the one before it, and the room stores the last 200.
        await ann.type(0..<250)
        await ann.display.wait { lines in (1...250).allSatisfy { lines.contains(.acknowledged($0)) } }
        if !stays { await ann.leave() }
        let bob = try await ChatPerson("bob", at: server.endpoint)
        await bob.display.wait { RecordingDisplay.received($0).last == "ann 249" }
        if stays {
            await ann.type("at last")
            await bob.display.wait { RecordingDisplay.received($0).contains("at last") }
            await ann.leave()
        }
        // The room may have taken the last messages after bob had entered.
        let received = bob.display.received.prefix { $0 != "at last" }
        #expect((200...250).contains(received.count))
        #expect(Array(received) == (250 - received.count..<250).map { "ann \($0)" })
        await bob.leave()
        await server.stop()
    }

    @Test("Receipts count the other members, and one that leaves no longer", arguments: ["tcp", "udp", "mqtt"])
    func readers(name: String) async throws {
        let server = try await ChatServer.start("\(name)://127.0.0.1:0", room: ChatRoom(), registry: .trial)
        let ann = try await ChatPerson("ann", at: server.endpoint)
        let bob = try await ChatPerson("bob", at: server.endpoint)
        await ann.display.wait { $0.contains(.status("bob is here")) }
        let carol = try await ChatPerson("carol", at: server.endpoint, codec: .protobuf)
        for person in [ann, bob] { await person.display.wait { $0.contains(.status("carol is here")) } }
        for person in [ann, bob, carol] {
            await person.type("hi from \(person.name)")
            await person.display.wait {
                RecordingDisplay.isRead($0, by: 1, of: 2) && RecordingDisplay.isRead($0, by: 2, of: 2)
            }
            // What a member answers to a newer one precedes what it types.
            await carol.display.wait { [name = person.name] in
                name == "carol" || RecordingDisplay.received($0).contains("hi from \(name)")
            }
        }
        await bob.leave()
        for person in [ann, carol] {
            await person.display.wait { $0.contains(.status("bob has left")) }
            await person.type("ho")
            await person.display.wait { RecordingDisplay.isRead($0, by: 1, of: 1) }
        }
        for person in [ann, carol] { await person.leave() }
        await server.stop()
    }

    @Test("A line over the size limit of the transport is reported as failed")
    func tooLarge() async throws {
        let server = try await ChatServer.start("udp://127.0.0.1:0", room: ChatRoom())
        let ann = try await ChatPerson("ann", at: server.endpoint)
        await ann.type(String(repeating: "x", count: 5000))
        await ann.display.wait { lines in lines.contains { if case .failed(1, _) = $0 { true } else { false } } }
        await ann.leave()
        await server.stop()
    }
}
