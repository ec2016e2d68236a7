import Testing

@testable import EmulatedNetworks
@testable import imbench

/// A NAT that forgets, on the bytes of frames.
@Suite("Address translation")
struct AddressTranslationTests {
    private static let second: Int64 = 1_000_000_000

    /// An Ethernet frame with IPv4 and UDP or TCP, whose checksums are right.
    private struct Frame {
        var bytes: [UInt8]

        init(tcp flags: UInt8? = nil, from source: UInt16, to destination: UInt16, _ payload: [UInt8] = [1, 2, 3]) {
            let header: [UInt8]
            let ports = [UInt8(source >> 8), UInt8(source & 0xff), UInt8(destination >> 8), UInt8(destination & 0xff)]
            if let flags {
                header = ports + [0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 0x10, 0, 0, 0, 0, 0]
            } else {
                let length = UInt8(8 + payload.count)
                header = ports + [0, length, 0, 0]
            }
            let total = UInt8(20 + header.count + payload.count)
            let ip: [UInt8] = [
                0x45, 0, 0, total, 0, 0, 0x40, 0, 64, flags == nil ? 17 : 6, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2,
            ]
            bytes = [UInt8](repeating: 2, count: 12) + [8, 0] + ip + header + payload
            let place = 34 + (flags == nil ? 6 : 16)
            let sum = ~Self.sum(bytes)
            (bytes[place], bytes[place + 1]) = (UInt8(sum >> 8), UInt8(sum & 0xff))
        }

        /// The ones' complement sum over the pseudo header and the rest (RFC 768, RFC 9293). It is 0xffff if the checksum is
        /// right.
        static func sum(_ frame: [UInt8]) -> UInt16 {
            var words = Array(frame[26..<34]) + [0, frame[23], 0, UInt8(frame.count - 34)] + frame[34...]
            if words.count % 2 == 1 { words.append(0) }
            var total: UInt32 = 0
            for index in stride(from: 0, to: words.count, by: 2) {
                total += UInt32(words[index]) << 8 | UInt32(words[index + 1])
            }
            while total > 0xffff { total = (total & 0xffff) + total >> 16 }
            return UInt16(total)
        }

        var source: UInt16 { UInt16(bytes[34]) << 8 | UInt16(bytes[35]) }
        var destination: UInt16 { UInt16(bytes[36]) << 8 | UInt16(bytes[37]) }
        var isWhole: Bool { Self.sum(bytes) == 0xffff }

        mutating func toServer(_ nat: inout AddressTranslation, at now: Int64) -> Bool {
            bytes.withUnsafeMutableBytes { nat.toServer($0, at: now) }
        }

        mutating func toClient(_ nat: inout AddressTranslation, at now: Int64) -> Bool {
            bytes.withUnsafeMutableBytes { nat.toClient($0, at: now) }
        }
    }

    @Test("A mapping lives while it is used, in either direction, and keeps the port")
    func used() {
        var nat = AddressTranslation(timeout: 30 * Self.second)
        for round in 0..<10 as Range<Int64> {
            var request = Frame(from: 5000, to: 80)
            #expect(request.toServer(&nat, at: round * 40 * Self.second) && request.source == 5000)
            var answer = Frame(from: 80, to: 5000)
            #expect(answer.toClient(&nat, at: (round * 40 + 20) * Self.second) && answer.destination == 5000)
        }
        #expect(nat.forgotten == 0)
    }

    @Test("After the end of its mapping, a client's datagram has another port, and the answer finds the client")
    func forgotten() {
        var nat = AddressTranslation(timeout: 30 * Self.second)
        var request = Frame(from: 5000, to: 80)
        #expect(request.toServer(&nat, at: 0))
        var late = Frame(from: 80, to: 5000)
        #expect(!late.toClient(&nat, at: 31 * Self.second))
        var next = Frame(from: 5000, to: 80)
        #expect(next.toServer(&nat, at: 32 * Self.second))
        #expect(next.source != 5000 && next.isWhole && nat.forgotten == 1)
        #expect(nat.forgottenByServer == [.init(isTCP: false, port: 80): 1])
        var answer = Frame(from: 80, to: next.source)
        #expect(answer.toClient(&nat, at: 33 * Self.second))
        #expect(answer.destination == 5000 && answer.isWhole)
        var old = Frame(from: 80, to: 5000)
        #expect(!old.toClient(&nat, at: 33 * Self.second))
    }

    @Test("A TCP segment without a mapping is dropped, unless it opens a connection")
    func segments() {
        var nat = AddressTranslation(timeout: 30 * Self.second)
        var data = Frame(tcp: 0x18, from: 5000, to: 80)
        #expect(!data.toServer(&nat, at: 0))
        var syn = Frame(tcp: 0x02, from: 5000, to: 80)
        #expect(syn.toServer(&nat, at: 0) && data.toServer(&nat, at: 1))
        #expect(!data.toServer(&nat, at: 40 * Self.second))
        #expect(syn.toServer(&nat, at: 41 * Self.second) && syn.source != 5000 && syn.isWhole)
    }

    @Test("Frames that are cut anywhere, and others than TCP and UDP, pass unchanged")
    func other() {
        var nat = AddressTranslation(timeout: Self.second)
        for whole in [Frame(from: 1, to: 2), Frame(tcp: 0x02, from: 1, to: 2)] {
            // 14 bytes of Ethernet, 20 of IP, and the shortest header.
            let least = 34 + (whole.bytes[23] == 6 ? 20 : 8)
            for count in 0..<least {
                var cut = whole
                cut.bytes.removeLast(whole.bytes.count - count)
                let before = cut.bytes
                #expect(cut.toServer(&nat, at: 0) && cut.toClient(&nat, at: 0) && cut.bytes == before)
            }
        }
        for change in [(23, UInt8(1)), (14, UInt8(0x65)), (14, UInt8(0x44)), (21, UInt8(8)), (12, UInt8(0x86))] {
            var frame = Frame(from: 1, to: 2)
            frame.bytes[change.0] = change.1
            let before = frame.bytes
            #expect(frame.toServer(&nat, at: 0) && frame.bytes == before)
        }
    }

    @Test("A packet is summed up by its flags and its payload, and an acknowledgement alone is not")
    func summaries() {
        func summary(_ frame: Frame) -> String? {
            var frame = frame
            return frame.bytes.withUnsafeMutableBytes { TransportPacket($0)?.summary }
        }
        #expect(summary(Frame(from: 1, to: 2)) == "3 bytes")
        #expect(summary(Frame(tcp: 0x02, from: 1, to: 2, [])) == "SYN")
        #expect(summary(Frame(tcp: 0x12, from: 1, to: 2, [])) == "SYN ACK")
        #expect(summary(Frame(tcp: 0x18, from: 1, to: 2)) == "3 bytes")
        #expect(summary(Frame(tcp: 0x11, from: 1, to: 2, [])) == "FIN")
        #expect(summary(Frame(tcp: 0x10, from: 1, to: 2, [])) == nil)
    }

    @Test("The number of mappings is limited: the one that was not used for longest is forgotten")
    func limit() {
        var nat = AddressTranslation(timeout: 3600 * Self.second)
        for port in 1...UInt16(AddressTranslation.mostMappings + 1) {
            var request = Frame(from: port, to: 80)
            #expect(request.toServer(&nat, at: Int64(port)))
        }
        #expect(nat.forgotten == 1)
        var answer = Frame(from: 80, to: 1)
        #expect(!answer.toClient(&nat, at: 10_000))
    }
}
