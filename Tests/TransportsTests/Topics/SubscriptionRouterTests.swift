import Primitives
import Protocols
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

@Suite("Messages by filter", .timeLimit(.minutes(5)), .ownThread)
struct SubscriptionRouterTests {
    @Sendable
    private static func matches(_ filter: String, _ topic: String) -> Bool {
        MQTTTopic.matches(filter: filter, topic: topic)
    }

    @Test("A message that names its subscription goes to that alone, whatever its topic is")
    func named() async throws {
        let loop = try EventLoop(name: "routes")
        try await Task(executorPreference: loop) { () async throws in
            let router = SubscriptionRouter(limit: 4, on: loop) { _, _ in true }
            let routes = RuntimeBound(router, to: loop)
            let (all, one) = (routes.value.listen("/topic/rooms.*"), routes.value.listen("/topic/rooms.1"))
            routes.value.name("/topic/rooms.*", 1)
            routes.value.name("/topic/rooms.1", 2)
            for number in 1...3 as ClosedRange<UInt32> {
                var payload = Payload(text: "\(number)", topic: "/topic/rooms.1")
                payload.subscription = number
                await routes.value.deliver(payload, routes)
            }
            routes.value.complete()
            #expect(routes.value.unclaimedCount == 1)
            routes.value.finish()
            for (messages, text) in [(all, "1"), (one, "2")] {
                var texts: [String] = []
                for await message in messages { texts.append(String(decoding: try message.get().bytes, as: UTF8.self)) }
                #expect(texts == [text])
            }
        }.value
    }

    @Test("A sequence may receive more messages than it holds before its SUBACK")
    func early() async throws {
        let loop = try EventLoop(name: "routes")
        let messages = await Task(executorPreference: loop) {
            let routes = RuntimeBound(SubscriptionRouter(limit: 1, on: loop, matching: Self.matches), to: loop)
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
            let routes = RuntimeBound(SubscriptionRouter(limit: 2, on: loop, matching: Self.matches), to: loop)
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
            let router = SubscriptionRouter(limit: 4, on: loop) { Subjects.matches(filter: $0, topic: $1) }
            let routes = RuntimeBound(router, to: loop)
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
