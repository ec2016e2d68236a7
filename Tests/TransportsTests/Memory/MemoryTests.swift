import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

@Suite("memory://", .timeLimit(.minutes(5)), .ownThread)
struct MemoryTests {
    private var registry: TransportRegistry { .standard }

    @Test("A listener is found by its name, and only one listener can have a name at a time")
    func names() async throws {
        let first = try await registry.listen("memory://names:7")
        let error = await #expect(throws: TransportError.self) { _ = try await registry.listen("memory://names:7") }
        #expect(error?.code == .addressInUse)
        let client = try await registry.connect("memory://names:7")
        await client.close()
        await first.close()
        let gone = await #expect(throws: TransportError.self) { _ = try await registry.connect("memory://names:7") }
        #expect(gone?.code == .refused)
        let second = try await registry.listen("memory://names:7")
        await second.close()
    }

    @Test("A client without a port connects to the only listener of the name")
    func bareName() async throws {
        let listener = try await registry.listen("memory://bare-name")
        let client = try await registry.connect("memory://bare-name")
        let server = try #require(try await listener.accept())
        #expect(await client.send(bytes("hello")) == .written)
        #expect(try await server.receive() == bytes("hello"))
        let second = try await registry.listen("memory://bare-name")
        let ambiguous = await #expect(throws: TransportError.self) { try await registry.connect("memory://bare-name") }
        #expect(ambiguous?.code == .invalidConfiguration)
        #expect(ambiguous?.reason.contains("add the port") == true)
        await client.close()
        await listener.close()
        await second.close()
        let gone = await #expect(throws: TransportError.self) { try await registry.connect("memory://bare-name") }
        #expect(gone?.code == .refused)
    }

    @Test("A server decides by path, query and headers who connects, and knows the identity of each client")
    func decision() async throws {
        let decide: @Sendable (ClientRequest) -> ClientDecision = { request in
            guard request.header("Authorization") == "Bearer secret" else { return .refuse(status: 401) }
            return .acceptAs(Identity(request.path, claims: ["query": request.query]))
        }
        let listener = try await registry.listen("memory://decision", decide: decide)
        let refused = await #expect(throws: TransportError.self) {
            try await registry.connect("memory://decision/ann?header=Authorization:Bearer%20old")
        }
        #expect(refused?.code == .authenticationFailed && refused?.detail == 401)
        let url = "memory://decision/ann?header=Authorization:Bearer%20secret&query=a%3Db"
        let client = try await registry.connect(url)
        let server = try #require(try await listener.accept())
        #expect(server.identity == Identity("/ann", claims: ["query": "a=b"]))
        #expect(await client.send(bytes("hello")) == .written)
        #expect(try await server.receive() == bytes("hello"))
        await client.close()
        await listener.close()
    }

    @Test("The error of a refused client has the Retry-After time of the server, and the server's observer is notified")
    func retryAfter() async throws {
        let later = [try HTTPHeader("Retry-After", "7")]
        let decide: @Sendable (ClientRequest) -> ClientDecision = { _ in .refuse(status: 503, headers: later) }
        let (events, continuation) = AsyncStream.makeStream(of: ServerEvent.self)
        let listener = try await registry.listen(
            "memory://later",
            observer: { continuation.yield($0) },
            decide: decide
        )
        let refused = await #expect(throws: TransportError.self) { try await registry.connect("memory://later") }
        #expect(refused?.code == .serverUnavailable && refused?.retryAfter == .seconds(7))
        var observed = events.makeAsyncIterator()
        let event = await observed.next()
        #expect(event?.wasOpen == false && event?.reason.error?.code == .handshakeFailed)
        #expect(event?.reason.error?.detail == 503)
        await listener.close()
    }

    @Test("A connection carries messages between two loops")
    func loops() async throws {
        let other = try EventLoop()
        let listener = try await registry.listen("memory://loops", on: other)
        let client = try await registry.transport(for: listener.endpoint).connect(timeout: .seconds(10))
        let server = try #require(try await listener.accept())
        for number in 0..<200 {
            #expect(await client.send(Payload(text: "\(number)")) == .written)
            #expect(try await server.receive()?.bytes == Array("\(number)".utf8))
            #expect(await server.send(Payload(text: "re \(number)")) == .written)
            #expect(try await client.receive()?.bytes == Array("re \(number)".utf8))
        }
        await client.close()
        await listener.close()
    }

    @Test("A sender waits while the peer does not read, and nothing is lost")
    func backpressure() async throws {
        let listener = try await registry.listen("memory://pressure?inbox=2")
        var endpoint = listener.endpoint
        endpoint.options = [.init(name: "write-buffer", value: "1000")]
        let client = try await registry.transport(for: endpoint).connect(timeout: .seconds(10))
        let server = try #require(try await listener.accept())
        let count = 300
        let sending = Task {
            for number in 0..<count {
                let bytes = [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 10_000)
                guard await client.send(Payload(bytes)) == .written else { return number }
            }
            return count
        }
        // The inbox, both pipes and the write buffer together hold less than a third of all messages.
        for number in 0..<count {
            let payload = try await server.receive()
            #expect(payload?.bytes.count == 10_000 && payload?.bytes.first == UInt8(truncatingIfNeeded: number))
        }
        #expect(await sending.value == count)
        await client.close()
        await listener.close()
    }
}
