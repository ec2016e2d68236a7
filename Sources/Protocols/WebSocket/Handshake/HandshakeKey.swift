import Primitives
import TransportAPI

/// The proof that the server has understood the client's handshake (RFC 6455, sections 4.1 and 4.2.2).
package enum HandshakeKey {
    /// The GUID of section 1.3.
    private static let suffix = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

    /// Returns a new key for a client to send: 16 random bytes in Base64.
    static func generate(_ random: inout RandomSource) -> String {
        var bytes: [UInt8] = []
        for _ in 0..<2 { withUnsafeBytes(of: random.next()) { bytes.append(contentsOf: $0) } }
        return String(decoding: Base64.encode(bytes), as: UTF8.self)
    }

    /// Returns whether `key` is the Base64 of 16 bytes. The unused bits of the last digit are ignored, because some
    /// clients choose random digits.
    static func isValid(_ key: String) -> Bool {
        key.utf8.count == 24 && key.hasSuffix("==") && key.utf8.prefix(22).allSatisfy(isDigit)
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"): true
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "+"), UInt8(ascii: "/"): true
        default: false
        }
    }

    /// Returns the value of Sec-WebSocket-Accept for `key`.
    package static func accept(for key: String) -> String {
        String(decoding: Base64.encode(SHA1.digest(Array(key.utf8) + suffix.utf8)), as: UTF8.self)
    }

    /// Returns whether two values are equal. The time depends only on their lengths.
    static func areEqual(_ left: String, _ right: String) -> Bool {
        guard left.utf8.count == right.utf8.count else { return false }
        return zip(left.utf8, right.utf8).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
    }
}
