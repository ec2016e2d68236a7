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
    /// The limits on messages.
    public let limits: CodecLimits

    /// Creates a codec.
    ///
    /// - Parameters:
    ///   - encoder: The encoder. By default it has Foundation's settings: a `Date` is a number of seconds, and a `Data` is a
    ///     text in Base64.
    ///   - decoder: The decoder, likewise. It must not allow JSON5, whose texts cannot be limited in the same way.
    ///   - limits: The limits on messages, as with the codecs of this package. A level is an object or an array, and each
    ///     level of a recursive type takes up to 4 KiB of stack; threads of iOS have 512 KiB. A key is any name in an object.
    ///     The elements are the values of all arrays and objects together, and `maximumCount` does not apply. In writing, only
    ///     `maximumLength` does.
    public init(
        encoder: JSONEncoder = JSONEncoder(),
        decoder: JSONDecoder = JSONDecoder(),
        limits: CodecLimits = CodecLimits()
    ) {
        (self.encoder, self.decoder, self.limits) = (encoder, decoder, limits)
    }

    /// `.json`.
    public var format: WireFormat? { .json }

    /// The message as a text payload. The connection limits its size.
    ///
    /// - Throws: `.tooLong` beyond the limit of the codec, `.invalidNumber` for a number that is not finite, and `.invalidValue`
    ///   for a value that JSON or the type does not allow. The last two name the field.
    public func encode(_ message: consuming Message) throws(CodecError) -> Payload {
        let data: Data
        do {
            data = try encoder.encode(message)
        } catch {
            throw CodecError(encoding: error, of: Message.self)
        }
        guard data.count <= limits.maximumLength else {
            throw CodecError(
                .tooLong,
                problem: "expected a message of at most \(limits.maximumLength) bytes, found one of \(data.count)"
            )
        }
        return Payload(data, kind: .text)
    }

    /// The message of a payload of any kind, whose size the connection has limited. It must be UTF-8.
    ///
    /// - Throws: An error with the field, what was expected and what was seen: `.malformed` for bytes that are no JSON,
    ///   `.tooLong`, `.tooDeep`, `.keyTooLong` and `.tooManyElements` beyond the limits, `.missingField`, `.wrongType`,
    ///   `.numberOutOfRange`, and `.invalidValue` for a value that the type refuses. The error quotes nothing of the message,
    ///   neither values nor the keys of a dictionary. On Linux, Foundation does not tell the field of a number that is out of
    ///   range.
    public func decode(_ payload: Payload) throws(CodecError) -> Message {
        guard !decoder.allowsJSON5 else {
            throw CodecError(.malformed, problem: "expected a decoder without allowsJSON5, found one with it")
        }
        try JSONBounds.check(payload.bytes, limits)
        let data = payload.data
        do {
            return try decoder.decode(Message.self, from: data)
        } catch {
            throw CodecError(decoding: error, of: Message.self, from: data)
        }
    }

    /// The codec of another type, with the same encoder and decoder.
    func codec<Other>(of type: Other.Type) -> CodableJSON<Other> {
        CodableJSON<Other>(encoder: encoder, decoder: decoder, limits: limits)
    }
}
