import TransportAPI

/// A payload of this text's bytes.
package func bytes(_ text: String) -> Payload { Payload(Array(text.utf8)) }

extension Payload {
    /// The bytes as text.
    package var string: String { String(decoding: bytes, as: UTF8.self) }
}
