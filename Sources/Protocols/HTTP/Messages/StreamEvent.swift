import Primitives

/// A part of a stream of framed TCP, as an event of an event stream carries it.
package enum StreamEvent: Sendable, Hashable {
    /// A whole message that is a text: an event without a type, so that a browser reads it as it is. It stands for the
    /// word of the message, which says its length and that it is text, and its bytes.
    case text([UInt8])
    /// Other bytes of the stream, cut anywhere: an event of type `bytes`, in Base64.
    case bytes([UInt8])
    /// Nothing follows in the stream: an event of type `end`.
    case end

    /// The largest message in bytes that becomes a text.
    package static let largestText = 64 << 10
    /// The most bytes in an event of type `bytes`.
    package static let largestPiece = 16 << 10
    /// The longest line of an event, for ``EventStreamReader``: `data: ` and a message without a line end.
    package static let longestLine = largestText + 6

    /// How many bytes of the stream the event stands for.
    package var count: Int {
        switch self {
        case .text(let message): message.count + 4
        case .bytes(let bytes): bytes.count
        case .end: 0
        }
    }

    /// How many bytes the lines of a text take: each has its name, and each but the last one has an LF of the text.
    static func textSize(_ count: Int, lines: Int) -> Int { count + lines * "data: ".utf8.count + 1 }

    /// How many bytes the lines take that say the same in Base64.
    static func bytesSize(_ count: Int) -> Int { "event: bytes\ndata: \n".utf8.count + (count + 2) / 3 * 4 }

    /// Appends the event.
    ///
    /// - Parameter offset: the offset in the stream after this event, which is its id.
    package func write(offset: UInt64, to output: inout ByteBuffer) {
        switch self {
        case .text(let message): EventStreamWriter.event(id: offset, type: nil, data: message, to: &output)
        case .bytes(let bytes):
            EventStreamWriter.event(id: offset, type: "bytes", data: Base64.encode(bytes), to: &output)
        case .end: EventStreamWriter.event(id: offset, type: "end", data: [], to: &output)
        }
    }

    /// Reads an event. Returns `nil` if its type is unknown, if its Base64 is malformed, or if it is larger than allowed.
    package init?(_ event: EventStreamReader.Event) {
        switch event.type {
        case "message":
            guard event.data.count <= Self.largestText else { return nil }
            self = .text(event.data)
        case "bytes":
            guard let bytes = event.data.withUnsafeBufferPointer({ Base64.decode($0) }),
                bytes.count <= Self.largestPiece
            else { return nil }
            self = .bytes(bytes)
        case "end": self = .end
        default: return nil
        }
    }

    /// Appends the bytes of the stream for which the event stands.
    package func append(to stream: inout ByteBuffer) {
        switch self {
        case .text(let message):
            stream.append(integer: UInt32(truncatingIfNeeded: message.count) | FramedTCPCore.textBit)
            stream.append(contentsOf: message)
        case .bytes(let bytes): stream.append(contentsOf: bytes)
        case .end: break
        }
    }
}
