import Codecs

/// Splits a captured message into fields. Every byte belongs to exactly one field.
enum WireAnnotation {
    static func fields(of wire: [UInt8], over transport: String, codec: WireFormat) -> [WireField] {
        var reader = Reader(wire)
        switch transport {
        case "tcp", "memory": tcp(&reader)
        case "ws": webSocket(&reader)
        case "mqtt": mqtt(&reader)
        case "udp": udp(&reader)
        default: break
        }
        switch codec {
        case .json: json(&reader)
        case .protobuf: protobuf(&reader)
        }
        reader.take(reader.left, "the rest")
        return reader.fields
    }

    /// Takes bytes from the front, and records their meaning. A masked payload is unmasked.
    private struct Reader {
        private(set) var bytes: [UInt8]
        private(set) var position = 0
        private(set) var fields: [WireField] = []

        init(_ bytes: [UInt8]) {
            self.bytes = bytes
        }

        var left: Int { bytes.count - position }

        func peek(_ offset: Int = 0) -> UInt8 {
            position + offset < bytes.count ? bytes[position + offset] : 0
        }

        func number(_ count: Int) -> UInt64 {
            (0..<count).reduce(0) { $0 << 8 | UInt64(peek($1)) }
        }

        func text(_ count: Int) -> String {
            String(decoding: bytes[position..<min(bytes.count, position + count)], as: UTF8.self)
        }

        mutating func take(_ count: Int, _ meaning: String) {
            let end = min(bytes.count, position + max(0, count))
            guard end > position else { return }
            fields.append(WireField(range: position..<end, meaning: meaning))
            position = end
        }

        mutating func unmask(_ key: [UInt8]) {
            for index in position..<bytes.count { bytes[index] ^= key[(index - position) % 4] }
        }

        /// The value and length of a varint; at most ten bytes.
        func varint(at offset: Int = 0) -> (value: UInt64, count: Int) {
            var value: UInt64 = 0
            for index in 0..<10 {
                let byte = peek(offset + index)
                value |= UInt64(byte & 0x7f) << UInt64(7 * index)
                if byte & 0x80 == 0 { return (value, index + 1) }
            }
            return (value, 10)
        }
    }

    // MARK: Transports

    private static func tcp(_ reader: inout Reader) {
        let word = reader.number(4)
        reader.take(4, "\(word >> 31 == 1 ? "control frame" : "message"), length \(word & 0x7fff_ffff)")
    }

    private static func webSocket(_ reader: inout Reader) {
        let opcodes: [UInt8: String] = [0: "continuation", 1: "text", 2: "binary", 8: "close", 9: "ping", 10: "pong"]
        let first = reader.peek()
        reader.take(1, "\(first & 0x80 != 0 ? "FIN, " : "")opcode \(first & 15): \(opcodes[first & 15] ?? "reserved")")
        let second = reader.peek()
        let mask = second & 0x80 != 0 ? "MASK, " : ""
        switch second & 0x7f {
        case 126: reader.take(3, "\(mask)length in the next 2 bytes: \(reader.number(3) & 0xffff)")
        case 127: reader.take(9, "\(mask)length in the next 8 bytes: \(reader.number(9) & 0xff_ffff_ffff)")
        case let length: reader.take(1, "\(mask)length \(length)")
        }
        guard second & 0x80 != 0 else { return }
        let key = (0..<4).map { reader.peek($0) }
        reader.take(4, "masking key, new for each frame; all bytes after it are XORed with it on the wire")
        reader.unmask(key)
    }

    private static func mqtt(_ reader: inout Reader) {
        let qos = reader.peek() >> 1 & 3
        reader.take(1, "PUBLISH, QoS \(qos)\(reader.peek() & 1 == 1 ? ", retained" : "")")
        let (length, count) = reader.varint()
        reader.take(count, "remaining length \(length)")
        let topic = Int(reader.number(2))
        reader.take(2, "length of the topic: \(topic)")
        reader.take(topic, "topic '\(reader.text(topic))'")
        if qos > 0 { reader.take(2, "packet identifier \(reader.number(2))") }
    }

    private static func udp(_ reader: inout Reader) {
        reader.take(4, "magic, version and type: data")
        reader.take(8, "connection id")
        reader.take(4, "sequence number \(reader.number(4))")
    }

    // MARK: Codecs

    private static let names = [
        "id", "conversation", "sender", "sentAtMs", "kind", "text", "replyTo", "mentions", "attachment", "attributes",
    ]

    private static func protobuf(_ reader: inout Reader) {
        while reader.left > 0 {
            let (tag, tagBytes) = reader.varint()
            let name = tag >> 3 >= 1 && tag >> 3 <= names.count ? names[Int(tag >> 3) - 1] : "field"
            guard tag & 7 == 2 else {
                let (value, count) = reader.varint(at: tagBytes)
                reader.take(
                    tagBytes + (tag & 7 == 0 ? count : tag & 7 == 1 ? 8 : 4),
                    "field \(tag >> 3) \(name): \(value)"
                )
                continue
            }
            let (length, lengthBytes) = reader.varint(at: tagBytes)
            reader.take(tagBytes + lengthBytes, "field \(tag >> 3) \(name), length \(length)")
            let count = Int(min(length, UInt64(reader.left)))
            reader.take(count, "'\(reader.text(min(count, 60)))'")
        }
    }

    /// One field for each member, with the comma or brace before it.
    private static func json(_ reader: inout Reader) {
        while reader.left > 0 {
            var count = 1
            var isInString = false
            var depth = 0
            while count < reader.left {
                let byte = reader.peek(count)
                if isInString {
                    if byte == UInt8(ascii: "\\") {
                        count += 1
                    } else if byte == UInt8(ascii: "\"") {
                        isInString = false
                    }
                } else if byte == UInt8(ascii: "\"") {
                    isInString = true
                } else if depth == 0, byte == UInt8(ascii: ",") || byte == UInt8(ascii: "}") {
                    break
                } else if byte == UInt8(ascii: "{") || byte == UInt8(ascii: "[") {
                    depth += 1
                } else if byte == UInt8(ascii: "}") || byte == UInt8(ascii: "]") {
                    depth -= 1
                }
                count += 1
            }
            reader.take(count, reader.text(min(count, 60)))
        }
    }
}
