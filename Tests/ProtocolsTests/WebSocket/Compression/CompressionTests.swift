import TestSupport
import Testing
import TransportAPI

@testable import Protocols
@testable import Transports

@Suite("Compressed messages", .enabled(if: ZLib.shared != nil))
struct CompressionTests {
    /// Valid answers to every offer, so that both directions are tested with all parameters.
    static let answers = [
        "", "; server_no_context_takeover", "; client_no_context_takeover",
        "; server_no_context_takeover; client_no_context_takeover", "; server_max_window_bits=9",
        "; client_max_window_bits=9; server_max_window_bits=12", "; client_max_window_bits=8",
    ]

    /// An open core that agreed on compression with these parameters.
    static func open(
        _ role: CoreRole,
        _ parameters: String = "",
        _ change: (inout WebSocketConfiguration) -> Void = { _ in }
    ) throws -> WebSocketHarness {
        var configuration = WebSocketConfiguration()
        configuration.compression = WebSocketCompression(try #require(ZLib.shared))
        configuration.compression?.threshold = 1
        change(&configuration)
        var harness = WebSocketHarness(try WebSocketCore(role, configuration))
        harness.start()
        let header = ["Sec-WebSocket-Extensions: permessage-deflate\(parameters)"]
        harness.feed(
            role == .server ? request(with: header) : response(key: harness.core.key, with: header)
        )
        let isOpen = harness.isOpen
        try #require(isOpen)
        _ = harness.takeOutput()
        return harness
    }

    @Test("The examples of RFC 7692, section 7.2.3, are read, whole and byte by byte", arguments: [1, .max])
    func goldenRead(slice: Int) throws {
        var client = try Self.open(.client)
        let frames: [[UInt8]] = [
            [0xc1, 0x07, 0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00],
            // The same again by reference to the first, and in two fragments with a ping between them.
            [0xc1, 0x05, 0xf2, 0x00, 0x11, 0x00, 0x00],
            [0x41, 0x03, 0xf2, 0x48, 0xcd, 0x89, 0x00, 0x80, 0x04, 0xc9, 0xc9, 0x07, 0x00],
            // A stored block, a block that is marked as the last, and two blocks.
            [0xc1, 0x0b, 0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00],
            [0xc1, 0x08, 0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00],
            [0xc1, 0x0d, 0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00],
            // An empty message, and a message that is not compressed.
            [0xc1, 0x01, 0x00], [0x81, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f],
        ]
        for frame in frames { client.feed(frame, slice: slice) }
        #expect(client.failure == nil)
        let texts = client.messages.map { String(decoding: $0.bytes, as: UTF8.self) }
        #expect(texts == ["Hello", "Hello", "Hello", "Hello", "Hello", "Hello", "", "Hello"])
    }

    @Test(
        "A message that expands further than a reader allows leaves uncompressed, and later ones do not refer to it",
        arguments: answers
    )
    func expandsTooFar(parameters: String) throws {
        var client = try Self.open(.client, parameters)
        let asked = parameters.replacing("client_max_window_bits=8", with: "client_max_window_bits=9")
        var server = try Self.open(.server, asked)
        let text = Payload(text: "The same words, the same words, the same words.")
        let white = Payload([UInt8](repeating: 0xff, count: 3 << 20))
        // It expands too far only in its first part, which a reader may get alone.
        var random = RandomSource.seeded(1)
        let noise = (0..<100_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
        let half = Payload(white.bytes + noise)
        // It is large, but ordinary.
        let log = Payload((0..<60_000).flatMap { Array("GET /messages/\($0 % 977)/attachments 200\n".utf8) })
        let sent = [text, white, text, half, text, log, text]
        var isCompressed: [Bool] = []
        for payload in sent {
            _ = try client.send(payload)
            let output = client.takeOutput()
            isCompressed.append(output[0] & FrameHeader.compressed != 0)
            server.feed(output, slice: 1000)
        }
        #expect(server.failure == nil)
        #expect(server.messages.map(\.bytes) == sent.map(\.bytes))
        let canCompress = !parameters.contains("client_max_window_bits=8")
        #expect(isCompressed == [true, false, true, false, true, true, true].map { $0 && canCompress })
    }

    @Test("Messages arrive as they were sent, with every agreement", arguments: answers)
    func roundTrip(parameters: String) throws {
        var client = try Self.open(.client, parameters) { $0.fragmentSize = 100 }
        let asked = parameters.replacing("client_max_window_bits=8", with: "client_max_window_bits=9")
        var server = try Self.open(.server, asked)
        let long = String(repeating: "Grüße aus der Küche 👋, ", count: 4000)
        let noise = (0..<70_000).map { UInt8(truncatingIfNeeded: ($0 &* $0 &* 2_654_435_761) >> 7) }
        let all = ["ok", long, "", "ok", "see you at the lunch table"].map { Payload(text: $0) } + [Payload(noise)]
        for payload in all + all {
            #expect(try client.send(payload) == .written)
            #expect(try server.send(payload) == .written)
        }
        exchange(&client, &server, slice: 1000)
        #expect(client.failure == nil && server.failure == nil)
        #expect(client.messages == all + all && server.messages == all + all)
    }

    @Test("A repeated message takes few bytes, unless no context is kept")
    func ratio() throws {
        let message = Payload(text: #"{"id":"1","conversation":"team-lunch","sender":"ann","text":"Soup or salad?"}"#)
        for (parameters, isSmall) in [("", true), ("; server_no_context_takeover", false)] {
            var server = try Self.open(.server, parameters)
            _ = try server.send(message)
            _ = server.takeOutput()
            _ = try server.send(message)
            let frame = server.takeOutput()
            #expect(frame.first == 0xc1)
            #expect((frame.count < 16) == isSmall && frame.count < message.bytes.count)
        }
    }

    @Test("Messages that are short or do not shrink are sent uncompressed, and so are control frames")
    func plain() throws {
        var server = try Self.open(.server, "; server_no_context_takeover") { $0.compression?.threshold = 5 }
        _ = try server.send(Payload(text: "aaaa"))
        _ = try server.send(Payload([1, 77, 3, 200, 5]))
        _ = try server.send(Payload([]))
        try server.core.ping(&server.context)
        server.core.close(.user, &server.context)
        #expect(frames(server.takeOutput()).map(\.first) == [0x81, 0x82, 0x82, 0x89, 0x88])
    }

    @Test("Only the first frame of a message may be marked as compressed, and only if this was agreed")
    func marks() throws {
        let wrong: [[UInt8]] = [
            [0xc9, 0x80], [0xc8, 0x80], [0xca, 0x80], [0xc0, 0x80], [0xa1, 0x80], [0x91, 0x80],
        ]
        for bytes in wrong {
            var server = try Self.open(.server)
            server.feed(frame(to: .server, 0x01, text("a")) + bytes + [0, 0, 0, 0])
            #expect(server.failure?.detail == 1002)
        }
        var plain = try openCore(.server)
        plain.feed(frame(to: .server, 0xc1, [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00]))
        #expect(plain.failure?.detail == 1002)
    }

    @Test(
        "Damaged contents end the connection with the matching close code",
        arguments: [
            ([0xff, 0xff, 0xff], 1002), ([0xf2, 0x48, 0xcd], 1002), ([], 1002),
            ([0xf2, 0x00, 0x11, 0x00, 0x00], 1002),
            // A stored block with a byte that is not UTF-8.
            ([0x00, 0x01, 0x00, 0xfe, 0xff, 0xff, 0x00], 1007),
        ] as [([UInt8], Int)]
    )
    func damaged(contents: [UInt8], code: Int) throws {
        for slice in [1, .max] {
            var server = try Self.open(.server)
            server.feed(frame(to: .server, 0xc1, contents), slice: slice)
            #expect(server.failure?.detail == code && server.messages.isEmpty)
        }
    }

    /// The frames of a client for a message of zeros, compressed however far it expands. A core does not write such frames.
    private static func bomb(_ size: Int, fragmentSize: Int = .max) throws -> [UInt8] {
        let compressor = try #require(ZLib.shared)
        let deflater = try #require(compressor.makeDeflater(windowBits: 15))
        let contents = try #require(
            [UInt8](repeating: 0, count: size).withUnsafeBytes { bytes in
                deflater.deflate(bytes, within: ExpansionLimit(factor: .max))
            }
        )
        let starts = Array(stride(from: 0, to: contents.count, by: min(fragmentSize, contents.count)))
        return starts.flatMap { start in
            let end = min(start + min(fragmentSize, contents.count), contents.count)
            let first: UInt8 = (start == 0 ? 0x42 : 0) | (end == contents.count ? 0x80 : 0)
            return frame(to: .server, first, Array(contents[start..<end]))
        }
    }

    @Test("A compression bomb ends with close code 1009 and takes no more memory than the limit")
    func bomb() throws {
        let bytes = try Self.bomb(8 << 20)
        #expect(bytes.count < 20_000)
        for slice in [100, .max] {
            var server = try Self.open(.server) { $0.maximumMessageSize = 100_000 }
            server.feed(bytes, slice: slice)
            #expect(server.failure?.code == .messageTooLarge && server.failure?.detail == 1009)
            #expect(server.core.reader.message.capacity <= 110_000)
        }
    }

    @Test("A core with the greatest possible limits accepts compressed messages", arguments: [1, .max])
    func greatestLimits(slice: Int) throws {
        var server = try Self.open(.server) {
            $0.maximumMessageSize = .max
            $0.compression?.expansion.factor = .max
        }
        server.feed(frame(to: .server, 0xc1, [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00]), slice: slice)
        #expect(server.messages == [Payload(text: "Hello")] && server.failure == nil)
    }

    @Test("The size to which a message may expand does not depend on how it arrives", arguments: [20_000, 2_000_000])
    func expansion(size: Int) throws {
        let bytes = try Self.bomb(size, fragmentSize: 300)
        #expect(bytes.count < size / 100)
        for slice in [1, 7, 100, .max] {
            var server = try Self.open(.server) { $0.compression?.expansion.free = 0 }
            server.feed(bytes, slice: slice)
            #expect((server.failure == nil) == (size == 20_000) && server.failure?.code != .protocolViolation)
            #expect(server.messages.map(\.bytes.count) == (size == 20_000 ? [size] : []))
        }
    }

    @Test("A compressor and a decompressor count as buffered bytes by their window, once they exist")
    func buffered() throws {
        for (isSmall, least) in [(false, 300_000), (true, 20_000)] {
            let zlib = try #require(ZLib.shared)
            let compression = isSmall ? WebSocketCompression.small(zlib) : WebSocketCompression(zlib)
            let parameters = isSmall ? "; client_max_window_bits; server_max_window_bits=10" : ""
            var server = try Self.open(.server, parameters) { $0.compression = compression }
            let before = server.core.bufferedBytes
            server.feed(frame(to: .server, 0xc1, [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00]))
            _ = try server.send(Payload(text: String(repeating: "Hello", count: 20)))
            let after = server.core.bufferedBytes
            #expect(before == 0 && after > least && after < least * 5 / 4)
        }
    }

    @Test(
        "A message at the limit arrives, however little it shrinks, and a larger one does not",
        arguments: [0, 1]
    )
    func limit(excess: Int) throws {
        let contents: [[UInt8]] = [
            [UInt8](repeating: 7, count: 5000 + excess),
            (0..<5000 + excess).map { UInt8(truncatingIfNeeded: ($0 &* $0 &* 2_654_435_761) >> 9) },
        ]
        for bytes in contents {
            var client = try Self.open(.client)
            var server = try Self.open(.server) { $0.maximumMessageSize = 5000 }
            _ = try client.send(Payload(bytes))
            server.feed(client.takeOutput())
            #expect(server.messages == (excess == 0 ? [Payload(bytes)] : []))
            #expect(server.failure?.detail == (excess == 0 ? nil : 1009))
        }
    }

    @Test("Without memory for a compressor, messages are sent uncompressed and compressed ones are an error")
    func noMemory() throws {
        struct None: MessageCompressor {
            func makeDeflater(windowBits: Int) -> (any MessageDeflater)? { nil }
            func makeInflater(windowBits: Int) -> (any MessageInflater)? { nil }
        }
        var server = try Self.open(.server) { $0.compression = WebSocketCompression(None()) }
        _ = try server.send(Payload(text: String(repeating: "a", count: 100)))
        #expect(server.takeOutput().first == 0x81)
        server.feed(frame(to: .server, 0xc1, [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00]))
        #expect(server.failure?.code == .resourcesExhausted)
    }

    @Test("Damaged streams end in messages or in one error, for every slicing")
    func fuzz() throws {
        var random = RandomSource.seeded(7692)
        for _ in 0..<300 {
            var client = try Self.open(.client) { $0.fragmentSize = 40 }
            for text in ["soup or salad?", "salad, or soup?", String(repeating: "salad ", count: 60)] {
                _ = try client.send(Payload(text: text))
            }
            var bytes = client.takeOutput()
            bytes[Int(random.next() % UInt64(bytes.count))] ^= UInt8(truncatingIfNeeded: random.next() % 255 + 1)
            var whole = try Self.open(.server) { $0.maximumMessageSize = 1000 }
            var sliced = try Self.open(.server) { $0.maximumMessageSize = 1000 }
            whole.feed(bytes)
            sliced.feed(bytes, slice: 3)
            #expect(whole.messages == sliced.messages && (whole.failure == nil) == (sliced.failure == nil))
            #expect(whole.core.reader.message.capacity <= 1100)
        }
    }
}
