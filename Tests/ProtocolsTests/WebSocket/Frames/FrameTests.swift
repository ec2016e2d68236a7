import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("Frames")
struct FrameTests {
    static let hello: [UInt8] = [0x48, 0x65, 0x6c, 0x6c, 0x6f]

    @Test("The examples of RFC 6455, section 5.7, are read", arguments: [1, .max])
    func goldenRead(slice: Int) throws {
        var client = try openCore(.client)
        client.feed([0x81, 0x05] + Self.hello, slice: slice)
        client.feed([0x01, 0x03, 0x48, 0x65, 0x6c], slice: slice)
        client.feed([0x80, 0x02, 0x6c, 0x6f], slice: slice)
        let block = (0..<256).map { UInt8($0) }
        client.feed([0x82, 0x7e, 0x01, 0x00] + block, slice: slice)
        let large = Array(repeating: block, count: 256).flatMap { $0 }
        client.feed([0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0] + large, slice: slice)
        #expect(client.messages == [.init(text: "Hello"), .init(text: "Hello"), .init(block), .init(large)])

        var server = try openCore(.server)
        server.feed([0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58], slice: slice)
        #expect(server.messages == [.init(text: "Hello")])
    }

    @Test("The examples of RFC 6455, section 5.7, are written")
    func goldenWrite() throws {
        var output = ByteBuffer()
        Self.hello.withUnsafeBytes { hello in
            FrameWriter.write(.text, hello, maskKey: nil, to: &output)
            FrameWriter.write(.text, hello, maskKey: 0x3d21_fa37, to: &output)
            FrameWriter.write(.ping, hello, maskKey: nil, to: &output)
            FrameWriter.write(.pong, hello, maskKey: 0x3d21_fa37, to: &output)
        }
        let masked: [UInt8] = [0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58]
        let expected =
            [0x81, 0x05] + Self.hello + [0x81, 0x85] + masked + [0x89, 0x05] + Self.hello + [0x8a, 0x85] + masked
        #expect(output.bytes(at: 0, count: output.count) == expected)

        var server = try openCore(.server)
        _ = try server.send(Payload([UInt8](repeating: 7, count: 256)))
        #expect(server.takeOutput().prefix(5) == [0x82, 0x7e, 0x01, 0x00, 7])
        _ = try server.send(Payload([UInt8](repeating: 7, count: 65536)))
        #expect(server.takeOutput().prefix(11) == [0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0, 7])
        _ = try server.send(Payload([]))
        #expect(server.takeOutput() == [0x82, 0])
    }

    @Test("Fragments are written as in RFC 6455, section 5.4")
    func goldenFragments() throws {
        var server = try openCore(.server) { $0.fragmentSize = 3 }
        _ = try server.send(Payload(text: "Hello"))
        #expect(server.takeOutput() == [0x01, 0x03, 0x48, 0x65, 0x6c, 0x80, 0x02, 0x6c, 0x6f])
        _ = try server.send(Payload([1, 2, 3]))
        _ = try server.send(Payload([1, 2, 3, 4, 5, 6, 7]))
        #expect(server.takeOutput() == [0x82, 3, 1, 2, 3, 0x02, 3, 1, 2, 3, 0x00, 3, 4, 5, 6, 0x80, 1, 7])
    }

    @Test(
        "An invalid frame ends the connection with 1002, whole and byte by byte",
        arguments: [
            // Reserved bits and opcodes.
            [0xc1, 0x80], [0xa1, 0x80], [0x91, 0x80], [0x83, 0x80], [0x87, 0x80], [0x8b, 0x80], [0x8f, 0x80],
            // No mask, and control frames that are too long or fragmented.
            [0x81, 0x00], [0x89, 0xfe], [0x88, 0xff], [0x09, 0x80], [0x08, 0x80], [0x0a, 0x80],
            // Lengths not in their shortest form, or with the highest bit set.
            [0x82, 0xfe, 0, 125], [0x82, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff], [0x82, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0],
            // A continuation without a beginning, and a message within another.
            [0x80, 0x80, 0, 0, 0, 0], [0x00, 0x80, 0, 0, 0, 0], [0x01, 0x80, 0, 0, 0, 0, 0x81, 0x80, 0, 0, 0, 0],
        ] as [[UInt8]]
    )
    func violations(bytes: [UInt8]) throws {
        for slice in [1, .max] {
            var server = try openCore(.server)
            server.feed(bytes, slice: slice)
            #expect(server.failure?.code == .protocolViolation && server.failure?.detail == 1002)
            #expect(frames(server.takeOutput()).map { Array($0.payload.prefix(2)) } == [[0x03, 0xea]])
            server.failure = nil
            server.feed(frame(to: .server, 0x81, text("late")))
            #expect(server.messages.isEmpty && server.failure == nil)
        }
    }

    @Test("A client rejects a masked frame of a server")
    func maskedByServer() throws {
        var client = try openCore(.client)
        client.feed(frame(to: .server, 0x81, Self.hello))
        #expect(client.failure?.code == .protocolViolation)
    }

    @Test("Lengths at the borders of their forms are read and written", arguments: [0, 1, 125, 126, 127, 65535, 65536])
    func borders(length: Int) throws {
        let bytes = (0..<length).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        for role in [CoreRole.client, .server] {
            var sender = try openCore(role)
            _ = try sender.send(Payload(bytes))
            let written = sender.takeOutput()
            let peer: CoreRole = role == .client ? .server : .client
            for slice in [1000, .max] {
                var receiver = try openCore(peer)
                receiver.feed(written, slice: slice)
                #expect(receiver.messages == [Payload(bytes)])
                #expect(receiver.input.isEmpty == true)
            }
        }
    }

    @Test("Each frame of a client has its own mask")
    func masks() throws {
        var client = try openCore(.client)
        var keys: Set<[UInt8]> = []
        for _ in 0..<20 {
            _ = try client.send(Payload([]))
            keys.insert(Array(client.takeOutput()[2..<6]))
        }
        #expect(keys.count == 20)
    }
}
