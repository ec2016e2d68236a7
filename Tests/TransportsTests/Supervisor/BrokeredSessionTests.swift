import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

/// Tests sessions through a broker, which acknowledges each message itself.
@Suite("Sessions through a broker", .timeLimit(.minutes(5)), .ownThread)
struct BrokeredSessionTests {
    private func configuration() -> SupervisorConfiguration {
        var configuration = SupervisorConfiguration.quick
        configuration.delivery.mode = .session
        return configuration
    }

    private func endpoint(_ server: EmbeddedServer, _ options: String) throws -> Endpoint {
        try Endpoint("mqtt://127.0.0.1:\(server.endpoint.port ?? 0)/?qos=1&\(options)")
    }

    @Test("A broker acknowledges each message, and each is delivered once and in order")
    func acknowledged() async throws {
        let broker = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let (ann, _) = try Supervisor.recorded([endpoint(broker, "publish=room")], configuration())
        let (ben, recorder) = try Supervisor.recorded([endpoint(broker, "subscribe=room")], configuration())
        var messages = ben.messages.makeAsyncIterator()
        ben.connect()
        await recorder.waitUntilOpen()
        ann.connect()
        for number in 0..<50 {
            #expect(await ann.send(bytes("\(number)")) == .acknowledged)
            #expect(await messages.next()?.string == "\(number)")
        }
        #expect(!recorder.events.contains(.duplicate))
        await ann.close()
        await ben.close()
        await broker.stop()
    }

    @Test("A supervisor drops repeated messages and delivers messages without an envelope")
    func duplicates() async throws {
        let broker = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let (ben, recorder) = try Supervisor.recorded([endpoint(broker, "subscribe=room")], configuration())
        var messages = ben.messages.makeAsyncIterator()
        ben.connect()
        await recorder.waitUntilOpen()
        let connection = try await TransportRegistry.standard.connect("\(endpoint(broker, "publish=room"))")
        let sender = SessionID(high: 1, low: 2)
        for sequence: UInt64 in [1, 2, 1, 2, 3] {
            #expect(
                await connection.send(SessionFrame.origin(sender, sequence, bytes("\(sequence)")).payload)
                    == .acknowledged
            )
        }
        #expect(await connection.send(bytes("bare")) == .acknowledged)
        for expected in ["1", "2", "3", "bare"] { #expect(await messages.next()?.string == expected) }
        #expect(recorder.events.count { $0 == .duplicate } == 2)
        await connection.close()
        await ben.close()
        await broker.stop()
    }

    @Test("Messages that another client publishes under the sender's identifier do not suppress the sender's messages")
    func forged() async throws {
        let broker = try await EmbeddedServer.start("mqtt://127.0.0.1:0")
        let (ben, recorder) = try Supervisor.recorded([endpoint(broker, "subscribe=room")], configuration())
        var messages = ben.messages.makeAsyncIterator()
        ben.connect()
        await recorder.waitUntilOpen()
        let connection = try await TransportRegistry.standard.connect("\(endpoint(broker, "publish=room"))")
        let sender = SessionID(high: 1, low: 2)
        for sequence: UInt64 in [1, 2, 3, 5000, 1 << 40] {
            let frame = SessionFrame.origin(sender, sequence, bytes("forged \(sequence)"))
            #expect(await connection.send(frame.payload) == .acknowledged)
            #expect(await messages.next()?.string == "forged \(sequence)")
        }
        for sequence: UInt64 in 1...3 {
            let frame = SessionFrame.origin(sender, sequence, bytes("true \(sequence)"))
            #expect(await connection.send(frame.payload) == .acknowledged)
            #expect(await messages.next()?.string == "true \(sequence)")
        }
        await connection.close()
        await ben.close()
        await broker.stop()
    }

    @Test("A supervisor sends the messages that the stopped broker had not acknowledged, in order")
    func restart() async throws {
        let port = try ReservedPort(isDatagram: false)
        let broker = try await EmbeddedServer.start("mqtt://\(port.address)")
        let (ann, recorder) = try Supervisor.recorded(
            [endpoint(broker, "publish=room&subscribe=room")],
            configuration()
        )
        let messages = ann.messages
        ann.connect()
        await recorder.waitUntilOpen()
        await broker.stop()
        await recorder.wait { $0.contains { if case .attemptFailed = $0 { true } else { false } } }
        let sends = (0..<100).map { number in
            Task(executorPreference: EventLoop.shared) { await ann.send(bytes("\(number)")) }
        }
        let again = try await EmbeddedServer.start("mqtt://\(port.address)")
        for send in sends { #expect(await send.value == .acknowledged) }
        var seen: [String] = []
        for await message in messages.prefix(100) { seen.append(message.string) }
        #expect(seen == (0..<100).map(String.init))
        await ann.close()
        await again.stop()
        withExtendedLifetime(port) {}
    }
}
