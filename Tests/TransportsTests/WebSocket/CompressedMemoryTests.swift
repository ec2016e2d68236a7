import Testing
import TransportAPI

@testable import Transports

@Suite("The memory of compressed messages", .enabled(if: ZLib.shared != nil))
struct CompressedMemoryTests {
    @Test("grows by doubling, however closely a message keeps to what it may expand to")
    func doubling() throws {
        // Expands alike all along: eighty bytes that can't be compressed, and thousands that are nothing.
        var random = RandomSource.seeded(7)
        var message = [UInt8](repeating: 0, count: 8000 * 1000)
        for start in stride(from: 0, to: message.count, by: 8000) {
            for index in start..<start + 80 { message[index] = UInt8(truncatingIfNeeded: random.next()) }
        }
        var client = try CompressionTests.open(.client)
        _ = try client.send(Payload(message))
        let bytes = client.takeOutput()
        let expansion = message.count / bytes.count
        var server = try CompressionTests.open(.server) { $0.compression?.maximumExpansion = expansion + 2 }
        var capacities: Set<Int> = []
        for start in stride(from: 0, to: bytes.count, by: 1000) {
            server.feed(Array(bytes[start..<min(start + 1000, bytes.count)]))
            capacities.insert(server.core.reader.reservedBytes)
        }
        let isWhole = server.messages.first?.bytes == message
        #expect(server.failure == nil && isWhole)
        #expect(expansion > 50 && capacities.count <= 16)
    }
}
