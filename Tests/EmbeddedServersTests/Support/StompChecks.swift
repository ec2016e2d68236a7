import Primitives
import TestSupport
import Testing
import TransportAPI
import Transports

/// What the client for STOMP does with a broker of another project.
struct StompChecks {
    /// The broker, with at least one option.
    let url: String
    private let registry = TransportRegistry.standard

    init(url: String) { self.url = url }

    private func text(_ payload: Payload?) -> String? {
        payload.map { String(decoding: $0.bytes, as: UTF8.self) }
    }

    /// What a client has not acknowledged comes again, and nothing else.
    func acknowledges(_ mode: String, _ queue: String) async throws {
        let sender = try await registry.connect("\(url)&receipt=on&send-header=persistent:true&publish=\(queue)")
        for number in 0..<5 { #expect(await sender.send(Payload(text: "\(number)")) == .acknowledged) }
        let bytes = Payload([0, 255, 10, 0])
        #expect(await sender.send(bytes) == .acknowledged)
        let first = try await registry.connect("\(url)&ack=\(mode)&subscribe=\(queue)")
        for number in 0..<3 {
            let payload = try await first.receive()
            #expect(text(payload) == "\(number)" && payload?.kind == .text && payload?.topic == queue)
        }
        // The client has not asked for a message after the third one, so that is not acknowledged.
        await first.close()
        let second = try await registry.connect("\(url)&ack=\(mode)&subscribe=\(queue)")
        for number in 2..<5 {
            let payload = try await second.receive()
            #expect(text(payload) == "\(number)" && payload?.isDuplicate == true)
        }
        #expect(try await second.receive()?.bytes == bytes.bytes)
        #expect(await sender.send(Payload(text: "last")) == .acknowledged)
        #expect(text(try await second.receive()) == "last")
        await second.close()
        await sender.close()
    }

    /// Each sequence gets the messages of its own subscription, until that ends.
    ///
    /// - Parameter wildcard: The destination that matches `/topic/rooms.lunch`.
    func subscribes(wildcard: String) async throws {
        let client = try STOMPClient(try await registry.connect("\(url)&receipt=on"))
        var rooms = try await client.subscribe(wildcard).makeAsyncIterator()
        var lunch = try await client.subscribe("/topic/rooms.lunch").makeAsyncIterator()
        #expect(await client.send(Payload(text: "soup", topic: "/topic/rooms.lunch")) == .acknowledged)
        #expect(text(try await rooms.next()) == "soup")
        #expect(text(try await lunch.next()) == "soup")
        try await client.unsubscribe(wildcard)
        #expect(try await rooms.next() == nil)
        #expect(await client.send(Payload(text: "tea", topic: "/topic/rooms.lunch")) == .acknowledged)
        #expect(text(try await lunch.next()) == "tea")
        await client.close()
    }

    /// Both sides promise a heart-beat every three seconds. The client waits longer for those of the broker, which is slow on a
    /// loaded machine, and a broker ends a client that is late by as much again.
    func beats() async throws {
        let beats = "keepalive-interval=3s&heart-beat-margin=20s"
        let connection = try await registry.connect("\(url)&\(beats)&subscribe=/topic/a")
        #expect(connection.capabilities.keepsItselfAlive)
        let hasEnded = Locked(false)
        let end = Task {
            let reason = await connection.closed()
            hasEnded.withLock { $0 = true }
            return reason
        }
        let start = await connection.statistics()
        func isSilent() async -> Bool {
            let now = await connection.statistics()
            let isQuiet = now.bytesReceived < start.bytesReceived + 4 || now.bytesSent < start.bytesSent + 3
            return isQuiet && !hasEnded.withLock { $0 }
        }
        try await Task.yield(while: await isSilent())
        #expect(!hasEnded.withLock { $0 })
        await connection.close()
        let reason = await end.value
        #expect(reason.error == nil, "\(reason)")
    }
}
