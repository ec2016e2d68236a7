import Testing
import TransportAPI

// Signs of life.
extension SessionServerTests {
    @Test("lets go of a client that answers no ping, and waits for its next connection")
    func keepalive() throws {
        _ = server {
            $0.supervisor.keepalive.interval = .seconds(30)
            $0.supervisor.keepalive.timeout = .seconds(10)
        }
        let first = client(ann)
        runtime.advance(by: .seconds(31))
        #expect(first.frames.last == .ping(1))
        first.give(.pong(1))
        runtime.advance(by: .seconds(30))
        #expect(!first.hasEnded)
        runtime.advance(by: .seconds(42))
        #expect(first.hasEnded)
        #expect(client(ann, incarnation: try #require(first.incarnation)).incarnation == first.incarnation)
    }

    @Test("asks a client after the silence that fits its transport, unless it is configured otherwise")
    func transportsInterval() throws {
        _ = server { $0.supervisor.keepalive.interval = .automatic }
        let connection = client(ann)
        // A connection says 60 s unless its transport knows better.
        runtime.advance(by: .seconds(59))
        #expect(connection.frames.last != .ping(1))
        runtime.advance(by: .seconds(2))
        #expect(connection.frames.last == .ping(1))
    }

    @Test("does not take a client for dead while nobody takes its messages")
    func slowConsumer() throws {
        _ = server {
            $0.supervisor.keepalive.interval = .seconds(30)
            $0.supervisor.keepalive.timeout = .seconds(10)
            $0.supervisor.messageBuffer = 4
        }
        let connection = client(ann)
        for number in 1...20 { connection.give(.message(UInt64(number), bytes("\(number)"))) }
        for number in 1...20 as ClosedRange<UInt32> {
            runtime.advance(by: .seconds(31))
            connection.give(.pong(number))
        }
        runtime.settle()
        #expect(!connection.hasEnded)
        #expect(try received(sessions.all.first, 20) == (1...20).map(String.init))
    }
}
