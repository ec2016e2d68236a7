import Codecs
import Foundation
import TransportAPI
import Transports

/// Writes and reads a `Codable` type as JSON, by Foundation's `JSONEncoder` and `JSONDecoder`. It is the codec of a
/// ``CodableChannel``, and works alone for a bare connection:
///
/// ```swift
/// let codec = CodableJSON<Order>()
/// let outcome = await connection.send(try codec.encode(order))
/// if let payload = try await connection.receive() { show(try codec.decode(payload)) }
/// ```
///
/// An encoder and a decoder with strategies of your own, such as those for dates, must be the same on both sides. Do not
/// change them after you have passed them here.
public struct CodableJSON<Message: Codable & Sendable>: PayloadCodec {
    /// The encoder of all messages.
    public let encoder: JSONEncoder
    /// The decoder of all messages.
    public let decoder: JSONDecoder

    /// Creates a codec. Both arguments have Foundation's defaults unless they are given: a `Date` is a number of seconds, and
    /// a `Data` is a text in Base64.
    public init(encoder: JSONEncoder = JSONEncoder(), decoder: JSONDecoder = JSONDecoder()) {
        (self.encoder, self.decoder) = (encoder, decoder)
    }

    /// `.json`.
    public var format: WireFormat? { .json }

    /// The message as a text payload. The connection limits its size.
    ///
    /// - Throws: `.invalidValue` with the field and what JSON or the type does not allow, such as a number that is not finite.
    public func encode(_ message: consuming Message) throws(CodecError) -> Payload {
        do {
            return Payload(try encoder.encode(message), kind: .text)
        } catch {
            throw CodecError(encoding: error, of: Message.self)
        }
    }

    /// The message of a payload of any kind, whose size the connection has limited. Foundation limits the depth of JSON to 512.
    ///
    /// - Throws: An error with the field, what was expected and what was seen: `.malformed` for bytes that are no JSON,
    ///   `.missingField`, `.wrongType`, `.numberOutOfRange`, and `.invalidValue` for a value that the type refuses. The
    ///   error quotes nothing of the message, neither values nor the keys of a dictionary. On Linux, Foundation does not tell
    ///   the field of a number that is out of range.
    public func decode(_ payload: Payload) throws(CodecError) -> Message {
        let data = payload.data
        do {
            return try decoder.decode(Message.self, from: data)
        } catch {
            throw CodecError(decoding: error, of: Message.self, from: data)
        }
    }

    /// The codec of another type, with the same encoder and decoder.
    func codec<Other>(of type: Other.Type) -> CodableJSON<Other> {
        CodableJSON<Other>(encoder: encoder, decoder: decoder)
    }
}
