import Testing
import TransportAPI

@testable import Transports

// Messages by the batch, on the links' loop and away from it.

extension ContractTests {
    static func batch(_ numbers: Range<Int>, padding: Int = 0) throws -> MessageBatch {
        var batch = MessageBatch()
        for number in numbers { try batch.append(Payload(numbered(number, padding))) }
        return batch
    }

    static func numbered(_ number: Int, _ padding: Int) -> [UInt8] {
        Array("\(number)".utf8) + [UInt8](repeating: 0x20, count: padding)
    }

    /// Takes batches until `count` messages have come, and gives their bytes.
    static func take(_ count: Int, from link: any Link) async throws -> [[UInt8]] {
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

    @Test(
        "takes batches and single messages of many tasks at once, each once, and each task's in order",
        arguments: names
    )
    func manyBatchSenders(name: String) async throws {
        let pair = try await Pair(name)
        let (senders, rounds, size) = (4, 5, 10)
        let sending = (0..<senders).map { sender in
            Task.detached {
                for round in 0..<rounds {
                    let first = sender * 1000 + round * (size + 1)
                    let outcomes = await pair.client.send(try Self.batch(first..<first + size))
                    #expect(outcomes.count == size && outcomes.isSuccess)
                    #expect(await pair.client.send(Payload(Self.numbered(first + size, 0))).isSuccess)
                }
            }
        }
        let count = senders * rounds * (size + 1)
        let taken = try await Self.take(count, from: pair.server).compactMap {
            Int(String(decoding: $0, as: UTF8.self))
        }
        for task in sending { try await task.value }
        for sender in 0..<senders {
            #expect(taken.filter { $0 / 1000 == sender } == (0..<rounds * (size + 1)).map { sender * 1000 + $0 })
        }
        #expect(taken.count == count)
        #expect(await pair.client.statistics().messagesSent == UInt64(count))
        #expect(await pair.server.statistics().messagesReceived == UInt64(count))
        await pair.close()
    }

    @Test(
        "has many messages of a batch under way where they are acknowledged, and keeps their order",
        arguments: ["mqtt", "mqtt+ws"]
    )
    func acknowledgedBatch(name: String) async throws {
        let options = [("qos", "1"), ("in-flight", "20")].map { Endpoint.Option(name: $0.0, value: $0.1) }
        let pair = try await Pair(name, options: options)
        let sending = Task { await pair.client.send(try Self.batch(0..<3000)) }
        let taken = try await Self.take(3000, from: pair.server)
        #expect(taken == (0..<3000).map { Self.numbered($0, 0) })
        #expect(try await sending.value.allSatisfy { $0 == .acknowledged })
        await pair.close()
    }
}
