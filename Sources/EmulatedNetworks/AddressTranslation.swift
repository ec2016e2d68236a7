/// A NAT between the client and the link, which forgets idle mappings. It rewrites the client's port in the bytes of Ethernet
/// frames with IPv4, TCP and UDP.
///
/// A mapping lives as long as packets of either direction use it. RFC 4787, REQ-6, requires this for packets to the server, and
/// allows it for packets to the client. The first mapping of a port keeps the port.
/// A datagram after the end of a mapping gets a new one with another port, so its server sees a new client. A TCP segment
/// without a mapping is dropped unless it opens a connection, as most NATs do it.
package struct AddressTranslation: Sendable {
    /// The most mappings; the oldest are then forgotten early.
    static let mostMappings = 4096

    /// A port of the server.
    package struct Server: Sendable, Hashable {
        package var isTCP: Bool
        package var port: UInt16

        package init(isTCP: Bool, port: UInt16) {
            (self.isTCP, self.port) = (isTCP, port)
        }
    }

    private struct Inside: Sendable, Hashable {
        var isTCP: Bool
        var client: UInt16
        var server: UInt16
    }

    private struct Mapping: Sendable {
        var outside: UInt16
        var used: Int64
    }

    private let timeout: Int64
    private var mappings: [Inside: Mapping] = [:]
    /// The mapping of each outside port.
    private var insides: [Inside: Inside] = [:]
    private var nextPort: UInt16 = 20_000
    /// How many mappings were forgotten.
    package private(set) var forgotten = 0
    /// The same for each port of the server. A mapping counts when the next packet finds it forgotten.
    package private(set) var forgottenByServer: [Server: Int] = [:]

    /// - Parameter timeout: after this time without packets a mapping is forgotten, in nanoseconds.
    package init(timeout: Int64) {
        self.timeout = timeout
    }

    /// Translates a frame to the server. Returns `false` if it is dropped.
    package mutating func toServer(_ frame: UnsafeMutableRawBufferPointer, at now: Int64) -> Bool {
        guard let packet = TransportPacket(frame) else { return true }
        let inside = Inside(isTCP: packet.isTCP, client: packet.sourcePort, server: packet.destinationPort)
        if let mapping = mappings[inside], now - mapping.used > timeout { forget(inside, mapping) }
        if mappings[inside] == nil {
            guard !packet.isTCP || packet.opensConnection else { return false }
            if mappings.count >= Self.mostMappings, let oldest = mappings.min(by: { $0.value.used < $1.value.used }) {
                forget(oldest.key, oldest.value)
            }
            map(inside, now)
        }
        mappings[inside]?.used = now
        if let outside = mappings[inside]?.outside { packet.setSourcePort(outside) }
        return true
    }

    /// Translates a frame to the client. Returns `false` if there is no mapping for it.
    package mutating func toClient(_ frame: UnsafeMutableRawBufferPointer, at now: Int64) -> Bool {
        guard let packet = TransportPacket(frame) else { return true }
        let outside = Inside(isTCP: packet.isTCP, client: packet.destinationPort, server: packet.sourcePort)
        guard let inside = insides[outside], let mapping = mappings[inside] else { return false }
        guard now - mapping.used <= timeout else {
            forget(inside, mapping)
            return false
        }
        mappings[inside]?.used = now
        packet.setDestinationPort(inside.client)
        return true
    }

    private mutating func map(_ inside: Inside, _ now: Int64) {
        var outside = inside
        while insides[outside] != nil || wasForgotten.contains(outside) {
            nextPort = nextPort == .max ? 20_000 : nextPort + 1
            outside.client = nextPort
        }
        mappings[inside] = Mapping(outside: outside.client, used: now)
        insides[outside] = inside
    }

    /// Outside ports that are not used again, because the server may still know their clients.
    private var wasForgotten: Set<Inside> = []

    private mutating func forget(_ inside: Inside, _ mapping: Mapping) {
        mappings[inside] = nil
        let outside = Inside(isTCP: inside.isTCP, client: mapping.outside, server: inside.server)
        insides[outside] = nil
        if wasForgotten.count >= Self.mostMappings { wasForgotten.removeAll() }
        wasForgotten.insert(outside)
        forgotten += 1
        forgottenByServer[Server(isTCP: inside.isTCP, port: inside.server), default: 0] += 1
    }
}

