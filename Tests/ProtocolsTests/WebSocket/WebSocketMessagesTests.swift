import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("WebSocket messages")
struct WebSocketMessagesTests {
    @Test(
        "Two cores complete the handshake and send messages both ways, whole and byte by byte",
        arguments: [1, 3, 64, .max]
    )
    func conversation(slice: Int) throws {
        var client = WebSocketHarness(try WebSocketCore(.client, WebSocketConfiguration(host: "h")), seed: 9)
        var server = WebSocketHarness(try WebSocketCore(.server, WebSocketConfiguration()), seed: 10)
        client.start()
        server.start()
        exchange(&client, &server, slice: slice)
        #expect(client.isOpen && server.isOpen)
        let messages = [
            Payload(text: "Grüße 🎉"), Payload([0, 255, 1]), Payload([]), Payload(text: ""),
            Payload((0..<5000).map { UInt8(truncatingIfNeeded: $0) }),
        ]
        for message in messages {
            #expect(try client.send(message) == .written)
            #expect(try server.send(message) == .written)
        }
        exchange(&client, &server, slice: slice)
        #expect(client.messages == messages && server.messages == messages)
        #expect(client.context.counters == CoreCounters())
    }

    @Test("Messages that are sent in fragments arrive as they were", arguments: [1, 2, 7, 100])
    func fragmented(size: Int) throws {
        for role in [CoreRole.client, .server] {
            var sender = try openCore(role) { $0.fragmentSize = size }
            var receiver = try openCore(role == .client ? .server : .client)
            let messages = [Payload(text: "Grüße 🎉 日本語"), Payload((0..<250).map { UInt8($0) }), Payload([])]
            for message in messages { _ = try sender.send(message) }
            exchange(&sender, &receiver, slice: 13)
            #expect(receiver.messages == messages)
        }
    }

    @Test("Control frames between fragments are answered at once", arguments: [1, .max])
    func controlBetweenFragments(slice: Int) throws {
        var server = try openCore(.server)
        server.feed(frame(to: .server, 0x01, [0xe6, 0x97]), slice: slice)
        server.feed(frame(to: .server, 0x89, text("ping")), slice: slice)
        #expect(server.takeOutput() == [0x8a, 4] + text("ping"))
        server.feed(frame(to: .server, 0x00) + frame(to: .server, 0x8a, text("unsolicited")), slice: slice)
        #expect(server.messages.isEmpty)
        server.feed(frame(to: .server, 0x80, [0xa5]), slice: slice)
        #expect(server.messages == [Payload(text: "日")])
        server.feed(frame(to: .server, 0x81, text("next")), slice: slice)
        #expect(server.messages.last == Payload(text: "next"))
    }

    @Test("Text that is not UTF-8 ends the connection with 1007", arguments: [1, .max])
    func invalidText(slice: Int) throws {
        let broken: [[UInt8]] = [[0xff], [0xc3], text("abc") + [0xed, 0xa0, 0x80], [0xf4, 0x90]]
        for payload in broken {
            var server = try openCore(.server)
            server.feed(frame(to: .server, 0x81, payload), slice: slice)
            #expect(server.failure?.code == .invalidText && server.failure?.detail == 1007)
            #expect(frames(server.takeOutput()).first?.payload.prefix(2) == [0x03, 0xef])
            var other = try openCore(.server)
            other.feed(frame(to: .server, 0x82, payload), slice: slice)
            #expect(other.messages == [Payload(payload)])
        }
    }

    @Test("A last fragment that leaves a code point incomplete ends the connection")
    func openCodePoint() throws {
        var server = try openCore(.server)
        server.feed(frame(to: .server, 0x01, text("a") + [0xe6]))
        #expect(server.failure == nil)
        server.feed(frame(to: .server, 0x80))
        #expect(server.failure?.code == .invalidText)
    }

    @Test("Broken text is rejected before its frame is complete")
    func failFast() throws {
        var server = try openCore(.server)
        let whole = frame(to: .server, 0x81, text("κόσμε") + [0xf4, 0x90, 0x80, 0x80] + text("edited"))
        let good = 6 + text("κόσμε").count
        server.feed(Array(whole.prefix(good)))
        #expect(server.failure == nil)
        server.feed([whole[good]])
        #expect(server.failure == nil)
        server.feed([whole[good + 1]])
        #expect(server.failure?.code == .invalidText)
    }

