/// Makes the two halves of DEFLATE (RFC 1951, raw) for connections that compress. Cores get theirs from outside, so
/// that they call no library; ``ZLib`` is one.
package protocol MessageCompressor: Sendable {
    /// A compressor that looks back at most 2^`windowBits` bytes, 9 to 15; `nil` if there is no memory.
    func makeDeflater(windowBits: Int) -> (any MessageDeflater)?
    /// A decompressor of what looks back at most 2^`windowBits` bytes, 9 to 15; `nil` if there is no memory.
    func makeInflater(windowBits: Int) -> (any MessageInflater)?
}

/// Compresses what one side of one connection sends. Used by one thread at a time.
package protocol MessageDeflater: AnyObject, Sendable {
    /// The compressed form of `message`, flushed to a byte's end, without the 00 00 FF FF that a flush ends with (RFC 7692,
    /// section 7.2.1); `nil` if the library failed. `message` is not empty.
    func deflate(_ message: UnsafeRawBufferPointer) -> [UInt8]?
    /// Forgets what came before.
    func reset()
    /// How much memory it takes, in bytes; asked for once, when it is made. Servers bound what all connections take together
    /// (``ServerLimits/maximumBuffered``).
    var bufferedBytes: Int { get }
}

/// Decompresses what one side of one connection receives. Used by one thread at a time.
package protocol MessageInflater: AnyObject, Sendable {
    /// Appends the plain form of `input` to `output`, the present part of a message, which never gets more than `limit`
    /// bytes. It may reserve twice what it gets, but beyond `capacity` no more than it needs. Should stop when it has
    /// made some KiB, to be called with the rest again.
    func inflate(
        _ input: UnsafeRawBufferPointer,
        onto output: inout [UInt8],
        limit: Int,
        capacity: Int
    ) -> InflateResult
    /// Whether what came so far ends where a block does.
    var isAtBlockEnd: Bool { get }
    /// Forgets what came before.
    func reset()
    /// How much memory it takes at most, in bytes; asked for once, when it is made.
    var bufferedBytes: Int { get }
}

/// What became of a piece of input.
package enum InflateResult: Sendable, Hashable {
    /// So many bytes of it were taken; at least one.
    case taken(Int)
    /// There is more than the limit allows.
    case tooLarge
    /// This is not DEFLATE, or the library failed.
    case malformed
}

/// How messages are compressed (permessage-deflate, RFC 7692), where both sides can.
///
/// A side allocates when its first compressed message leaves or arrives, and keeps that with the connection. With zlib
/// and windows of 32 KiB it is 262 KiB for what leaves and 39 KiB for what arrives; with windows of 1 KiB it is 14 KiB
/// and 8 KiB. At a server it counts towards ``ServerLimits/maximumBuffered``.
///
/// Lengths tell about contents: where someone else's text shares a connection with a secret, compression can betray the
/// secret to whoever sees the lengths. That, and the memory, is why it is off by default.
package struct WebSocketCompression: Sendable {
    /// Where compressors come from.
    package var compressor: any MessageCompressor
    /// How far back what this side sends refers, as a power of two of bytes, 9 to 15; 15. The peer may ask for less.
    package var windowBits = 15
    /// How far back what the peer sends may refer, 9 to 15; 15. A server does without compression if it can't keep to a
    /// client's wish; a client that does not offer to keep to a server's is let have 15.
    package var peerWindowBits = 15
    /// Whether messages refer to those before (context takeover); yes. Without it messages of a chat hardly shrink.
    package var keepsContext = true
    /// The same for what the peer sends; yes.
    package var peerKeepsContext = true
    /// Messages of fewer bytes are sent as they are; 32.
    package var threshold = 32

    /// How many times what came a message of more than 1 MiB may expand to; 100, where DEFLATE itself can do 1,032. What is
    /// made for more has work in mind, not words; it ends the connection with close code 1009.
    package var maximumExpansion = 100
    /// How many bytes a message may expand to whatever it was compressed to.
    var freeExpansion = 1 << 20

    /// All at its default: for connections with few users or large messages; about 300 KiB for each with zlib.
    package init(_ compressor: any MessageCompressor) {
        self.compressor = compressor
    }

    /// For a server with many users, and small messages: windows of 1 KiB, which hold the last few messages; about 22 KiB for
    /// each connection with zlib. Chat messages of 180 bytes in JSON shrink to about a half, as with the largest window.
    package static func small(_ compressor: any MessageCompressor) -> WebSocketCompression {
        var compression = WebSocketCompression(compressor)
        compression.windowBits = 10
        compression.peerWindowBits = 10
        return compression
    }
}
