import Testing

@testable import EmulatedNetworks

@Suite("The content of packets")
struct PacketContentTests {
    private func name(_ bytes: [UInt8]) -> String? { PacketContent.name(of: bytes, isTCP: true) }

    /// A record of TLS with some content.
    private func record(_ kind: UInt8, _ content: [UInt8]) -> [UInt8] {
        [kind, 3, 3, 0, UInt8(content.count)] + content
    }

    @Test("Handshakes of TLS have the name of their first message, unless it is encrypted")
    func tls() {
        #expect(name(record(22, [1, 0, 0])) == "ClientHello")
        let changeCipherSpec = record(20, [1])
        #expect(name(record(22, [2, 0, 0]) + changeCipherSpec + record(23, [9])) == "ServerHello …")
        // After ChangeCipherSpec, the first byte is not a type.
        #expect(name(changeCipherSpec + record(22, [1, 0, 0])) == "encrypted")
        #expect(name(record(23, [1, 2]) + record(23, [3])) == "encrypted")
        #expect(name(record(21, [1, 0])) == "alert")
    }

    @Test("Handshakes of DTLS are encrypted after their first epoch")
    func dtls() {
        func name(_ kind: UInt8, epoch: UInt8, _ type: UInt8) -> String? {
            let header: [UInt8] = [kind, 0xfe, 0xfd, 0, epoch, 0, 0, 0, 0, 0, 1, 0, 2]
            return PacketContent.name(of: header + [type, 0], isTCP: false)
        }
        #expect(name(22, epoch: 0, 3) == "HelloVerifyRequest")
        #expect(name(22, epoch: 1, 1) == "encrypted" && name(23, epoch: 1, 0) == "encrypted")
    }

    @Test("Requests, responses and packets of MQTT have their names")
    func clear() {
        #expect(name(Array("GET /chat HTTP/1.1\r\nHost: a\r\n\r\n".utf8)) == "HTTP GET")
        #expect(name(Array("POST /chat HTTP/1.1\r\nHost: a\r\n\r\n".utf8)) == "HTTP POST")
        #expect(name(Array("HTTP/1.1 101 Switching Protocols\r\n\r\n".utf8)) == "HTTP 101")
        let connect: [UInt8] = [0x10, 6, 0, 4] + Array("MQTT".utf8)
        #expect(name(connect) == "CONNECT" && name(connect + [0x30, 1, 2]) == "CONNECT …")
        #expect(name([0x20, 2, 0, 0]) == "CONNACK" && name([0x90, 3, 0, 1, 0]) == "SUBACK")
    }

    @Test("Other content has no name, however it is cut")
    func others() {
        #expect(name([0x82, 6, 0, 1, 0, 1, 0x61, 0]) == "SUBSCRIBE")
        // Frames of a WebSocket begin like SUBSCRIBE.
        #expect(name([0x82, 6, 1, 2, 3, 4, 5, 6]) == nil && name([0x82, 2, 1, 2]) == nil)
        let others: [[UInt8]] = [
            [], [0x82], [0x82, 0x83, 1, 2, 3, 4, 5, 6, 7], [0, 0, 0, 3, 1, 2, 3], [22, 3, 3], [22, 4, 3, 0, 1, 1],
        ]
        for bytes in others { #expect(name(bytes) == nil, "\(bytes)") }
        let whole = record(22, [1, 0, 0]) + record(20, [1])
        for count in whole.indices { #expect(name(Array(whole.prefix(count))) == (count > 5 ? "ClientHello" : nil)) }
        for byte in UInt8.min...UInt8.max {
            for isTCP in [true, false] { _ = PacketContent.name(of: [byte, 0xfe, 255, 255, 255, 255], isTCP: isTCP) }
        }
    }
}
