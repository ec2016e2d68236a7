/// Creates compressors and decompressors (raw DEFLATE, RFC 1951) for connections. Cores receive one from outside, so
/// that they call no library. `ZLib` in the module Transports is one.
package protocol MessageCompressor: Sendable {
    /// Returns a compressor that refers back at most 2^`windowBits` bytes, 9 to 15. Returns `nil` if memory is
    /// exhausted.
    func makeDeflater(windowBits: Int) -> (any MessageDeflater)?
    /// Returns a decompressor for data that refers back at most 2^`windowBits` bytes, 9 to 15. Returns `nil` if memory
    /// is exhausted.
    func makeInflater(windowBits: Int) -> (any MessageInflater)?
}

/// Compresses the messages that one side of one connection sends. Only one thread uses it at a time.
package protocol MessageDeflater: AnyObject, Sendable {
    /// Returns the compressed form of `message`, which is not empty. It is flushed to the end of a byte, and the final
    /// 00 00 FF FF of a flush is removed (RFC 7692, section 7.2.1). Returns `nil` if the library failed, or if a reader
    /// with this limit would refuse the result, however it is cut on the way. The state then includes a part of the
    /// message.
    func deflate(_ message: UnsafeRawBufferPointer, within limit: ExpansionLimit) -> [UInt8]?
    /// Drops all state of earlier messages.
    func reset()
    /// Its memory in bytes, which is read once, after creation. Servers limit the sum over all connections
    /// (`ServerLimits.maximumBuffered` in the module Transports).
    var bufferedBytes: Int { get }
}

/// Decompresses the messages that one side of one connection receives. Only one thread uses it at a time.
package protocol MessageInflater: AnyObject, Sendable {
    /// Decompresses `input` and appends the result to `output`, the current part of a message. It should return after
    /// some KiB of output; it is then called again with the rest.
    ///
    /// - Parameters:
    ///   - input: the next bytes of the compressed message.
    ///   - output: gets at most `limit` bytes in total.
    ///   - limit: the largest size of `output` in bytes.
    ///   - capacity: the memory beyond which `output` may reserve only as many bytes as it needs. Below, it may
    ///     reserve twice as many.
    func inflate(
        _ input: UnsafeRawBufferPointer,
        onto output: inout [UInt8],
        limit: Int,
        capacity: Int
    ) -> InflateResult
    /// Whether the input so far ends at the end of a block.
    var isAtBlockEnd: Bool { get }
    /// Drops all state of earlier messages.
    func reset()
    /// Its largest memory in bytes, which is read once, after creation.
    var bufferedBytes: Int { get }
}

/// The result of decompressing a piece of input.
package enum InflateResult: Sendable, Hashable {
    /// This many bytes of the piece were consumed, at least one.
    case taken(Int)
    /// The result is larger than the limit.
    case tooLarge
    /// The piece is not DEFLATE, or the library failed.
    case malformed
}

/// How messages are compressed (permessage-deflate, RFC 7692), if both sides support it.
///
/// A connection allocates memory when its first compressed message is sent or received, and keeps it until its end.
/// With zlib and windows of 32 KiB, sending takes 262 KiB and receiving 39 KiB. With windows of 1 KiB, it is 14 KiB and
/// 8 KiB. At a server this memory counts towards `ServerLimits.maximumBuffered`.
///
/// The length of a compressed message depends on its contents. If an attacker's text and a secret share a connection,
/// an observer of the lengths may learn the secret. Because of that and of the memory, compression is off by default.
@dynamicMemberLookup
package struct WebSocketCompression: Sendable {
    /// Creates the compressors.
    package var compressor: any MessageCompressor
    /// How they are used.
    package var settings: DeflateSettings

    /// Creates a configuration, by default with the settings for connections with few users or large messages.
    package init(_ compressor: any MessageCompressor, _ settings: DeflateSettings = DeflateSettings()) {
        (self.compressor, self.settings) = (compressor, settings)
    }

    /// Returns a configuration with the settings for a server with many users and small messages.
    package static func small(_ compressor: any MessageCompressor) -> WebSocketCompression {
        WebSocketCompression(compressor, .small)
    }

    /// A member of ``settings``.
    package subscript<Value>(dynamicMember member: WritableKeyPath<DeflateSettings, Value>) -> Value {
        get { settings[keyPath: member] }
        set { settings[keyPath: member] = newValue }
    }
}

/// How the messages of a WebSocket are compressed. The defaults are for connections with few users or large messages.
/// With zlib, each takes about 300 KiB.
package struct DeflateSettings: Sendable, Hashable {
    /// How far back messages of this side refer, as a power of two of bytes, 9 to 15; 15 by default. The peer may
    /// require less. If it requires less than 9, this side sends messages uncompressed.
    package var windowBits = 15
    /// How far back messages of the peer may refer, 9 to 15; 15 by default. A client fails the handshake if the server
    /// does not agree to its value. A server uses 15 for a client that does not offer to limit its window.
    package var peerWindowBits = 15
    /// Whether messages refer to earlier ones (context takeover); `true` by default. Without it, short chat messages
    /// hardly shrink.
    package var keepsContext = true
    /// The same for messages of the peer; `true` by default.
    package var peerKeepsContext = true
    /// Messages of fewer bytes are sent uncompressed; 32 by default.
    package var threshold = 32

    /// How far messages of the peer may expand. One that expands further ends the connection with close code 1009. A
    /// message of this side that expands further than the default is sent uncompressed, because the peer may be another
    /// reader of this package.
    package var expansion = ExpansionLimit()

    /// Creates the defaults.
    package init() {}

    /// The settings for a server with many users and small messages. The windows of 1 KiB hold the last few messages. With
    /// zlib, each connection takes about 22 KiB. JSON chat messages of 180 bytes shrink to about a half, as with the
    /// largest window.
    package static let small = {
        var settings = DeflateSettings()
        (settings.windowBits, settings.peerWindowBits) = (10, 10)
        return settings
    }()
}
