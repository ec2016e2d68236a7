import Codecs
import Protocols
import TransportAPI

/// A supervisor and a codec together: sends and receives messages of one type, over the transport that the configuration
/// sets.
///
/// ```swift
/// let chat = supervisor.channel(of: ChatMessage.self)
/// let outcome = await chat.send(message)
/// for await message in chat.messages { show(message) }
/// ```
public struct MessageChannel<Codec: PayloadCodec>: Sendable {
    /// The supervisor that carries the messages.
    public let supervisor: Supervisor
    /// The format of the messages.
    public let codec: Codec
    let report: UndecodableReport

    /// Sends one message and waits for its outcome; see ``/TransportAPI/Supervisor/send(_:)``. A message that the codec refuses ends
    /// in `.rejected` with the codec's reason, and with the code `messageTooLarge` beyond a limit of the codec.
    public nonisolated(nonsending) func send(_ message: consuming Codec.Message) async -> SendOutcome {
        do throws(TransportError) {
            return await supervisor.send(try codec.payload(of: message))
        } catch {
            return .rejected(error)
        }
    }

    /// Puts one message into the outbox; see ``/TransportAPI/Supervisor/submit(_:)``.
    public nonisolated(nonsending) func submit(
        _ message: consuming Codec.Message
    ) async throws(TransportError) -> MessageID {
        try await supervisor.submit(try codec.payload(of: message))
    }

    /// The received messages. A message that the codec cannot read is left out and reported to the supervisor's
    /// observer (``/TransportAPI/SupervisorEvent/undecodable(bytes:_:)``). Without an observer, the first such message of each
    /// channel is reported by one line on standard error. ``results`` contains all messages.
    public var messages: DecodedMessages<Codec.Message> {
        DecodedMessages(payloads: supervisor.messages) { try? result($0).get() }
    }

    /// The received messages, including those that the codec cannot read. The latter are reported as by ``messages``.
    public var results: DecodedMessages<Result<Codec.Message, UndecodableMessage>> {
        DecodedMessages(payloads: supervisor.messages, decode: result)
    }

    /// Reads a payload, such as one of ``/TransportAPI/Supervisor/undelivered``.
    public func decode(_ payload: Payload) throws(CodecError) -> Codec.Message {
        try codec.decode(payload)
    }

    @Sendable private func result(_ payload: Payload) -> Result<Codec.Message, UndecodableMessage> {
        do throws(CodecError) {
            return .success(try decode(payload))
        } catch {
            let message = UndecodableMessage(payload: payload, expected: codec.format, error: error)
            report.note(message, of: supervisor)
            return .failure(message)
        }
    }
}

/// A channel for messages that declare their fields once for all formats of this package.
public typealias Channel<Message: WireMessage & Sendable> = MessageChannel<WireCodec<Message>>

extension Supervisor {
    /// A channel for messages of one type.
    ///
    /// - Parameters:
    ///   - type: The type of the messages.
    ///   - codec: The format of the messages. By default it is the format of the configuration, or JSON if the
    ///     configuration sets none.
    public func channel<Message: WireMessage>(
        of type: Message.Type = Message.self,
        codec: ConfiguredCodec? = nil
    ) -> Channel<Message> {
        let named = format.flatMap(WireFormat.init) ?? .json
        return channel(by: WireCodec(codec ?? named.codec()))
    }

    /// A channel for the messages of a codec, which may have a format that this package does not have. The format of the
    /// configuration does not matter.
    public func channel<Codec: PayloadCodec>(by codec: Codec) -> MessageChannel<Codec> {
        MessageChannel(supervisor: self, codec: codec, report: UndecodableReport())
    }
}
