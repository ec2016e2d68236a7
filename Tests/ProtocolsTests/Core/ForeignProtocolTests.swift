import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("First bytes of another protocol")
struct ForeignProtocolTests {
    private func recognized(_ bytes: [UInt8]) -> ForeignProtocol {
        bytes.withUnsafeBytes { ForeignProtocol($0) }
    }

    private static let connect: [UInt8] =
        [0x10, 16, 0, 4] + Array("MQTT".utf8) + [4, 2, 0, 60, 0, 4] + Array("anne".utf8)

    static let table: [(bytes: [UInt8], expected: ForeignProtocol)] = [
        ([0x15, 3, 3, 0, 2, 2, 40], .tls), ([0x16, 3, 1, 2, 0, 1], .tls), ([0x16, 3], .tls),
        ([0x16, 3, 9, 0, 0], .unknown([0x16, 3, 9, 0])), ([0x16], .unknown([0x16])), ([], .unknown([])),
        (Array("GET / HTTP/1.1\r\n".utf8), .httpRequest), (Array("PRI * HTTP/2.0\r\n\r\n".utf8), .httpRequest),
        (Array("GETTING".utf8), .unknown(Array("GETT".utf8))),
        (Array("HTTP/1.1 400 Bad\u{1b}[31m\r\nX: y\r\n".utf8), .httpResponse("HTTP/1.1 400 Bad?[31m")),
        (Array("CONNECT\naccept-version:1.2".utf8), .stomp), (Array("STOMP\r\n".utf8), .stomp),
        (Array("ERROR\nmessage:no".utf8), .stomp), (Array("CONNECTED\n".utf8), .stomp),
        (Array("CONNECTS\n".utf8), .unknown(Array("CONN".utf8))), (Array("ERROR".utf8), .unknown(Array("ERRO".utf8))),
        (Array("<?xml version='1.0'?>".utf8), .xmpp), (Array("<stream:stream ".utf8), .xmpp),
        (Array("<html>".utf8), .unknown(Array("<htm".utf8))),
        (connect, .mqtt), ([0x20, 2, 0, 5], .mqtt), ([0x20, 2, 0, 9], .unknown([0x20, 2, 0, 9])),
        ([0x80, 0, 0, 9, 1], .framedTCP(isCertain: true)), ([0, 0, 0, 5, 104], .framedTCP(isCertain: false)),
        ([0x80, 1, 0, 9], .unknown([0x80, 1, 0, 9])), (Array("SSH-2.0-x".utf8), .unknown(Array("SSH-".utf8))),
    ]

    @Test("First bytes of another protocol are recognized", arguments: table)
    func recognizes(bytes: [UInt8], expected: ForeignProtocol) {
        #expect(recognized(bytes) == expected)
    }

    @Test("First bytes are read up to a bound, and every sentence and answer is short")
    func bounds() {
        let long = Array("HTTP/1.1 ".utf8) + [UInt8](repeating: 65, count: 1 << 20)
        let line = String(decoding: long.prefix(ForeignProtocol.longestPrefix), as: UTF8.self)
        #expect(recognized(long) == .httpResponse(line))
        for (bytes, _) in Self.table + [(long, .tls)] {
            for expected in [ForeignProtocol.Expected.framedTCP, .webSocket, .mqtt, .mqttWebSocket, .stomp, .xmpp] {
                let isEncrypted = expected != .framedTCP
                for role in [CoreRole.client, .server] {
                    let sentence = recognized(bytes).sentence(expected: expected, by: role, isEncrypted: isEncrypted)
                    #expect(!sentence.isEmpty && sentence.utf8.count < 250)
                }
                var output = ByteBuffer()
                recognized(bytes).answer(expected: expected, isEncrypted: isEncrypted, to: &output, unixTime: nil)
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
        #expect(try framed(.server, [0x16, 3, 1, 0, 5, 1]).1 == [0x15, 3, 1, 0, 2, 2, 10])
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

    @Test("First bytes that come one by one lead to an error, too", arguments: table.filter { $0.bytes.count > 4 })
    func byteByByte(bytes: [UInt8], expected: ForeignProtocol) throws {
        try check(MQTTClientCore(MQTTConfiguration()), isOpen: false)
        try check(MQTTServerCore(MQTTServerConfiguration()), isOpen: expected == .mqtt)
        func check(_ core: some MQTTCore, isOpen: Bool) {
            var mqtt = CoreHarness(core)
            mqtt.start()
            mqtt.feed(bytes, slice: 1)
            #expect(mqtt.failure.map { !$0.isRetryable } ?? isOpen)
        }
        for role in [CoreRole.client, .server] {
            var webSocket = CoreHarness(try WebSocketCore(role, WebSocketConfiguration()))
            webSocket.start()
            webSocket.feed(bytes + [13, 10, 13, 10], slice: 1)
            #expect(webSocket.failure != nil)
        }
    }

    @Test("The handshake of MQTT ends in an error that names the protocol, and the peer gets an answer")
    func mqtt() throws {
        var harness = CoreHarness(try MQTTServerCore(MQTTServerConfiguration()))
        harness.start()
        harness.feed(Array("GET / HTTP/1.1\r\n\r\n".utf8))
        #expect(harness.failure?.code == .handshakeFailed)
        let output = harness.context.output.bytes(at: 0, count: harness.context.output.count) ?? []
        #expect(
            String(decoding: output, as: UTF8.self).hasPrefix("HTTP/1.1 400 this port speaks MQTT: use mqtt://\r\n")
        )

        var framed = CoreHarness(try MQTTServerCore(MQTTServerConfiguration()))
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
