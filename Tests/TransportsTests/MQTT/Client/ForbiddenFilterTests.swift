import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI

@testable import Transports

@Suite("Brokers that close the connection on a forbidden SUBSCRIBE", .timeLimit(.minutes(5)), .ownThread)
struct ForbiddenFilterTests {
    /// A broker that grants all filters at QoS 1, and closes the connection on one that contains `forbidden`. It sends a
    /// message to each filter that it grants.
    private final class Broker: Sendable {
        private let listener: RawListener
        private let subscribed = Locked<[String]>([])
        private let connections = Locked(0)

        var port: UInt16 { listener.port }
        /// The granted filters, in order.
        var granted: [String] { subscribed.withLock { $0 } }
        var accepted: Int { connections.withLock { $0 } }

        init() throws {
            listener = try RawListener()
            listener.serve { [self] _, connection in
                connections.withLock { $0 += 1 }
                while let packet = Self.packet(from: connection), let answer = answer(packet) {
                    guard send(connection, answer, answer.count, Int32(MSG_NOSIGNAL)) == answer.count else { break }
                }
                close(connection)
            }
        }

        func stop() { listener.stop() }

        private static func bytes(_ count: Int, from connection: Int32) -> [UInt8]? {
            var bytes = [UInt8](repeating: 0, count: count)
            guard count == 0 || recv(connection, &bytes, count, Int32(MSG_WAITALL)) == count else { return nil }
            return bytes
        }

        /// Reads a packet of at most 16,383 bytes: its first byte, and its content.
        private static func packet(from connection: Int32) -> (UInt8, [UInt8])? {
            guard let head = bytes(2, from: connection) else { return nil }
            var length = Int(head[1] & 127)
            if head[1] > 127 {
                guard let more = bytes(1, from: connection) else { return nil }
                length += Int(more[0]) << 7
            }
            return bytes(length, from: connection).map { (head[0], $0) }
        }

        /// Returns the answer to a packet, or `nil` to close the connection.
        private func answer(_ packet: (type: UInt8, content: [UInt8])) -> [UInt8]? {
            let content = packet.content
            switch packet.type >> 4 {
            case 1: return [0x20, 2, 0, 0]
            case 8:
                var (filters, offset) = ([String](), 2)
                while offset + 2 < content.count {
                    let length = Int(content[offset]) << 8 | Int(content[offset + 1])
                    filters.append(String(decoding: content[(offset + 2)..<(offset + 2 + length)], as: UTF8.self))
                    offset += 3 + length
                }
                guard !filters.contains(where: { $0.contains("forbidden") }) else { return nil }
                subscribed.withLock { $0 += filters }
                var answer: [UInt8] = [0x90, UInt8(2 + filters.count), content[0], content[1]]
                answer += [UInt8](repeating: 1, count: filters.count)
                for filter in filters {
                    answer += [0x30, UInt8(filter.utf8.count + 3), 0, UInt8(filter.utf8.count)]
                    answer += Array(filter.utf8) + [0x21]
                }
                return answer
            case 10: return [0xb0, 2, content[0], content[1]]
            case 12: return [0xd0, 0]
            default: return packet.type >> 4 == 14 ? nil : []
            }
        }
    }

    @Test("The forbidden filter ends with an error, and all other filters go on")
    func setAside() async throws {
        let broker = try Broker()
        let file = """
            {
              "endpoints": ["mqtt://127.0.0.1:\(broker.port)"],
              "backoff": {"policy": "exponential", "initial": "1ms", "maximum": "10ms", "jitter": "none"}
            }
            """
        let supervisor = try Supervisor(TransportConfiguration(json: file.utf8))
        let client = MQTTClient(supervisor)
        let filters = ["a", "forbidden", "b"]
        let requests = filters.map { filter in
            Task(executorPreference: EventLoop.shared) { try await client.subscribe(filter) }
        }
        supervisor.connect()
        let error = await #expect(throws: TransportError.self) { _ = try await requests[1].value }
        #expect(error?.code == .forbidden && error?.reason.contains("'forbidden'") == true)
        for (filter, request) in zip(filters, requests) where filter != "forbidden" {
            var messages = try await request.value.makeAsyncIterator()
            #expect(try await messages.next()?.topic == filter)
        }
        // The next connection stays open.
        try await client.subscribe("c")
        let accepted = broker.accepted
        try await client.subscribe("d")
        #expect(broker.accepted == accepted && broker.granted.suffix(4) == ["a", "b", "c", "d"])
        await client.close()
        broker.stop()
    }
}
