import TransportAPI

/// A payload with the UTF-8 bytes of this text.
package func bytes(_ text: String) -> Payload { Payload(Array(text.utf8)) }

extension Payload {
    package var string: String { String(decoding: bytes, as: UTF8.self) }
}
