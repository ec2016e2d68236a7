import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

@Suite("An app that waits for a send in its receive loop", .timeLimit(.minutes(5)), .ownThread)
struct AnsweringTests {
    @Test(
        "A connection receives PUBACK behind more messages than its inbox holds",
        arguments: ["on", "off"]
    )
    func acknowledgementBehindMessages(cleanSession: String) async throws {
        let loop = try EventLoop(name: "answering")
        let broker = try EagerBroker(messages: 40)
        let connection = try await TransportRegistry.standard.connect(
            "mqtt://127.0.0.1:\(broker.port)/?publish=room&qos=1&inbox=1&clean-session=\(cleanSession)&client-id=a",
            on: loop
        )
        var received: [[UInt8]] = []
        for _ in 0..<40 {
            received.append(try #require(try await connection.receive()).bytes)
            #expect(await connection.send(Payload([1])) == .acknowledged)
        }
        #expect(received == (0..<40).map { [UInt8($0)] })
        // In a kept session, the client sends no PUBACK for messages that the app has not taken.
        if cleanSession == "off" { #expect(broker.receiptsBeforeFirstAnswer <= 1) }
        await connection.close()
        broker.stop()
    }
}

/// Sends all its messages at QoS 1 after CONNACK, and acknowledges every message that it receives.
private final class EagerBroker: Sendable {
    private let listener: RawListener
    private let receipts = Locked<(seen: Int, beforeFirst: Int?)>((0, nil))
    var port: UInt16 { listener.port }
    /// The number of PUBACKs that came before the client's first message.
    var receiptsBeforeFirstAnswer: Int { receipts.withLock { $0.beforeFirst ?? $0.seen } }

    init(messages: Int) throws {
        listener = try RawListener()
        listener.serve { [receipts] _, connection in
            guard Self.packet(connection) != nil else { return }
            var greeting: [UInt8] = [0x20, 2, 0, 0]
            for number in 0..<messages {
                greeting += [0x32, 9, 0, 4] + Array("room".utf8) + [0, UInt8(number + 1), UInt8(number)]
            }
            _ = send(connection, greeting, greeting.count, Int32(MSG_NOSIGNAL))
            while let packet = Self.packet(connection) {
                switch packet.first {
                case 0x32 where packet.count >= 10:
                    receipts.withLock { $0.beforeFirst = $0.beforeFirst ?? $0.seen }
                    let answer: [UInt8] = [0x40, 2, packet[8], packet[9]]
                    _ = send(connection, answer, answer.count, Int32(MSG_NOSIGNAL))
                case 0x40: receipts.withLock { $0.seen += 1 }
                default: break
                }
            }
            close(connection)
        }
    }

    /// The next packet, whose body has at most 127 bytes. `nil` at the end of the input.
    private static func packet(_ connection: Int32) -> [UInt8]? {
        guard let head = read(connection, 2), head[1] < 128 else { return nil }
        return read(connection, Int(head[1])).map { head + $0 }
    }

    private static func read(_ connection: Int32, _ count: Int) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        var have = 0
        while have < count {
            let more = bytes.withUnsafeMutableBytes { bytes in
                recv(connection, bytes.baseAddress.map { $0 + have }, count - have, 0)
            }
            guard more > 0 else { return nil }
            have += more
        }
        return bytes
    }

    func stop() { listener.stop() }
}
