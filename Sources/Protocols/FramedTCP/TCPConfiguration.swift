import TransportAPI

/// How messages are framed over a TCP byte stream, and their limits.
package struct TCPConfiguration: Sendable, Hashable {
    /// The encoding of a length.
    package enum LengthField: Sendable, Hashable {
        /// Two bytes, for messages of up to 65,535 bytes.
        case bits16
        /// Four bytes.
        case bits32
        /// One to five bytes of seven bits each, the lowest bits first. The top bit is set in all bytes but the last.
        /// Protobuf writes its delimited messages like this (LEB128).
        case varint
    }

    /// The byte order of a length.
    package enum ByteOrder: Sendable, Hashable {
        /// The highest byte comes first, as in network byte order.
        case bigEndian
        /// The lowest byte comes first.
        case littleEndian
    }

    /// A length before each message and nothing else: no ping, no close frame. For servers without this package.
    package struct PlainFraming: Sendable, Hashable {
        /// The encoding of the length; 32 bits by default.
        package var length: LengthField
        /// The byte order of the length; big-endian by default. It has no effect on a varint.
        package var byteOrder: ByteOrder
        /// Whether the length counts its own bytes too; `false` by default, and always `false` for a varint.
        package var countsItself: Bool

        /// Creates a framing. The default is a big-endian length of 32 bits that does not count itself.
        package init(length: LengthField = .bits32, byteOrder: ByteOrder = .bigEndian, countsItself: Bool = false) {
            self.length = length
            self.byteOrder = byteOrder
            self.countsItself = countsItself
        }
    }

    /// The format of the stream.
    package enum Framing: Sendable, Hashable {
        /// This package's own format, with ping and close frame (Docs/reference/wire-formats.md).
        case framed
        /// A length before each message and nothing else.
        case plain(PlainFraming)
    }

    /// The format of the stream; this package's own by default.
    package var framing: Framing
    /// Whether this package's own format says of each message if it is text, by the second bit of its word; `false` by
    /// default. Messages are then at most 1 GiB.
    package var marksText: Bool
    /// The largest message that is sent or accepted, in bytes: 1 to 2,147,483,647, by default 16 MiB. A shorter length
    /// field lowers it to the largest length that the field can express.
    package var maximumMessageSize: Int
    /// How long the peer may take to answer a close frame since it last took bytes; 5 s by default, more than zero.
    package var closeTimeout: Duration

    /// Creates a configuration. The defaults are this package's own format and its limits.
    package init(
        framing: Framing = .framed,
        marksText: Bool = false,
        maximumMessageSize: Int = 16 << 20,
        closeTimeout: Duration = .seconds(5)
    ) {
        self.framing = framing
        self.marksText = marksText
        self.maximumMessageSize = maximumMessageSize
        self.closeTimeout = closeTimeout
    }

    /// Checks each value.
    ///
    /// - Throws: `.invalidConfiguration` with a sentence that names the key and its allowed values.
    package func validate() throws(TransportError) {
        guard maximumMessageSize >= 1, maximumMessageSize <= 0x7fff_ffff else {
            throw .configuration("maximumMessageSize", "must be from 1 to 2147483647")
        }
        guard closeTimeout > .zero else { throw .configuration("closeTimeout", "must be more than zero") }
        if case .plain(let plain) = framing, plain.length == .varint, plain.countsItself {
            throw .configuration("countsItself", "needs a length of 16 or 32 bits; a varint counts only the message")
        }
    }

    /// The largest message that both the limit and the length field allow.
    var effectiveLimit: Int {
        if marksText { return min(maximumMessageSize, 0x3fff_ffff) }
        guard case .plain(let plain) = framing, plain.length == .bits16 else { return maximumMessageSize }
        return min(maximumMessageSize, 0xffff - (plain.countsItself ? 2 : 0))
    }
}
