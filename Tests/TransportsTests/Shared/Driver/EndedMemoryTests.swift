import TestSupport
import Testing
import TransportAPI

@testable import Transports

@Suite("An ended connection that lingers", .timeLimit(.minutes(5)), .ownThread)
struct EndedMemoryTests {
    typealias Kind = CloseFrameBeforeResetTests.Kind

    /// The part of a message of 1 MiB that has come when the connection ends.
    static let part = [UInt8](repeating: 7, count: 60_000)

    /// The same part in the bytes of each protocol.
    static func arrived(_ kind: Kind) -> [UInt8] {
        let packet: [UInt8] = [0x30, 0x80, 0x80, 0x40, 0, 1, 0x74] + part
        switch kind {
        case .webSocket: return [0x82, 127, 0, 0, 0, 0, 0, 0x10, 0, 0] + part
        case .mqttOverWebSocket: return frame(to: .client, 0x82, packet)
        case .framed, .plain: return [0, 0x10, 0, 0] + part
        case .mqtt: return packet
        }
    }

    @Test(
        "An ended connection frees a partial message and notifies its server of that",
        arguments: [Kind.framed, .webSocket, .mqtt, .mqttOverWebSocket]
    )
    func halfMessage(kind: Kind) async throws {
        let (before, reportedMemory, kept, phase) = try await DrivenConnection.onLoop { loop in
            let connection = try kind.open(on: loop)
            let driver = connection.driver
            defer { driver.close(abort: true) }
            connection.arrive(.bytes(Self.arrived(kind)))
            driver.owner = connection
            driver.reportBufferedBytes()
            let before = connection.reportedMemory
            driver.end(TransportError(.keepaliveTimeout, .open, "silent"))
            driver.flushIfRequested()
            return (
                before, connection.reportedMemory, driver.core.bufferedBytes + driver.reading.input.capacity,
                driver.phase
            )
        }
        #expect(before >= Self.part.count && phase == .draining)
        #expect(reportedMemory == 0 && kept == 0)
    }
}
