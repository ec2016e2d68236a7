import Codecs
import TransportAPI

extension Channel {
    /// Sends a message as a request and waits for its answer; see ``/TransportAPI/Supervisor/request(_:timeout:)``.
    ///
    /// ```swift
    /// let page = try await chat.request(question, timeout: .seconds(10), answeredBy: Page.self)
    /// ```
    ///
    /// - Parameters:
    ///   - message: The request.
    ///   - timeout: How long to wait for the answer, including the time without a connection.
    ///   - type: The type of the answer, which has the channel's format.
    /// - Throws: The reason why there is no answer: `.notSent` if the codec refuses the request, and `.unreadable` if it
    ///   cannot read the answer.
    public nonisolated(nonsending) func request<Reply: WireMessage>(
        _ message: consuming Message,
        timeout: Duration,
        answeredBy type: Reply.Type = Reply.self
    ) async throws(RequestError) -> Reply {
        let answer = try await supervisor.request(try codec.request(message), timeout: timeout)
        return try codec.answer(from: answer)
    }

    /// Answers the requests of the peer, which are messages of the channel's type; see
    /// ``/TransportAPI/Supervisor/onRequest(on:_:)``. A supervisor has one handler, so this replaces that of another channel. A
    /// request that the codec cannot read is answered with ``/TransportAPI/RequestFailure/unreadable``.
    public func onRequest<Reply: WireMessage>(
        on executor: (any TaskExecutor)? = nil,
        _ handler: @escaping @Sendable (Message) async throws -> Reply
    ) {
        supervisor.onRequest(on: executor, codec.answering(handler))
    }
}

extension SessionChannel {
    /// Sends a message as a request to the client and waits for its answer, as ``Channel/request(_:timeout:answeredBy:)``
    /// does.
    public nonisolated(nonsending) func request<Reply: WireMessage>(
        _ message: consuming Message,
        timeout: Duration,
        answeredBy type: Reply.Type = Reply.self
    ) async throws(RequestError) -> Reply {
        let answer = try await session.request(try codec.request(message), timeout: timeout)
        return try codec.answer(from: answer)
    }

    /// Answers the requests of the client, which are messages of the channel's type; see
    /// ``/TransportAPI/Session/onRequest(on:_:)``. Call this in `onSession`. A session has one handler, so this replaces that of
    /// another channel. A request that the codec cannot read is answered with
    /// ``/TransportAPI/RequestFailure/unreadable``.
    public func onRequest<Reply: WireMessage>(
        on executor: (any TaskExecutor)? = nil,
        _ handler: @escaping @Sendable (Message) async throws -> Reply
    ) {
        session.onRequest(on: executor, codec.answering(handler))
    }
}

extension ConfiguredCodec {
    /// The payload of a request.
    fileprivate func request<Message: WireMessage>(_ message: consuming Message) throws(RequestError) -> Payload {
        do throws(TransportError) {
            return try payload(of: message)
        } catch {
            throw .notSent(error)
        }
    }

    /// Reads the answer to a request.
    fileprivate func answer<Reply: WireMessage>(from payload: Payload) throws(RequestError) -> Reply {
        do throws(CodecError) {
            return try decode(Reply.self, from: payload.bytes)
        } catch {
            throw .unreadable("\(UndecodableMessage(payload: payload, expected: format, error: error))")
        }
    }

    /// A handler that reads requests and writes answers in this format.
    fileprivate func answering<Message: WireMessage, Reply: WireMessage>(
        _ handler: @escaping @Sendable (Message) async throws -> Reply
    ) -> RequestHandler {
        { payload in
            let message: Message
            do throws(CodecError) {
                message = try decode(Message.self, from: payload.bytes)
            } catch {
                throw RequestFailure.unreadable
            }
            return try self.payload(of: try await handler(message))
        }
    }
}
