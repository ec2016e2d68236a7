import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("WebSocket messages of many parts")
struct MessagePartsTests {
    /// A message of a little more than 20 parts, all of them different.
    private static let message = (0..<20 * MessageParts.size + 77).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 9) }

    /// The message in frames as a client sends it.
    private static func frames(of size: Int?) throws -> [UInt8] {
        var client = try openCore(.client) { $0.fragmentSize = size }
        _ = try client.send(Payload(message))
        return client.takeOutput()
    }

    private static func isProgress(_ event: CoreEvent?) -> Bool {
        if case .progress? = event { true } else { false }
    }

    @Test("The parts of a message are joined one by one when the last byte has arrived", arguments: [nil, 100_000])
    func joining(fragment: Int?) throws {
        let bytes = try Self.frames(of: fragment)
        var server = try openCore(.server)
        server.feed(Array(bytes.dropLast()), slice: 10_000)
        var input = ByteBuffer()
        input.append(contentsOf: Array(bytes.suffix(1)))
        var steps = 0
        var event = try server.core.next(&input, &server.context)
        while Self.isProgress(event) {
            steps += 1
            event = try server.core.next(&input, &server.context)
        }
        let isWhole = event.map(describe) == describe(.message(Payload(Self.message)))
        #expect(isWhole && steps == 20)
        let next = try server.core.next(&input, &server.context)
        #expect(next == nil && server.core.bufferedBytes == 0)
    }

    @Test("No part of a message takes memory twice, however the message arrives", arguments: [10_000, 2_000_000])
    func memory(slice: Int) throws {
        let bytes = try Self.frames(of: nil)
        var server = try openCore(.server)
        var input = ByteBuffer()
        var (most, messages) = (0, 0)
        for start in stride(from: 0, to: bytes.count, by: slice) {
            input.append(contentsOf: Array(bytes[start..<min(start + slice, bytes.count)]))
            while let event = try server.core.next(&input, &server.context) {
                most = max(most, server.core.bufferedBytes)
                if case .message = event { messages += 1 }
            }
        }
        #expect(messages == 1 && most <= Self.message.count + 3 * MessageParts.size)
    }

    @Test("A core yields between messages that it skips")
    func skipped() throws {
        var server = try openCore(.server)
        server.core.close(.user, &server.context)
        let few = frame(to: .server, 0x82) + frame(to: .server, 0x02, [1]) + frame(to: .server, 0x80)
        server.input.append(contentsOf: few)
        var steps = 0
        while try server.core.next(&server.input, &server.context) != nil { steps += 1 }
        #expect(steps == 3)
    }

    @Test("A close during the joining drops the message, and later frames are still read")
    func closing() throws {
        let bytes = try Self.frames(of: nil)
        var server = try openCore(.server)
        server.feed(Array(bytes.dropLast()), slice: 10_000)
        let behind = frame(to: .server, 0x82, [1]) + frame(to: .server, 0x88, closeBody(1000))
        var input = ByteBuffer()
        input.append(contentsOf: Array(bytes.suffix(1)) + behind)
        let first = try server.core.next(&input, &server.context)
        server.core.close(.user, &server.context)
        #expect(Self.isProgress(first) && server.core.bufferedBytes == 0)
        var events: [CoreEvent] = []
        while let event = try server.core.next(&input, &server.context) { events.append(event) }
        #expect(events.filter { !Self.isProgress($0) }.map(describe) == [describe(.closed(.user))])
    }
}
