import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

@Suite("Memory of compressed messages", .enabled(if: ZLib.shared != nil))
struct CompressedMemoryTests {
    @Test("A message takes memory for its bytes so far and one part more, even close to its expansion limit")
    func parts() throws {
        // The message expands evenly: 80 bytes that cannot be compressed alternate with thousands of zeros.
        var random = RandomSource.seeded(7)
        var message = [UInt8](repeating: 0, count: 8000 * 1000)
        for start in stride(from: 0, to: message.count, by: 8000) {
            for index in start..<start + 80 { message[index] = UInt8(truncatingIfNeeded: random.next()) }
        }
        var client = try CompressionTests.open(.client)
        _ = try client.send(Payload(message))
        let bytes = client.takeOutput()
        let expansion = message.count / bytes.count
        var server = try CompressionTests.open(.server) { $0.compression?.expansion.factor = expansion + 2 }
        var ahead = 0
        for start in stride(from: 0, to: bytes.count, by: 1000) {
            server.feed(Array(bytes[start..<min(start + 1000, bytes.count)]))
            let held = server.core.reader.message
            // The expanded size of a piece is not known before, so each part has some room for it.
            ahead = max(ahead, held.capacity - held.count / 4 * 5)
        }
        let isWhole = server.messages.first?.bytes == message
        #expect(server.failure == nil && isWhole)
        #expect(expansion > 50 && ahead <= MessageParts.size + MessageParts.slack)
    }

    @Test("A message grows by little between two readings of the clock, however well it was compressed")
    func smallSteps() throws {
        var client = try CompressionTests.open(.client)
        _ = try client.send(Payload([UInt8](repeating: 0, count: 1 << 20)))
        var input = ByteBuffer()
        input.append(contentsOf: client.takeOutput())
        var server = try CompressionTests.open(.server)
        var (steps, before, most) = (0, 0, 0)
        while case .progress? = try server.core.next(&input, &server.context) {
            let now = server.core.reader.message.count
            (steps, before, most) = (steps + 1, now, max(most, now - before))
        }
        #expect(steps >= 64 && most <= 16 << 10)
    }

    @Test(
        "A message of the largest size that cannot be compressed arrives, also with the smallest window",
        arguments: [9, 15]
    )
    func incompressible(window: Int) throws {
        var random = RandomSource.seeded(11)
        let message = (0..<60_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        var client = try CompressionTests.open(.client, "; client_max_window_bits=\(window)")
        _ = try client.send(Payload(message))
        let bytes = client.takeOutput()
        var server = try CompressionTests.open(.server, "; client_max_window_bits=\(window)") {
            $0.maximumMessageSize = message.count
        }
        server.feed(bytes)
        let isWhole = server.messages.first?.bytes == message
        #expect(bytes.first == 0xc2 && bytes.count > message.count)
        #expect(server.failure == nil && isWhole)
    }

    /// How a connection ends.
    enum End: Sendable, CaseIterable {
        case violation, peerClose, localClose
    }

    @Test(
        "A connection that ends releases its memory, including that of an incomplete message",
        arguments: End.allCases
    )
    func ending(end: End) throws {
        for role in [CoreRole.client, .server] {
            var connection = try CompressionTests.open(role)
            connection.feed(frame(to: role, 0xc1, [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00]))
            _ = try connection.send(Payload(text: String(repeating: "Hello", count: 20)))
            connection.feed(frame(to: role, 0x02, [UInt8](repeating: 7, count: 50_000)))
            let before = connection.core.bufferedBytes
            switch end {
            case .violation: connection.feed(frame(to: role, 0xff))
            case .peerClose: connection.feed(frame(to: role, 0x88, closeBody(1000)))
            case .localClose: connection.core.close(.user, &connection.context)
            }
            let after = connection.core.bufferedBytes
            #expect(before > 350_000 && after == 0)
            // After our close frame, the rest of the message and a compressed message are skipped.
            connection.feed(frame(to: role, 0x80, [7]) + frame(to: role, 0xc1, [0xf2, 0x00, 0x11, 0x00, 0x00]))
            connection.feed(frame(to: role, 0x88, closeBody(1000)))
            connection.endInput()
            #expect((connection.failure == nil) == (end != .violation) && connection.messages.count == 1)
        }
    }
}
