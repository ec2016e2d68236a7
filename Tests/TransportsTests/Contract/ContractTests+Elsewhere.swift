import SocketIO
import Testing
import TransportAPI

// Callers that are not on the connections' loop, which is lent to them while it sleeps.

extension ContractTests {
    @Test("takes the messages of many tasks elsewhere, each once, in its task's order", arguments: names)
    func manySendersElsewhere(name: String) async throws {
        let pair = try await Pair(name)
        let senders = (0..<4).map { sender in
            Task.detached {
                var successes = 0
                for number in 0..<50 {
                    let outcome = await pair.client.send(message("\(sender * 1000 + number)"))
                    if outcome.isSuccess { successes += 1 }
                }
                return successes
            }
        }
        var seen: [Int] = []
        for _ in 0..<200 {
            let bytes = try #require(try await pair.server.receive()).bytes
            seen.append(try #require(Int(String(decoding: bytes, as: UTF8.self))))
        }
        for sender in 0..<4 {
            #expect(seen.filter { $0 / 1000 == sender } == (0..<50).map { sender * 1000 + $0 })
        }
        for sender in senders { #expect(await sender.value == 50) }
        #expect(await pair.client.statistics().messagesSent == 200)
        #expect(await pair.server.statistics().messagesReceived == 200)
        await pair.close()
    }

    @Test("refuses the second of two receivers, and gives the first the message", arguments: names)
    func secondReceiver(name: String) async throws {
        let pair = try await Pair(name)
        // Something that this client has sent tells MQTT's server where to answer.
        #expect(await pair.client.send(message("hello")).isSuccess)
        _ = try await pair.server.receive()
        for number in 0..<50 {
            await withTaskGroup(of: Result<Payload?, any Error>.self) { group in
                for _ in 0..<2 {
                    group.addTask {
                        do { return .success(try await pair.client.receive()) } catch { return .failure(error) }
                    }
                }
                // Which of them comes second is up to chance.
                guard case .failure(let error)? = await group.next() else {
                    Issue.record("a receiver ended before there was a message")
                    return
                }
                #expect((error as? TransportError)?.code == .busy)
                #expect(await pair.server.send(message("\(number)")).isSuccess)
                #expect((try? await group.next()?.get())?.bytes == message("\(number)").bytes)
            }
        }
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

/// An actor whose executor is another loop than the connections'.
private actor Stranger {
    private static let loop = try? EventLoop(name: "strange")

    nonisolated var unownedExecutor: UnownedSerialExecutor {
        (Self.loop ?? .shared).serialExecutor.asUnownedSerialExecutor()
    }

    private var isAtHome: Bool { Self.loop?.isCurrent ?? false }

    func exchange(_ pair: ContractTests.Pair) async throws {
        for number in 0..<50 as Range<UInt8> {
            #expect(await pair.client.send(Payload([number])).isSuccess && isAtHome)
            #expect(try await pair.server.receive()?.bytes == [number])
            #expect(isAtHome)
            #expect(await pair.client.statistics().messagesSent == UInt64(number) + 1)
            #expect(isAtHome)
        }
        await pair.client.close()
        #expect(try await pair.server.receive() == nil)
        #expect(isAtHome)
    }
}
