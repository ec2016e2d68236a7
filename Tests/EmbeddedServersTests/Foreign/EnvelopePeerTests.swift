import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI
import Transports

/// Runs the client of the session envelope in Docs/reference/wire-formats.md without changes.
@Suite("A client of the session envelope in Python", .timeLimit(.minutes(5)), .ownThread)
struct EnvelopePeerTests {
    private func program() throws -> String {
        let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent().path
        let path = folder + "/../../../Docs/reference/wire-formats.md"
        let document = try String(contentsOfFile: path, encoding: .utf8)
        let rest = try #require(document.components(separatedBy: "```python\n").dropFirst().first)
        return try #require(rest.components(separatedBy: "```").first)
    }

    @Test(
        "A Python client keeps its session when the connection breaks",
        .peer(Peers.webSockets)
    )
    func example() async throws {
        let (arrivals, arrived) = AsyncStream.makeStream(of: Session.self)
        let server = SessionServer(on: EventLoop.shared) { arrived.yield($0) }
        let listener = try await TransportRegistry.standard.listen("ws://127.0.0.1:0")
        let serving = Task(executorPreference: EventLoop.shared) { try await server.serve(listener) }
        let python = try Peer(
            try #require(Peers.pythonWithWebSockets),
            ["-c", try program(), "\(listener.endpoint)", "one", "two", "three"]
        )

        var sessions = arrivals.makeAsyncIterator()
        let session = try #require(await sessions.next())
        var messages = session.messages.makeAsyncIterator()
        #expect(await messages.next() == Payload(text: "one"))
        await server.dropConnections()
        #expect(await messages.next() == Payload(text: "two"))
        #expect(await messages.next() == Payload(text: "three"))
        for text in ["1", "2"] { #expect(await session.send(Payload(text: text)) == .acknowledged) }
        await server.dropConnections()
        #expect(await session.send(Payload(text: "3")) == .acknowledged)

        #expect(await messages.next() == nil)
        #expect([python.line(), python.line(), python.line()] == ["1", "2", "3"])
        #expect(try python.finish() == 0)
        await listener.close()
        try await serving.value
        await server.close()
    }
}
