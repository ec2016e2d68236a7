import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("First bytes of another protocol")
struct ForeignProtocolTests {
    private static let connect: [UInt8] =
        [0x10, 16, 0, 4] + Array("MQTT".utf8) + [4, 2, 0, 60, 0, 4] + Array("anne".utf8)

    private func recognized(_ bytes: [UInt8], _ expected: ForeignProtocol.Expected) -> ForeignProtocol? {
        var input = ByteBuffer()
        input.append(contentsOf: bytes)
        return ForeignProtocol(input, expected: expected)
    }

    static let table: [(bytes: [UInt8], found: ForeignProtocol?)] = [
        ([0x15, 3, 3, 0, 2, 2, 40], .tls), ([0x16, 3, 1, 2, 0, 1], .tls), ([0x16, 3, 9, 0, 0], nil),
        ([0x16, 3, 1], nil),
        ([], nil), (Array("GET / HTTP/1.1\r\n".utf8), .httpRequest),
        (Array("PRI * HTTP/2.0\r\n\r\n".utf8), .httpRequest),
        (Array("GETTING".utf8), nil), (Array("HTTP/1.1 400 Bad Request\r\n".utf8), .httpResponse), (connect, .mqtt),
        ([0x10, 0x90, 1, 0, 4], .mqtt), ([0x10, 16, 1, 4], nil), ([0x20, 2, 0, 5], .mqtt), ([0x20, 2, 0, 9], nil),
        ([0x80, 0, 0, 9, 1], .framedTCP), ([0, 0, 0, 5, 104], .framedTCPMessage), ([0x80, 1, 0, 9], nil),
        (Array("SSH-2.0-x".utf8), nil),
    ]

    @Test("First bytes of another protocol are recognized, and those of the expected one are not", arguments: table)
    func recognizes(bytes: [UInt8], found: ForeignProtocol?) {
        let own: [ForeignProtocol.Expected: [ForeignProtocol]] = [
            .framedTCP: [.framedTCP, .framedTCPMessage], .mqtt: [.mqtt], .webSocket: [.httpRequest, .httpResponse],
            .mqttWebSocket: [.httpRequest, .httpResponse],
        ]
        for (expected, own) in own {
            #expect(recognized(bytes, expected) == (found.map { own.contains($0) } == true ? nil : found))
        }
    }

    @Test("Every sentence and every answer is short")
    func bounds() {
        for found in ForeignProtocol.allCases {
            for expected in ForeignProtocol.Expected.allCases {
                for role in [CoreRole.client, .server] {
                    #expect(found.sentence(expected: expected, by: role).utf8.count < 250)
                }
                var output = ByteBuffer()
                found.answer(expected: expected, to: &output)
                #expect(output.count < 400)
            }
        }
    }

    // MARK: Cores

    private func framed(_ role: CoreRole, _ bytes: [UInt8], slice: Int = .max) throws -> (TransportError?, [UInt8]) {
        var core = try FramedTCPCore()
        core.role = role
        var harness = CoreHarness(core)
        harness.start()
        harness.drain()
        harness.feed(bytes, slice: slice)
        return (harness.failure, harness.context.output.bytes(at: 0, count: harness.context.output.count) ?? [])
    }

