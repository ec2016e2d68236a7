import EmbeddedServers
import Foundation
import TestSupport
import Testing
import TransportAPI
import Transports

/// A broker in its own process that SIGSTOP stops and SIGCONT continues, as `docker pause` or a debugger does.
@Suite("A broker process that was stopped", .timeLimit(.minutes(5)), .ownThread)
struct StoppedBrokerTests {
    private static let clients = UInt8(5)

    /// PUBLISH to the topic "a" with 44 bytes: the number of a client, and zeros. Framing by varint makes the first byte of
    /// each packet of MQTT a length.
    private func publish(_ number: UInt8) -> Payload {
        Payload([47, 0, 1, 97, number] + [UInt8](repeating: 0, count: 43))
    }

    /// The clients send a packet in each second and do not wait for the broker.
    @Test("It keeps the clients whose packets have come meanwhile")
    func keepsClients() async throws {
        let serving = try await Serving.start("mqtt://127.0.0.1:0")
        let address = "127.0.0.1:\(serving.port)"
        let subscriber = try await TransportRegistry.standard.connect("mqtt://\(address)?subscribe=a")
        var clients: [any Connection] = []
        for number in 0..<Self.clients {
            let client = try await TransportRegistry.standard.connect("tcp://\(address)?framing=varint")
            // CONNECT with a keep alive of 2 s: the broker ends the connection after 3 s of silence.
            _ = await client.send(Payload([15, 0, 4, 77, 81, 84, 84, 4, 2, 0, 2, 0, 3, 97, 98, 48 + number]))
            clients.append(client)
        }
        /// Lets each client send one message, whose first byte is its number and `base`.
        func send(_ base: UInt8) async {
            for (number, client) in clients.enumerated() {
                #expect(await client.send(publish(base + UInt8(number))) == .written)
            }
        }
        /// Receives until a message of each client with `base` has come.
        func receiveAll(_ base: UInt8) async throws {
            var missing = Set(base..<base + Self.clients)
            while !missing.isEmpty {
                let message = try #require(try await subscriber.receive())
                if let first = message.bytes.first { missing.remove(first) }
            }
        }
        await send(10)
        try await receiveAll(10)
        serving.signal(SIGSTOP)
        // A broker that is stopped answers no attempt, so an attempt takes a second. The first may come before the stop.
        for _ in 0..<5 {
            var error: TransportError?
            while error == nil, !Task.isCancelled {
                await send(20)
                do throws(TransportError) {
                    let early = try await TransportRegistry.standard.connect("mqtt://\(address)?handshake-timeout=1s")
                    await early.close()
                } catch let refusal {
                    error = refusal
                }
            }
            #expect(error?.code == .timedOut)
        }
        serving.signal(SIGCONT)
        await send(30)
        try await receiveAll(30)
        for client in clients { await client.close() }
        await subscriber.close()
        #expect(try await serving.interrupt() == 130)
    }
}
