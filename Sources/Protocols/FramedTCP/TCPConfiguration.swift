import TransportAPI

/// How messages are framed over a TCP byte stream, and within which limits.
package struct TCPConfiguration: Sendable, Hashable {
    /// How a length goes over the wire.
    package enum LengthField: Sendable, Hashable {
        /// Two bytes: messages up to 65,535 bytes.
        case bits16
        /// Four bytes.
        case bits32
        /// One to five bytes of seven bits each, the lowest first, the top bit set on all but the last, as protobuf
        /// writes its delimited messages (LEB128).
        case varint
    }

    /// Which byte of a length comes first.
    package enum ByteOrder: Sendable, Hashable {
        case bigEndian, littleEndian
    }

    /// A length before each message and nothing else: no ping, no goodbye. For servers that are not ours.
    package struct PlainFraming: Sendable, Hashable {
        /// How the length is written; 32 bits by default.
        package var length: LengthField
        /// The order of its bytes; big-endian by default. Means nothing for a varint.
        package var byteOrder: ByteOrder
        /// Whether the length counts its own bytes too; not by default, and never for a varint.
        package var countsItself: Bool

        /// A length of 32 bits, big-endian, that does not count itself, where nothing else is said.
        package init(length: LengthField = .bits32, byteOrder: ByteOrder = .bigEndian, countsItself: Bool = false) {
            self.length = length
            self.byteOrder = byteOrder
            self.countsItself = countsItself
        }
    }

    /// The format of the stream.
    package enum Framing: Sendable, Hashable {
        /// Ours, with ping and close frame (Docs/reference/wire-formats.md).
        case framed
        /// A length before each message and nothing else.
        case plain(PlainFraming)
    }

    /// Which format is spoken; ours by default.
    package var framing: Framing
    /// The largest message sent or accepted, in bytes: 1 to 2,147,483,647, by default 16 MiB. A shorter length field lowers
    /// it to what it can say.
    package var maximumMessageSize: Int
    /// How long the peer has to answer a close frame since it last took bytes; 5 s by default, more than zero.
    package var closeTimeout: Duration

    /// Our format with the default limits, where nothing else is said.
    package init(
        framing: Framing = .framed,
        maximumMessageSize: Int = 16 << 20,
        closeTimeout: Duration = .seconds(5)
    ) {
        self.framing = framing
        self.maximumMessageSize = maximumMessageSize
        self.closeTimeout = closeTimeout
    }

    /// Checks each value.
    ///
    /// - Throws: `.invalidConfiguration` with a sentence that names the key and what it may be.
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
        guard case .plain(let plain) = framing, plain.length == .bits16 else { return maximumMessageSize }
        return min(maximumMessageSize, 0xffff - (plain.countsItself ? 2 : 0))
    }
}
