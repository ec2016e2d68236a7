import Testing
import TransportAPI

@testable import Transports

// What becomes of batches when somebody gives up, or the link ends.

extension ContractTests {
    @Test("tells who takes batches of the end, behind the last messages", arguments: names, Caller.allCases)
    func endOfBatches(name: String, caller: Caller) async throws {
        try await caller.run {
            let pair = try await Pair(name)
            let outcomes = await pair.client.send(try Self.batch(0..<5))
            #expect(outcomes.isSuccess)
            var batch = MessageBatch()
            #expect(try await Self.take(5, from: pair.server).count == 5)
            let waiting = Task {
                var batch = MessageBatch()
                return try await pair.server.receive(into: &batch)
            }
            await pair.client.close()
            #expect(try await waiting.value == false)
            let isThere = try await pair.server.receive(into: &batch)
            let isEmpty = batch.isEmpty
            #expect(!isThere && isEmpty)
            let late = await pair.client.send(try Self.batch(0..<3))
            #expect(late.count == 3 && !late.isSuccess)
            for outcome in late {
                guard case .rejected = outcome else { return #expect(Bool(false), "\(outcome)") }
            }
            await pair.close()
        }
    }

    @Test(
        "lets who waits for a batch be cancelled, and gives the messages to the next",
        arguments: names,
        Caller.allCases
    )
    func cancelledBatch(name: String, caller: Caller) async throws {
        try await caller.run {
            let pair = try await Pair(name)
            for _ in 0..<20 {
                let waiting = Task {
                    var batch = MessageBatch()
                    return try await pair.server.receive(into: &batch) ? batch.payloads() : []
                }
                waiting.cancel()
                let outcomes = await pair.client.send(try Self.batch(7..<8))
                #expect(outcomes.isSuccess)
                do {
                    #expect(try await waiting.value.map(\.bytes) == [Array("7".utf8)])
                } catch {
                    #expect((error as? TransportError)?.code == .cancelled)
                    #expect(try await Self.take(1, from: pair.server) == [Array("7".utf8)])
                }
            }
            await pair.close()
        }
    }

    @Test(
        "refuses a second one who waits, whichever way either of them asks, and the first goes without nothing",
        arguments: names
    )
    func secondReceiver(name: String) async throws {
        let pair = try await Pair(name)
        // Something that this client has sent tells MQTT's server where to answer.
        #expect(await pair.client.send(message("hello")).isSuccess)
        _ = try await pair.server.receive()
        for round in 0..<20 {
            await withTaskGroup(of: [[UInt8]].self) { group in
                group.addTask { (try? await Self.take(1, from: pair.client)) ?? [] }
                group.addTask { (try? await pair.client.receive()).map { [$0.bytes] } ?? [] }
                // Which of them comes second is up to chance.
                #expect(await group.next() == [])
                #expect(await pair.server.send(message("\(round)")).isSuccess)
                #expect(await group.next() == [Array("\(round)".utf8)])
            }
        }
        await pair.close()
    }

    /// More than all buffers on the way take.
    private static let (muchCount, muchPadding) = (30_000, 1000)

    @Test(
        "rejects the rest of a batch whose task is cancelled, and has sent all before",
        arguments: names,
        Caller.allCases
    )
    func cancelledSending(name: String, caller: Caller) async throws {
        try await caller.run {
            let pair = try await Pair(name)
            guard pair.client.capabilities.isReliable else { return await pair.close() }
            let much = try Self.batch(0..<Self.muchCount, padding: Self.muchPadding)
            let sending = Task { [much = Sent(much)] in await pair.client.send(much.batch) }
            #expect(try await pair.server.receive()?.bytes == Self.numbered(0, Self.muchPadding))
            sending.cancel()
            let outcomes = await sending.value
            let sent = try #require(outcomes.firstIndex { !$0.isSuccess })
            #expect(outcomes.count == Self.muchCount)
            for outcome in outcomes[sent...] {
                guard case .rejected(let error) = outcome else { return #expect(Bool(false), "\(outcome)") }
                #expect(error.code == .cancelled)
            }
            let taken = try await Self.take(sent - 1, from: pair.server)
            #expect(taken.indices.allSatisfy { taken[$0] == Self.numbered($0 + 1, Self.muchPadding) })
            // Nothing came behind, and the link lives on.
            #expect(await pair.client.send(message("next")).isSuccess)
            #expect(try await pair.server.receive()?.bytes == Array("next".utf8))
            await pair.close()
        }
    }

    @Test("gives each message of a batch its outcome when the link ends within it", arguments: names, Caller.allCases)
    func endWithinBatch(name: String, caller: Caller) async throws {
        try await caller.run {
            let pair = try await Pair(name)
            guard pair.client.capabilities.isReliable else { return await pair.close() }
            let much = try Self.batch(0..<Self.muchCount, padding: Self.muchPadding)
            let sending = Task { [much = Sent(much)] in await pair.client.send(much.batch) }
            #expect(try await pair.server.receive()?.bytes == Self.numbered(0, Self.muchPadding))
            await pair.server.close()
            let outcomes = await sending.value
            let sent = try #require(outcomes.firstIndex { !$0.isSuccess })
            #expect(outcomes.count == Self.muchCount)
            #expect(outcomes[sent...].allSatisfy { !$0.isSuccess && $0 != .expired })
            await pair.close()
        }
    }

    /// A batch in the hands of a task.
    private final class Sent: Sendable {
        let batch: MessageBatch

        init(_ batch: consuming sending MessageBatch) { self.batch = batch }
    }
}
