import Primitives
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
            let routes = RuntimeBound(SubscriptionRouter(limit: 1, on: loop), to: loop)
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
}
