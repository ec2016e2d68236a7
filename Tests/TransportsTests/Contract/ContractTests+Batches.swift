import Testing
import TransportAPI

@testable import Transports

// Messages by the batch, on the links' loop and away from it.

extension ContractTests {
    private static func batch(_ numbers: Range<Int>, padding: Int = 0) throws -> MessageBatch {
        var batch = MessageBatch()
        for number in numbers { try batch.append(Payload(numbered(number, padding))) }
        return batch
    }

    private static func numbered(_ number: Int, _ padding: Int) -> [UInt8] {
        Array("\(number)".utf8) + [UInt8](repeating: 0x20, count: padding)
    }

    /// Takes batches until `count` messages have come, and gives their bytes.
    private static func take(_ count: Int, from link: any Link) async throws -> [[UInt8]] {
        var batch = MessageBatch()
        var taken: [[UInt8]] = []
        while taken.count < count, try await link.receive(into: &batch) {
            let payloads = batch.payloads()
            #expect(!payloads.isEmpty)
            taken += payloads.map(\.bytes)
        }
        return taken
    }

    @Test(
        "carries batches both ways, in their order, with an outcome for each message",
        arguments: names,
        Caller.allCases
    )
    func batchesBothWays(name: String, caller: Caller) async throws {
        try await caller.run {
            let pair = try await Pair(name)
            for count in [1, 30, 0, 200] {
                let sent = try Self.batch(0..<count)
                let expected = (0..<count).map { Self.numbered($0, 0) }
                let there = await pair.client.send(sent)
                #expect(there.count == count && there.isSuccess)
                #expect(try await Self.take(count, from: pair.server) == expected)
                let back = await pair.server.send(sent)
                #expect(back.count == count && back.isSuccess)
                #expect(try await Self.take(count, from: pair.client) == expected)
            }
            await pair.close()
        }
    }

    @Test("keeps the order where messages are taken now one by one, now all that are there", arguments: names)
    func mixedReceiving(name: String) async throws {
        let pair = try await Pair(name)
        var batch = MessageBatch()
        var next = 0
        for round in 0..<20 {
            let outcomes = await pair.client.send(try Self.batch(next..<next + 10))
            #expect(outcomes.isSuccess)
            let end = next + 10
            while next < end {
                if (round + next).isMultiple(of: 3) {
                    let isThere = try await pair.server.receive(into: &batch)
                    #expect(isThere)
                    for payload in batch.payloads() {
                        #expect(payload.bytes == Self.numbered(next, 0))
                        next += 1
                    }
                } else {
                    #expect(try await pair.server.receive()?.bytes == Self.numbered(next, 0))
                    next += 1
                }
            }
        }
        await pair.close()
    }

    @Test(
        "holds a batch back that is more than it may keep, until the far side has taken some",
        arguments: names,
        Caller.allCases
    )
    func longBatch(name: String, caller: Caller) async throws {
        try await caller.run {
            let pair = try await Pair(name, options: [.init(name: "write-buffer", value: "10000")])
            // What datagrams lose is theirs to lose.
            let count = pair.client.capabilities.isReliable ? 40_000 : 0
            let sending = Task { await pair.client.send(try Self.batch(0..<count, padding: 100)) }
            let taken = try await Self.take(count, from: pair.server)
            let outcomes = try await sending.value
            #expect(outcomes.count == count && outcomes.isSuccess)
            #expect(taken.count == count && taken.indices.allSatisfy { taken[$0] == Self.numbered($0, 100) })
            await pair.close()
        }
    }

    @Test("refuses what is too long within a batch, and sends all around it", arguments: names)
    func tooLongInBatch(name: String) async throws {
        let pair = try await Pair(name, options: [.init(name: "max-message", value: "1000")])
        var batch = try Self.batch(0..<2)
        try batch.append(Payload([UInt8](repeating: 1, count: 1001)))
        try batch.append(Payload(Self.numbered(2, 0)))
        let outcomes = await pair.client.send(batch)
        #expect(outcomes.map(\.isSuccess) == [true, true, false, true])
        guard case .rejected(let error) = outcomes[2] else { return #expect(Bool(false), "was not rejected") }
        #expect(error.code == .messageTooLarge)
        #expect(try await Self.take(3, from: pair.server) == (0..<3).map { Self.numbered($0, 0) })
        await pair.close()
    }

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

    @Test("refuses a second one who waits, whichever way either of them asks", arguments: names)
    func secondReceiver(name: String) async throws {
        let pair = try await Pair(name)
        await withTaskGroup(of: TransportError.Code?.self) { group in
            group.addTask {
                await Self.code {
                    var batch = MessageBatch()
                    _ = try await pair.client.receive(into: &batch)
                }
            }
            group.addTask { await Self.code { _ = try await pair.client.receive() } }
            // Which of them comes second is up to chance; the other waits on.
            #expect(await group.next() == .busy)
            await pair.close()
            #expect(await group.next() == .some(nil))
        }
    }

    private static func code(_ body: () async throws -> Void) async -> TransportError.Code? {
        do {
            try await body()
            return nil
        } catch {
            return (error as? TransportError)?.code
        }
    }
}
