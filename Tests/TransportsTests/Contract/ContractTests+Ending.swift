import SocketIO
import Testing
import TransportAPI

// How a connection ends, and what waits on it.

extension ContractTests {
    @Test("ends `receive` with nil on both sides after a goodbye, and rejects what is sent later", arguments: names)
    func goodbye(name: String) async throws {
        let pair = try await Pair(name)
        #expect(await pair.client.send(message("last words")).isSuccess)
        await pair.client.close()
        #expect(try await pair.client.receive() == nil)
        #expect(await pair.client.closed().initiator == .user)
        #expect(try await pair.server.receive()?.bytes == Array("last words".utf8))
        #expect(try await pair.server.receive() == nil)
        #expect(await pair.server.closed().initiator == .peer)
        for connection in [pair.client, pair.server] {
            guard case .rejected = await connection.send(message("too late")) else {
                Issue.record("was not rejected")
                return
            }
            let error = await #expect(throws: TransportError.self) { _ = try await connection.ping() }
            #expect(error != nil)
        }
        await pair.close()
    }

    @Test("closes although its inbox is full and nobody reads", arguments: names)
    func closesUnread(name: String) async throws {
        let pair = try await Pair(name, options: [.init(name: "inbox", value: "2")])
        #expect(await pair.client.send(message("hello")).isSuccess)
        _ = try await pair.server.receive()
        for number in 0..<20 { #expect(await pair.server.send(message("\(number)")).isSuccess) }
        // The answers to these are behind all that.
        if pair.client.capabilities.hasNativePing, !pair.client.capabilities.isReliable {
            _ = try await pair.client.ping()
        }
        await pair.client.close()
        #expect(await pair.client.closed().initiator == .user)
        await pair.close()
    }

    @Test("ends a waiting `receive` on both sides when one of them closes", arguments: names, Caller.allCases)
    func closeWhileReceiving(name: String, caller: Caller) async throws {
        try await caller.run {
            let pair = try await Pair(name)
            let waiting = [pair.client, pair.server].map { connection in
                Task(executorPreference: EventLoop.shared) { try await connection.receive() }
            }
            await pair.client.close()
            for task in waiting { #expect(try await task.value == nil) }
            await pair.close()
        }
    }

    @Test(
        "ends a waiting `receive` at once when its task is cancelled, and lives on",
        arguments: names,
        Caller.allCases
    )
    func cancelReceive(name: String, caller: Caller) async throws {
        let pair = try await Pair(name)
        let error = try await caller.run {
            let task = Task { try await pair.client.receive() }
            task.cancel()
            return await #expect(throws: TransportError.self) { _ = try await task.value }
        }
        #expect(error?.code == .cancelled)
        // Something that this client has sent tells MQTT's server where to answer.
        #expect(await pair.client.send(message("hello")).isSuccess)
        _ = try await pair.server.receive()
        #expect(await pair.server.send(message("alive")).isSuccess)
        #expect(try await pair.client.receive()?.bytes == Array("alive".utf8))
        await pair.close()
    }

    @Test("lets one task receive at a time, and tells a second one", arguments: names)
    func busy(name: String) async throws {
        let pair = try await Pair(name)
        try await Caller.onLoop.run {
            let first = Task(executorPreference: EventLoop.shared) { try await pair.client.receive() }
            await Task.yield()
            let error = await #expect(throws: TransportError.self) { _ = try await pair.client.receive() }
            #expect(error?.code == .busy)
            first.cancel()
            _ = try? await first.value
        }
        await pair.close()
    }
}
