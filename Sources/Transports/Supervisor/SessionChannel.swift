import Codecs
import TransportAPI

/// A session and a codec together: messages of one type from and to one client of a ``/TransportAPI/SessionServer``.
///
/// ```swift
/// let server = SessionServer { session in
///     let chat = session.channel(of: ChatMessage.self)
///     let messages = chat.messages
///     Task { for await message in messages { _ = await chat.send(message) } }
/// }
/// ```
public struct SessionMessageChannel<Codec: PayloadCodec>: Sendable {
    /// The session that carries the messages.
    public let session: Session
    /// The format of the messages.
    public let codec: Codec
    var report = UndecodableReport.ofSessions

    /// Sends one message and waits for its outcome; see ``/TransportAPI/Session/send(_:)``. A message that the codec refuses ends in
    /// `.rejected` with the codec's reason, and with the code `messageTooLarge` beyond a limit of the codec.
    public nonisolated(nonsending) func send(_ message: consuming Codec.Message) async -> SendOutcome {
        do throws(TransportError) {
            return await session.send(try codec.payload(of: message))
        } catch {
            return .rejected(error)
        }
    }

    /// Puts one message into the outbox of the session; see ``/TransportAPI/Session/submit(_:)``.
    @discardableResult
    public nonisolated(nonsending) func submit(
        _ message: consuming Codec.Message
    ) async throws(TransportError) -> MessageID {
        try await session.submit(try codec.payload(of: message))
    }

    /// The received messages. Messages that the codec cannot read are left out, and ``/TransportAPI/Session/events`` has an event for
    /// each. The first such message of all sessions is also reported by one line on standard error. Like
    /// ``/TransportAPI/Session/messages``, this begins with the first message if it is called in `onSession`.
    public var messages: DecodedMessages<Codec.Message> {
        DecodedMessages(payloads: session.messages) { payload in
            do throws(CodecError) {
                return try decode(payload)
            } catch {
                report.note(UndecodableMessage(payload: payload, expected: codec.format, error: error), of: session)
                return nil
            }
        }
    }

    /// Reads a payload, such as one of ``/TransportAPI/Session/unacknowledged()``.
    public func decode(_ payload: Payload) throws(CodecError) -> Codec.Message {
        try codec.decode(payload)
    }
}

/// A channel of a session for messages that declare their fields once for all formats of this package.
public typealias SessionChannel<Message: WireMessage & Sendable> = SessionMessageChannel<WireCodec<Message>>

extension Session {
    /// A channel for messages of one type.
    ///
    /// - Parameters:
    ///   - type: The type of the messages.
    ///   - codec: The format of the messages; JSON by default.
    public func channel<Message: WireMessage>(
        of type: Message.Type = Message.self,
        codec: ConfiguredCodec = WireFormat.json.codec()
    ) -> SessionChannel<Message> {
        channel(by: WireCodec(codec))
    }

    /// A channel for the messages of a codec, which may have a format that this package does not have.
    public func channel<Codec: PayloadCodec>(by codec: Codec) -> SessionMessageChannel<Codec> {
        SessionMessageChannel(session: self, codec: codec)
    }
}
