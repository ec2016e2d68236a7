/// The names of messages in packets, as far as their first bytes say what they are: HTTP, MQTT, TLS and DTLS.
enum PacketContent {
    /// The first message of a packet's content, with "…" if others follow; `nil` if it is of no such protocol.
    static func name(of bytes: [UInt8], isTCP: Bool) -> String? {
        guard isTCP else { return name(records(bytes, header: 13, version: 0xfe)) }
        return name(records(bytes, header: 5, version: 3)) ?? http(bytes) ?? mqtt(bytes)
    }

    private static func name(_ messages: [String]) -> String? {
        messages.first.map { first in messages.contains { $0 != first } ? first + " …" : first }
    }

    // MARK: TLS

    /// The types of handshake messages (RFC 8446, appendix B.3; RFC 5246, section 7.4; RFC 6347, section 4.3.2).
    private static let handshake: [UInt8: String] = [
        1: "ClientHello", 2: "ServerHello", 3: "HelloVerifyRequest", 4: "NewSessionTicket", 11: "Certificate",
        12: "ServerKeyExchange", 14: "ServerHelloDone", 16: "ClientKeyExchange",
    ]

    /// The messages of whole or cut records (RFC 8446, section 5.1; RFC 6347, section 4.1), without ChangeCipherSpec. The
    /// handshake messages after it are encrypted.
    ///
    /// - Parameter header: the length of a record's header, which ends with the length of its content.
    private static func records(_ bytes: [UInt8], header: Int, version: UInt8) -> [String] {
        var (messages, place, isEncrypted): ([String], Int, Bool) = ([], 0, false)
        while place + header < bytes.count, bytes[place + 1] == version {
            let first = bytes[place + header]
            switch bytes[place] {
            case 20: isEncrypted = true
            case 21: messages.append("alert")
            case 22:
                // An epoch above 0 encrypts the records of DTLS.
                let isClear = !isEncrypted && (header == 5 || bytes[place + 4] == 0)
                messages.append(isClear ? handshake[first] ?? "encrypted" : "encrypted")
            case 23: messages.append("encrypted")
            default: return messages
            }
            place += header + Int(bytes[place + header - 2]) << 8 + Int(bytes[place + header - 1])
        }
        return messages
    }

    // MARK: In clear

    /// A request, or a response with its status (RFC 9112, sections 3 and 4).
    private static func http(_ bytes: [UInt8]) -> String? {
        let line = bytes.prefix { $0 != 0x0d }.prefix(200)
        let words = line.split(separator: 0x20).map { String(decoding: $0, as: UTF8.self) }
        guard words.count >= 3 else { return nil }
        if words[0] == "HTTP/1.1" { return "HTTP \(words[1])" }
        return ["GET", "POST"].contains(words[0]) && words.last == "HTTP/1.1" ? "HTTP \(words[0])" : nil
    }

    /// A packet of MQTT that is the whole content, or CONNECT with others after it (MQTT 3.1.1, section 2.2). A length of
    /// more than 127 would be a masked frame of a WebSocket as well.
    private static func mqtt(_ bytes: [UInt8]) -> String? {
        guard bytes.count >= 2, bytes[1] < 128 else { return nil }
        let isWhole = bytes.count == 2 + Int(bytes[1])
        switch bytes[0] {
        case 0x10 where bytes.dropFirst(4).starts(with: "MQTT".utf8): return isWhole ? "CONNECT" : "CONNECT …"
        case 0x20 where isWhole: return "CONNACK"
        case 0x30 where isWhole: return "PUBLISH"
        // A binary message of a WebSocket begins in the same way, so the length of the filter must fit too.
        case 0x82 where isWhole && bytes.count > 6 && Int(bytes[4]) << 8 + Int(bytes[5]) + 7 == bytes.count:
            return "SUBSCRIBE"
        case 0x90 where isWhole: return "SUBACK"
        default: return nil
        }
    }
}
