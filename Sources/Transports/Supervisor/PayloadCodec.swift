import Codecs
import TransportAPI

/// Writes the messages of one type as payloads, and reads them: the format of a ``MessageChannel``. ``WireCodec`` is the one
/// for a ``/Codecs/WireMessage``. An app that has a format of its own implements this.
///
/// It is used by several tasks at the same time.
public protocol PayloadCodec<Message>: Sendable {
    /// The type of the messages.
    associatedtype Message: Sendable

    /// The format, if this package has it. It is named where a message cannot be read. `nil` by default.
    var format: WireFormat? { get }

    /// The message as a payload. Text should have the kind `.text`, which WebSocket sends in text frames.
    ///
    /// - Throws: The reason why the message cannot be written. The channel rejects it with that reason.
    func encode(_ message: consuming Message) throws(CodecError) -> Payload

    /// The message of a payload, whose size the connection has limited.
    ///
    /// - Throws: What is wrong with the bytes. The error must not quote them, because it is written to logs.
    func decode(_ payload: Payload) throws(CodecError) -> Message
}

extension PayloadCodec {
    /// `nil`: a format that this package does not have.
    public var format: WireFormat? { nil }
}

/// The codec of a channel of one ``/Codecs/WireMessage`` type, in a format that is chosen at run time.
public struct WireCodec<Message: WireMessage & Sendable>: PayloadCodec {
    /// The codec of the format.
    public let configured: ConfiguredCodec

    /// Creates the codec of a channel.
    public init(_ codec: ConfiguredCodec) {
        configured = codec
    }

    /// The format that the codec reads and writes.
    public var format: WireFormat? { configured.format }

    /// The message as a payload, of the kind that fits the format.
    public func encode(_ message: consuming Message) throws(CodecError) -> Payload {
        Payload(try configured.encode(message), kind: configured.format.isText ? .text : .binary)
    }

    /// The message of a payload of any kind.
    public func decode(_ payload: Payload) throws(CodecError) -> Message {
        try configured.decode(Message.self, from: payload.bytes)
    }
}

extension PayloadCodec {
    /// The payload of a message that is to be sent.
    ///
    /// - Throws: `.messageTooLarge` for a message beyond the codec's limits, `.invalidConfiguration` for one that the codec
    ///   refuses for another reason.
    func payload(of message: consuming Message) throws(TransportError) -> Payload {
        do throws(CodecError) {
            return try encode(message)
        } catch {
            switch error.code {
            case .tooDeep, .tooLong, .tooManyElements, .keyTooLong:
                let advice = "shorten the message, or raise this limit of the codecs on both sides"
                throw TransportError(.messageTooLarge, .open, "the message can't be encoded: \(error): \(advice)")
            default: throw TransportError(.invalidConfiguration, .open, "the message can't be encoded: \(error)")
            }
        }
    }

    /// The payload of a request.
    func request(_ message: consuming Message) throws(RequestError) -> Payload {
        do throws(TransportError) {
            return try payload(of: message)
        } catch {
            throw .notSent(error)
        }
    }

    /// Reads the answer to a request.
    func answer(from payload: Payload) throws(RequestError) -> Message {
        do throws(CodecError) {
            return try decode(payload)
        } catch {
            throw .unreadable("\(UndecodableMessage(payload: payload, expected: format, error: error))")
        }
    }

    /// A handler that reads requests by this codec, and writes answers by another one.
    func answering<Reply: PayloadCodec>(
        by codec: Reply,
        _ handler: @escaping @Sendable (Message) async throws -> Reply.Message
    ) -> RequestHandler {
        { payload in
            let message: Message
            do throws(CodecError) {
                message = try decode(payload)
            } catch {
                throw RequestFailure.unreadable
            }
            return try codec.payload(of: try await handler(message))
        }
    }
}
