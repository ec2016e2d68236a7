import Foundation
import Testing
import TransportAPI

@testable import ChatClient
@testable import ChatServer

@Suite("A chat", .timeLimit(.minutes(1)))
struct ChatTests {
    @Test("Members receive the messages of the others, also after their connections were dropped")
    func room() async throws {
        let service = try await ChatService.start("memory://chat-room")
        let (ann, ben) = (try member(service, "ann"), try member(service, "ben"))
        var messages = ben.messages.makeAsyncIterator()
        // A member receives messages from its first one on, because the server knows it by then.
        #expect(await ben.say("hello") == .acknowledged)
        for text in ["soup", "or salad?"] {
            #expect(await ann.say(text) == .acknowledged)
            let message = await messages.next()
            #expect(message?.text == text && message?.sender == "ann")
            await service.dropConnections()
        }
        for member in [ann, ben] { await member.leave() }
        await service.stop()
    }

    @Test("A member has the name of its token, whatever it writes into its messages")
    func identity() async throws {
        let service = try await ChatService.start("ws://127.0.0.1:0", users: ["1234": "ann", "5678": "ben"])
        let (ann, ben) = (try member(service, "the king", "1234"), try member(service, "ben", "5678"))
        var messages = ben.messages.makeAsyncIterator()
        #expect(await ben.say("hello") == .acknowledged)
        #expect(await ann.say("soup") == .acknowledged)
        #expect(await messages.next()?.sender == "ann")
        for member in [ann, ben] { await member.leave() }
        await service.stop()
    }

    @Test("A member with an unknown token is refused")
    func refused() async throws {
        let service = try await ChatService.start("ws://127.0.0.1:0", users: ["1234": "ann"])
        let unknown = try member(service, "eve", "0000")
        guard case .rejected(let error) = await unknown.say("hello") else {
            Issue.record("the message was sent")
            return
        }
        #expect(error.code == .authenticationFailed)
        await service.stop()
    }

    @Test("A server that is interrupted closes its connections and ends")
    func interrupted() async throws {
        let former = try await ChatService.start("ws://127.0.0.1:0")
        let url = "\(former.endpoint)"
        await former.stop()
        let server = Process()
        server.executableURL = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent()
            .appending(path: "ChatServer")
        server.arguments = [url]
        server.standardOutput = FileHandle.nullDevice
        let ends = AsyncStream<Void> { continuation in
            server.terminationHandler = { _ in continuation.finish() }
        }
        try server.run()
        let ann = try ChatMember(url, name: "ann")
        let states = ann.supervisor.states
        #expect(await ann.say("hello") == .acknowledged)
        server.interrupt()
        // The server was not there yet at the first attempts.
        for await state in states {
            if case .waiting(_, let reason) = state, reason.initiator == .peer { break }
        }
        for await _ in ends {}
        #expect(server.terminationReason == .exit && server.terminationStatus == 0)
        await ann.leave()
    }

    private func member(_ service: ChatService, _ name: String, _ token: String? = nil) throws -> ChatMember {
        var source: TokenSource?
        if let token { source = { _ in token } }
        return try ChatMember("\(service.endpoint)", name: name, token: source)
    }
}