/// The ports in an Ethernet frame with IPv4 and TCP or UDP (RFC 791, RFC 768, RFC 9293).
package struct TransportPacket {
    private static let ethernet = 14

    private let bytes: UnsafeMutableRawBufferPointer
    /// Where the header of TCP or UDP begins.
    private let start: Int
    let isTCP: Bool

    /// `nil` if the frame is another one, a later fragment, or too short.
    init?(_ frame: UnsafeMutableRawBufferPointer) {
        guard frame.count >= Self.ethernet + 20, frame[12] == 0x08, frame[13] == 0x00 else { return nil }
        let header = Int(frame[Self.ethernet] & 0x0f) * 4
        let kind = frame[Self.ethernet + 9]
        let fragment = Int(frame[Self.ethernet + 6] & 0x1f) << 8 | Int(frame[Self.ethernet + 7])
        guard frame[Self.ethernet] >> 4 == 4, header >= 20, fragment == 0, kind == 6 || kind == 17 else { return nil }
        start = Self.ethernet + header
        isTCP = kind == 6
        guard frame.count >= start + (isTCP ? 20 : 8) else { return nil }
        bytes = frame
    }

    /// Whether a frame contains IPv4.
    static func isIPv4(_ frame: UnsafeRawBufferPointer) -> Bool {
        frame.count > ethernet && frame[12] == 0x08 && frame[13] == 0x00
    }

    /// Whether a frame resolves an address (ARP).
    static func isARP(_ frame: UnsafeRawBufferPointer) -> Bool {
        frame.count > ethernet && frame[12] == 0x08 && frame[13] == 0x06
    }

    var sourcePort: UInt16 { word(start) }
    var destinationPort: UInt16 { word(start + 2) }

    /// The place of the content in the frame: the bytes after the header of TCP or UDP.
    private var content: Range<Int> {
        let total = Int(bytes[16]) << 8 | Int(bytes[17])
        let header = isTCP ? Int(bytes[start + 12] >> 4) * 4 : 8
        return start + header..<max(start + header, Self.ethernet + total)
    }

    /// The content in a few words; `nil` for a TCP segment that only acknowledges.
    var summary: String? {
        let content = content
        let name = PacketContent.name(
            of: Array(bytes.prefix(content.upperBound).dropFirst(content.lowerBound)),
            isTCP: isTCP
        )
        let text = name ?? "\(content.count) bytes"
        guard isTCP else { return text }
        let flags = bytes[start + 13]
        var words = [(0x02, "SYN"), (0x01, "FIN"), (0x04, "RST")].filter { flags & UInt8($0.0) != 0 }.map(\.1)
        if flags & 0x12 == 0x12 { words.append("ACK") }
        if !content.isEmpty { words.append(text) }
        return words.isEmpty ? nil : words.joined(separator: " ")
    }

    /// Whether it is the first segment of a TCP connection: SYN without ACK.
    var opensConnection: Bool { isTCP && bytes[start + 13] & 0x12 == 0x02 }

    func setSourcePort(_ port: UInt16) { replace(start, port) }
    func setDestinationPort(_ port: UInt16) { replace(start + 2, port) }

    private func word(_ place: Int) -> UInt16 { UInt16(bytes[place]) << 8 | UInt16(bytes[place + 1]) }

    private func set(_ place: Int, _ value: UInt16) {
        bytes[place] = UInt8(value >> 8)
        bytes[place + 1] = UInt8(value & 0xff)
    }

    /// Replaces two bytes and updates the checksum (RFC 1624, equation 3).
    private func replace(_ place: Int, _ new: UInt16) {
        let old = word(place)
        guard old != new else { return }
        set(place, new)
        let sumPlace = start + (isTCP ? 16 : 6)
        let sum = word(sumPlace)
        // UDP without a checksum has 0 here.
        guard isTCP || sum != 0 else { return }
        var total = UInt32(~sum) + UInt32(~old) + UInt32(new)
        while total > 0xffff { total = (total & 0xffff) + total >> 16 }
        let updated = ~UInt16(total)
        set(sumPlace, !isTCP && updated == 0 ? 0xffff : updated)
    }
}
