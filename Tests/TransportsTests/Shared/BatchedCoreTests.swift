import Testing
import TransportAPI

@testable import Transports

@Suite("Batches of the cores")
struct BatchedCoreTests {
    /// Messages of all sizes and both kinds.
    private static func messages(_ random: inout RandomSource) -> [Payload] {
        (0..<60).map { number in
            let size = Int(random.next() % (number.isMultiple(of: 7) ? 70_000 : 200))
            let bytes = (0..<size).map { UInt8(truncatingIfNeeded: ($0 &+ number) & 0x7f) }
            return Payload(bytes, kind: number.isMultiple(of: 3) ? .text : .binary)
        }
    }

    /// All that `core` writes of a batch when it is given so much room each time.
    private static func written<Core: ProtocolCore>(
        _ harness: inout CoreHarness<Core>,
        _ messages: [Payload],
        room: Int
    ) throws -> [UInt8] {
        var batch = MessageBatch()
        for payload in messages { try batch.append(payload) }
        var cursor = MessageBatch.Cursor()
        var bytes: [UInt8] = []
        while cursor.index < messages.count {
            let before = cursor.index
            harness.core.writeMessages(of: batch, from: &cursor, room: room, &harness.context)
            try #require(cursor.index > before)
            let block = harness.takeOutput()
            #expect(block.count <= max(room, 0) || cursor.index == before + 1)
            bytes += block
        }
        return bytes
    }

    /// Reads by the batch, and all else as ever.
    private static func read<Core: ProtocolCore>(_ harness: inout CoreHarness<Core>, _ bytes: [UInt8], slice: Int)
        -> [Payload]
    {
        var payloads: [Payload] = []
        var rest = bytes[...]
        var batch = MessageBatch()
        repeat {
            harness.input.append(contentsOf: Array(rest.prefix(slice)))
            rest = rest.dropFirst(slice)
            var isMore = true
            while isMore {
                batch.removeAll()
                _ = harness.core.readMessages(&harness.input, &harness.context, into: &batch, atMost: 7)
                payloads += batch.payloads()
                let found = harness.messages.count
                isMore = harness.drainOne() || !batch.isEmpty
                payloads += harness.messages.dropFirst(found)
            }
        } while !rest.isEmpty && harness.failure == nil
        return payloads
    }

    @Test(
        "are read as they were written, in any rooms and slices",
        arguments: [-5, 1, 100, 4096, 65_536, .max],
        [1000, 70_000, .max]
    )
    func framedTCP(room: Int, slice: Int) throws {
        var random = RandomSource.seeded(UInt64(truncatingIfNeeded: room &+ slice))
        let messages = Self.messages(&random)
        var left = try openTCP()
        var right = try openTCP()
        let bytes = try Self.written(&left, messages.map { Payload($0.bytes) }, room: room)
        let read = Self.read(&right, bytes, slice: slice)
        let failure = right.failure
        #expect(read.map(\.bytes) == messages.map(\.bytes) && failure == nil)
    }

    @Test("keep what is text, masked or not", arguments: [-5, 1, 100, 4096, 65_536, .max], CoreRole.both)
    func webSocket(room: Int, role: CoreRole) throws {
        var random = RandomSource.seeded(UInt64(truncatingIfNeeded: room))
        let messages = Self.messages(&random)
        for slice in [1000, 70_000, .max] {
            var left = try openCore(role)
            var right = try openCore(role == .client ? .server : .client)
            let bytes = try Self.written(&left, messages, room: room)
            let read = Self.read(&right, bytes, slice: slice)
            let failure = right.failure
            #expect(read == messages && failure == nil)
        }
    }

    @Test("stop before text that is not UTF-8, which is refused by itself on both sides")
    func invalidText() throws {
        let wrong = Payload([0x61, 0xff], kind: .text)
        var client = try openCore(.client)
        var server = try openCore(.server)
        var batch = MessageBatch()
        for payload in [Payload(text: "a"), wrong, Payload(text: "b")] { try batch.append(payload) }
        var cursor = MessageBatch.Cursor()
        client.core.writeMessages(of: batch, from: &cursor, room: .max, &client.context)
        #expect(cursor.index == 1)
        #expect(failsWith(.invalidText) { _ = try client.send(wrong) })

        let bytes = client.takeOutput() + frame(to: .server, 0x81, wrong.bytes) + frame(to: .server, 0x81, [0x62])
        let read = Self.read(&server, bytes, slice: .max)
        let code = server.failure?.code
        #expect(read == [Payload(text: "a")] && code == .invalidText)
    }

    @Test("leave to the ordinary way what is too long, or has a topic")
    func unusual() throws {
        let configuration = TCPConfiguration(maximumMessageSize: 10)
        for payload in [
            Payload([UInt8](repeating: 1, count: 11)), Payload([1], topic: "t"), Payload([1], isRetained: true),
        ] {
            var tcp = try openTCP(configuration)
            var webSocket = try openCore(.client) { $0.maximumMessageSize = 10 }
            var batch = MessageBatch()
            for payload in [Payload([1]), payload] { try batch.append(payload) }
            var cursor = MessageBatch.Cursor()
            tcp.core.writeMessages(of: batch, from: &cursor, room: .max, &tcp.context)
            webSocket.core.writeMessages(of: batch, from: &cursor, room: .max, &webSocket.context)
            let written = tcp.takeOutput() + webSocket.takeOutput()
            #expect(cursor.index == 0 && written.isEmpty)
        }
    }
}

extension CoreRole {
    fileprivate static var both: [CoreRole] { [.client, .server] }
}
