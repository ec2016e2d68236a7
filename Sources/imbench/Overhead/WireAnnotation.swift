import Codecs
import Transports

/// Splits a captured message into fields. Every byte belongs to exactly one field.
enum WireAnnotation {
    /// The fields of a message over a transport. Without an annotation in its descriptor, the framing is one field.
    static func fields(
        of wire: [UInt8],
        encoded: Int,
        over transport: TransportDescriptor,
        codec: WireFormat
    ) -> [WireField] {
        var reader = WireFieldReader(wire)
        if let annotate = transport.annotate {
            annotate(&reader)
        } else {
            reader.take(wire.count - encoded, "framing, which \(transport.name) does not explain")
        }
        switch codec {
        case .json: json(&reader)
        case .protobuf: protobuf(&reader)
        case .xml: xml(&reader)
        }
        reader.trailing = 0
        reader.take(reader.left, "the rest")
        return reader.fields
    }

    // MARK: Codecs

    private static let names = [
        "id", "conversation", "sender", "sentAtMs", "kind", "text", "replyTo", "mentions", "attachment", "attributes",
    ]

    private static func protobuf(_ reader: inout WireFieldReader) {
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
    private static func json(_ reader: inout WireFieldReader) {
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

    /// One field for each element of the message, and one for each of its own tags. The codec escapes all brackets that are not
    /// markup.
    private static func xml(_ reader: inout WireFieldReader) {
        /// The length of the tag or the text at `index`, and how much deeper the place after it is.
        func step(at index: Int) -> (count: Int, depth: Int) {
            let isTag = reader.peek(index) == UInt8(ascii: "<")
            let last = UInt8(ascii: isTag ? ">" : "<")
            var end = index + 1
            while end < reader.left, reader.peek(end) != last { end += 1 }
            guard isTag, end < reader.left else { return (end - index, 0) }
            let isEmpty = reader.peek(end - 1) == UInt8(ascii: "/")
            return (end + 1 - index, isEmpty ? 0 : reader.peek(index + 1) == UInt8(ascii: "/") ? -1 : 1)
        }
        var isInside = false
        while reader.left > 0 {
            var (count, depth) = step(at: 0)
            if isInside {
                while depth > 0, count < reader.left {
                    let next = step(at: count)
                    (count, depth) = (count + next.count, depth + next.depth)
                }
            }
            isInside = true
            reader.take(count, reader.text(min(count, 60)))
        }
    }
}
