import TestSupport
import Testing

@testable import Transports

@Suite("The memory of a partial frame", .timeLimit(.minutes(5)), .ownThread)
struct InputMemoryTests {
    /// A message as an MQTT packet at QoS 0. The driver, and not the core, buffers the packet until it is complete.
    static func packet(_ message: [UInt8]) -> [UInt8] {
        let rest = [0, 1, 0x74] + message
        return [0x30, UInt8(rest.count & 127 | 128), UInt8(rest.count >> 7 & 127 | 128), UInt8(rest.count >> 14)] + rest
    }

    @Test(
        "The memory of a partial frame fits its size, and the frame is complete when the rest comes",
        arguments: [0, 1, 100, 5000, 16_379, 16_380, 40_000]
    )
    func parts(cut: Int) async throws {
        let long = longBytes(50_000)
        let packet = Self.packet(long)
        let (kept, messages, left) = try await DrivenConnection.onLoop { loop in
            let connection = try CloseFrameBeforeResetTests.Kind.mqtt.open(on: loop)
            let driver = connection.driver
            driver.owner = connection
            defer { driver.close(abort: true) }
            driver.reportBufferedBytes()
            let before = connection.reportedMemory
            connection.arrive(.bytes(Self.packet([1, 2, 3]) + packet[..<(4 + cut)]))
            // The first message is in the inbox.
            let kept = connection.reportedMemory - before - driver.receiving.inbox.bufferedBytes
            // The first bytes come one by one, as a slow peer sends them.
            for byte in packet[(4 + cut)..<(4 + cut + 10)] { connection.arrive(.bytes([byte])) }
            connection.arrive(.bytes(packet[(4 + cut + 10)...] + Self.packet([4, 5, 6])))
            var messages: [[UInt8]] = []
            while case .success(let payload?)? = driver.takeMessage() { messages.append(payload.bytes) }
            return (kept, messages, connection.reportedMemory - before + driver.reading.input.capacity)
        }
        #expect(kept >= 4 + cut && kept <= 2 * (4 + cut))
        #expect(messages == [[1, 2, 3], long, [4, 5, 6]])
        #expect(left == 0)
    }
}