    @Test("A connection of framed TCP ends in an error that names the other protocol")
    func framedTCP() throws {
        for (bytes, name) in [
            ([0x15, 3, 3, 0, 2, 2, 40], "TLS"), (Array("HTTP/1.1 400 Bad\r\n\r\n".utf8), "HTTP"),
            (Self.connect, "MQTT"),
            (Array("GET / HTTP/1.1\r\n\r\n".utf8), "HTTP"),
        ] as [([UInt8], String)] {
            let (error, output) = try framed(.client, bytes)
            #expect(error?.code == .handshakeFailed && error?.reason.contains("the server speaks \(name)") == true)
            #expect(output.isEmpty, "a client answers nothing")
        }
        let (error, output) = try framed(.server, Array("GET / HTTP/1.1\r\n\r\n".utf8))
        #expect(error?.reason.contains("the client speaks HTTP") == true)
        #expect(
            String(decoding: output, as: UTF8.self).hasPrefix(
                "HTTP/1.1 400 this port speaks framed TCP: use tcp://\r\n"
            )
        )
        #expect(try framed(.server, [0x16, 3, 1, 0, 5, 1]).1 == [0x15, 3, 1, 0, 2, 2, 70])
    }

    @Test("A first message that is too large is reported as that")
    func tooLarge() throws {
        let (error, output) = try framed(.server, [0x7f, 0xff, 0xff, 0xff, 1, 2])
        #expect(error?.code == .messageTooLarge && output.prefix(4) == [0x80, 0, 0, UInt8(output.count - 4)])
    }

    @Test("Later bytes are not taken for another protocol")
    func later() throws {
        let (error, _) = try framed(.client, [0, 0, 0, 1, 65] + Array("HTTP/1.1 400 Bad\r\n\r\n".utf8))
        #expect(error?.code == .messageTooLarge)
    }

    /// The failure of a core that reads these bytes in slices.
    private func failure(_ core: some ProtocolCore, _ bytes: [UInt8], slice: Int) -> TransportError? {
        var harness = CoreHarness(core)
        harness.start()
        harness.drain()
        harness.feed(bytes, slice: slice)
        return harness.failure
    }

    @Test("First bytes that come one by one lead to the same error", arguments: table)
    func byteByByte(bytes: [UInt8], found: ForeignProtocol?) throws {
        for role in [CoreRole.client, .server] {
            var framed = try FramedTCPCore()
            framed.role = role
            let mqtt = role == .client ? try MQTTCore(client: .init()) : try MQTTCore(server: .init())
            let webSocket = try WebSocketCore(role, WebSocketConfiguration())
            for slice in 1...5 {
                #expect(failure(framed, bytes, slice: slice) == failure(framed, bytes, slice: .max))
                #expect(failure(mqtt, bytes, slice: slice) == failure(mqtt, bytes, slice: .max))
                #expect(failure(webSocket, bytes, slice: slice) == failure(webSocket, bytes, slice: .max))
            }
        }
    }

    @Test("The handshake of MQTT ends in an error that names the protocol, and the peer gets an answer")
    func mqtt() throws {
        var harness = CoreHarness(try MQTTCore(server: MQTTServerConfiguration()))
        harness.start()
        harness.feed(Array("GET / HTTP/1.1\r\n\r\n".utf8))
        #expect(harness.failure?.code == .handshakeFailed)
        let output = harness.context.output.bytes(at: 0, count: harness.context.output.count) ?? []
        #expect(
            String(decoding: output, as: UTF8.self).hasPrefix("HTTP/1.1 400 this port speaks MQTT: use mqtt://\r\n")
        )

        var framed = CoreHarness(try MQTTCore(server: MQTTServerConfiguration()))
        framed.start()
        framed.feed([0, 0, 0, 5] + Array("hello".utf8))
        #expect(framed.failure?.code == .protocolViolation)
        #expect(framed.failure?.reason.contains("may speak framed TCP") == true)
        var reader = CoreHarness(try FramedTCPCore())
        reader.start()
        reader.drain()
        reader.feed(framed.context.output.bytes(at: 0, count: framed.context.output.count) ?? [])
        #expect(reader.closeReason?.code == 1003 && reader.closeReason?.text == "this port speaks MQTT: use mqtt://")
    }

    @Test("The handshake of WebSocket ends in an error that names the protocol")
    func webSocket() throws {
        for (bytes, name) in [([0x15, 3, 3, 0, 2, 2, 40], "TLS"), ([0x20, 2, 0, 0], "MQTT")] as [([UInt8], String)] {
            var harness = CoreHarness(try WebSocketCore(.client, WebSocketConfiguration()))
            harness.start()
            harness.feed(bytes)
            #expect(harness.failure?.code == .handshakeFailed)
            #expect(harness.failure?.reason.contains("the server speaks \(name)") == true)
        }
    }
}
