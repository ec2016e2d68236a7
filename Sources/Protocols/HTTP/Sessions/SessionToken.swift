import Primitives
import TransportAPI

/// The name of a session, which is its key as well: 128 random bits. Only the server chooses it, so no client can be made
/// to use a session whose name another one knows.
package struct SessionToken: Hashable, Sendable {
    private struct Bits: Hashable, Sendable {
        var high: UInt64
        var low: UInt64
    }

    @Secret private var bits: Bits

    /// The number of characters of ``text``.
    package static let length = 22

    /// Creates a new token. `random` must be the system's cryptographic source.
    package init(_ random: inout RandomSource) {
        bits = Bits(high: random.next(), low: random.next())
    }

    /// Reads the text of a token. Returns `nil` for any text that is not exactly the ``text`` of one.
    package init?(_ text: some StringProtocol) {
        let characters = Array(text.utf8)
        guard characters.count == Self.length,
            let bytes = characters.withUnsafeBufferPointer({ Base64.decode($0) }), bytes.count == 16
        else { return nil }
        func word(_ part: ArraySlice<UInt8>) -> UInt64 { part.reduce(0) { $0 << 8 | UInt64($1) } }
        bits = Bits(high: word(bytes[..<8]), low: word(bytes[8...]))
        // The decoder accepts both alphabets, and any value of the unused bits.
        guard self.text.utf8.elementsEqual(characters) else { return nil }
    }

    /// The token in the URL-safe alphabet of Base64, without padding (RFC 4648, section 5).
    package var text: String {
        var bytes: [UInt8] = []
        for word in [bits.high, bits.low] { withUnsafeBytes(of: word.bigEndian) { bytes.append(contentsOf: $0) } }
        let encoded = Base64.encode(bytes).prefix(Self.length).map { byte in
            switch byte {
            case UInt8(ascii: "+"): UInt8(ascii: "-")
            case UInt8(ascii: "/"): UInt8(ascii: "_")
            default: byte
            }
        }
        return String(decoding: encoded, as: UTF8.self)
    }
}