    @Test("A message beyond the limit is rejected with 1009 by its header alone")
    func limits() throws {
        let tooLarge: [[UInt8]] = [
            [0x82, 0x80 | 101, 0, 0, 0, 0], [0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
            frame(to: .server, 0x02, [UInt8](repeating: 1, count: 60)) + [0x80, 0x80 | 41, 0, 0, 0, 0],
            [0x02, 0x80 | 60, 0, 0, 0, 0] + [UInt8](repeating: 1, count: 60) + [0x00, 0x80 | 41, 0, 0, 0, 0],
        ]
        for bytes in tooLarge {
            var server = try openCore(.server) { $0.maximumMessageSize = 100 }
            server.feed(bytes)
            #expect(server.failure?.code == .messageTooLarge && server.failure?.detail == 1009)
            #expect(frames(server.takeOutput()).first?.payload.prefix(2) == [0x03, 0xf1])
        }
        var server = try openCore(.server) { $0.maximumMessageSize = 100 }
        let part = [UInt8](repeating: 1, count: 50)
        server.feed(
            frame(to: .server, 0x02, part) + frame(to: .server, 0x80, part) + frame(to: .server, 0x82, part + part)
        )
        #expect(server.messages == [Payload(part + part), Payload(part + part)])
    }

    @Test("A large message that arrives in pieces leaves nothing in the input and arrives whole")
    func large() throws {
        let bytes = longBytes((3 << 20) + 5)
        for (sender, receiver) in [(CoreRole.client, CoreRole.server), (.server, .client)] {
            for fragment in [nil, 10_000] {
                var from = try openCore(sender) { $0.fragmentSize = fragment }
                var to = try openCore(receiver)
                _ = try from.send(Payload(bytes))
                let written = from.takeOutput()
                to.feed(Array(written.dropLast()), slice: 64 << 10)
                #expect(to.input.count < 16 && to.messages.isEmpty)
                to.feed(written.suffix(1))
                #expect(to.messages == [Payload(bytes)])
            }
        }
    }

    @Test("A declared length reserves little memory ahead of the bytes that have arrived")
    func reservesLittle() throws {
        var reader = FrameReader(mustBeMasked: false, maximumMessageSize: 1 << 30)
        var input = ByteBuffer()
        input.append(contentsOf: [0x82, 0x7f, 0, 0, 0, 0, 0x3f, 0xff, 0xff, 0xff, 1, 2, 3])
        #expect(try reader.next(&input) == nil)
        #expect(input.isEmpty == true)
        #expect(reader.message.capacity < 2 * MessageParts.size)
    }

    @Test("A message that cannot be sent is rejected, and the connection stays open")
    func refusedSends() throws {
        var client = try openCore(.client) { $0.maximumMessageSize = 10 }
        let refused: [(Payload, TransportError.Code)] = [
            (Payload([UInt8](repeating: 0, count: 11)), .messageTooLarge), (Payload([0xff], kind: .text), .invalidText),
            (Payload([0xc3], kind: .text), .invalidText), (Payload([1], topic: "a"), .unsupported),
        ]
        for (payload, code) in refused {
            #expect {
                try client.send(payload)
            } throws: { error in
                (error as? TransportError)?.code == code
            }
        }
        #expect(client.takeOutput().isEmpty)
        #expect(try client.send(Payload([UInt8](repeating: 0, count: 10))) == .written)
    }

    @Test("The end of the input without a close frame loses the connection")
    func lost() throws {
        for role in [CoreRole.client, .server] {
            var core = try openCore(role)
            core.feed(frame(to: role, 0x01, text("half")))
            core.endInput()
            #expect(core.failure?.code == .connectionLost && core.failure?.detail == 1006)
            #expect {
                try core.send(Payload([1]))
            } throws: { error in
                (error as? TransportError)?.code == .connectionLost
            }
        }
    }
}
