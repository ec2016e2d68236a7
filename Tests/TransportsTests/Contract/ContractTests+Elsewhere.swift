import SocketIO
import Testing
import TransportAPI

// Callers that are not on the links' loop, which is lent to them while it sleeps.

extension ContractTests {
    @Test("takes the messages of many tasks elsewhere, each once and with one outcome", arguments: names)
    func manySendersElsewhere(name: String) async throws {
        let pair = try await Pair(name)
        let senders = (0..<4).map { sender in
            Task.detached {
                var successes = 0
                for number in 0..<50 {
                    let outcome = await pair.client.send(Payload(Array("\(sender) \(number)".utf8)))
                    if outcome.isSuccess { successes += 1 }
                }
                return successes
            }
        }
        var seen: Set<[UInt8]> = []
        for _ in 0..<200 { seen.insert(try #require(try await pair.server.receive()).bytes) }
        #expect(seen.count == 200)
        for sender in senders { #expect(await sender.value == 50) }
        await pair.close()
    }

    @Test("gives a message to who waits elsewhere, or to the next one if his wait was cancelled", arguments: names)
    func cancelReceiveElsewhere(name: String) async throws {
        let pair = try await Pair(name)
        // Something that this client has sent tells MQTT's server where to answer.
        #expect(await pair.client.send(message("hello")).isSuccess)
        _ = try await pair.server.receive()
        for number in 0..<50 {
            let payload = message("\(number)")
            let waiting = Task.detached { try await pair.client.receive() }
            let sending = Task.detached { await pair.server.send(payload) }
            waiting.cancel()
            #expect(await sending.value.isSuccess)
            let received: Payload?
            do {
                received = try await waiting.value
            } catch {
                #expect((error as? TransportError)?.code == .cancelled)
                received = try await pair.client.receive()
            }
            #expect(received?.bytes == payload.bytes)
        }
        await pair.close()
    }
}

extension ContractTests {
    @Test("serves an actor that lives on another loop, and never takes it away from there", arguments: names)
    func stranger(name: String) async throws {
        let pair = try await Pair(name)
        try await Stranger().exchange(pair)
        await pair.close()
    }
}

/// An actor whose executor is another loop than the links'.
private actor Stranger {
    private static let loop = try? EventLoop(name: "strange")

    nonisolated var unownedExecutor: UnownedSerialExecutor {
        (Self.loop ?? .shared).serialExecutor.asUnownedSerialExecutor()
    }

    private var isAtHome: Bool { Self.loop?.isCurrent ?? false }

    func exchange(_ pair: ContractTests.Pair) async throws {
        var batch = MessageBatch()
        for number in 0..<50 as Range<UInt8> {
            #expect(await pair.client.send(Payload([number])).isSuccess && isAtHome)
            #expect(try await pair.server.receive()?.bytes == [number])
            #expect(isAtHome)
            batch.removeAll()
            for more in 0..<9 as Range<UInt8> { try batch.append(Payload([number, more])) }
            let outcomes = await pair.client.send(batch)
            #expect(outcomes.count == 9 && outcomes.isSuccess && isAtHome)
            var count = 0
            while count < 9, try await pair.server.receive(into: &batch) {
                count += batch.payloads().count
                #expect(isAtHome)
            }
            #expect(await pair.client.statistics().messagesSent == UInt64(number) * 10 + 10)
            #expect(isAtHome)
        }
        await pair.client.close()
        let isThere = try await pair.server.receive(into: &batch)
        #expect(!isThere && isAtHome)
    }
}
