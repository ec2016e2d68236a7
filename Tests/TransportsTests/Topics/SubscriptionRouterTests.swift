import Primitives
import Protocols
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

@Suite("Messages by filter", .timeLimit(.minutes(5)), .ownThread)
struct SubscriptionRouterTests {
    @Test("A sequence may receive more messages than it holds before its SUBACK")
    func early() async throws {
        let loop = try EventLoop(name: "routes")
        let messages = await Task(executorPreference: loop) {
            let routes = RuntimeBound(SubscriptionRouter<MQTTTopic>(limit: 1, on: loop), to: loop)
            let messages = routes.value.listen("t")
            routes.value.ask("t")
            for number in 0..<20 as Range<UInt8> { await routes.value.deliver(Payload([number], topic: "t"), routes) }
            routes.value.answered("t")
            routes.value.finish()
            return messages
        }.value
        var received: [[UInt8]] = []
        for await message in messages { received.append(try message.get().bytes) }
        #expect(received == (0..<20).map { [$0] })
    }

    @Test("A filter that is made while another one is full gets the messages that have waited, and all go on")
    func filledWhileFull() async throws {
        let loop = try EventLoop(name: "routes")
        try await Task(executorPreference: loop) { () async throws in
            let routes = RuntimeBound(SubscriptionRouter<MQTTTopic>(limit: 2, on: loop), to: loop)
            let first = routes.value.listen("a")
            for number in 0..<3 as Range<UInt8> { routes.value.hold(Payload([number], topic: "b"), .key(1)) }
            let delivering = Task(executorPreference: loop) {
                for number in 0..<3 as Range<UInt8> {
                    await routes.value.deliver(Payload([number], topic: "a"), routes)
                }
            }
            // The first call waits now, because too many messages wait for a filter.
            await Task.yield()
            let second = routes.value.listen("b")
            var (ones, others) = (first.makeAsyncIterator(), second.makeAsyncIterator())
            #expect(try await ones.next()?.get().bytes == [0])
            for number in 0..<3 as Range<UInt8> { #expect(try await others.next()?.get().bytes == [number]) }
            for number in 1..<3 as Range<UInt8> { #expect(try await ones.next()?.get().bytes == [number]) }
            await delivering.value
        }.value
    }

    @Test("Messages reach the filters of another syntax, and those that no filter matches wait for one")
    func otherSyntax() async throws {
        let loop = try EventLoop(name: "routes")
        try await Task(executorPreference: loop) { () async throws in
            let routes = RuntimeBound(SubscriptionRouter<Subjects>(limit: 4, on: loop), to: loop)
            let rooms = routes.value.listen("rooms.*")
            for topic in ["rooms.1", "rooms.1.x", "rooms/2", "rooms.2"] {
                await routes.value.deliver(Payload(text: topic, topic: topic), routes)
            }
            var (ones, others) = (rooms.makeAsyncIterator(), routes.value.listen("rooms.1.>").makeAsyncIterator())
            for topic in ["rooms.1", "rooms.2"] { #expect(try await ones.next()?.get().topic == topic) }
            #expect(try await others.next()?.get().topic == "rooms.1.x")
        }.value
    }
}
