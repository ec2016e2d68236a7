import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

@Suite("UDP: floods against a real server", .timeLimit(.minutes(5)), .ownThread)
struct UDPFloodTests {
    @Test("A client for which a server keeps too much is closed, and may connect again")
    func closed() async throws {
        let listener = try await TransportRegistry.standard.listen("udp://127.0.0.1:0?max-held=1048576")
        var endpoint = listener.endpoint
        endpoint.options = [.init(name: "reliable", value: "ordered")]
        let transport = try TransportRegistry.standard.transport(for: endpoint)
        async let accepted = listener.accept()
        let connection = try await transport.connect(timeout: .seconds(10))
        // The server's app does not read.
        let server = try await accepted
        let bytes = [UInt8](repeating: 7, count: 500_000)
        for _ in 0..<3 { _ = await connection.send(Payload(bytes)) }
        #expect(await server?.closed().code == 1013)
        // The close is a datagram and may be lost. In that case the client is informed that the session does not exist.
        while (try? await connection.receive()) != nil {}
        async let next = listener.accept()
        let again = try await transport.connect(timeout: .seconds(10))
        #expect(await again.send(Payload([1])) == .written)
        #expect(try await next?.receive()?.bytes == [1])
        await again.close()
        await server?.close()
        await listener.close()
    }

    /// Counts the datagrams that a socket receives, and returns how many are missing.
    private final class Counter: PollHandler {
        private let socket: DatagramSocket
        private let batch = DatagramBatch(largest: 100)
        private var missing: Int
        private var done: CheckedContinuation<Int, Never>?

        init(_ socket: DatagramSocket, count: Int, _ done: CheckedContinuation<Int, Never>) {
            (self.socket, missing, self.done) = (socket, count, done)
        }

        func ready(_: Readiness) {
            while case .bytes(let count) = socket.receive(into: batch) {
                missing -= count
                if batch.wasLast { break }
            }
            if missing <= 0 { finish() }
        }

        func finish() {
            socket.close()
            done.take()?.resume(returning: missing)
        }
    }

    @Test("A burst that is queued at a server is processed over several ticks, and all of it is answered")
    func burst() async throws {
        let server = try await EmbeddedServer.start("udp://127.0.0.1:0", .echo)
        let address = try #require(SocketAddress(numeric: "127.0.0.1", port: server.endpoint.port ?? 0))
        let loop = EventLoop.shared
        let count = 250
        let missing = await withCheckedContinuation { continuation in
            loop.execute {
                guard let socket = try? DatagramSocket(connectedTo: address, on: loop) else {
                    return continuation.resume(returning: count)
                }
                let counter = Counter(socket, count: count, continuation)
                try? socket.attach(counter)
                _ = loop.schedule(at: loop.now + 20_000_000_000) { counter.finish() }
                // The server lives on this loop too, so it cannot read during the burst.
                var hello = [0x49, 0x4d, 1, 1] + [UInt8](repeating: 0, count: 60)
                for number in 0..<count {
                    hello[5] = UInt8(number)
                    _ = hello.withUnsafeBytes { socket.send($0) }
                }
            }
        }
        #expect(missing == 0)
        await server.stop()
    }
}
