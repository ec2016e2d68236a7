import Codecs
import TransportAPI

extension MessageChannel {
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
    public nonisolated(nonsending) func request<Message, Reply: WireMessage>(
        _ message: consuming Message,
        timeout: Duration,
        answeredBy type: Reply.Type = Reply.self
    ) async throws(RequestError) -> Reply where Codec == WireCodec<Message> {
        try await request(message, timeout: timeout, answeredBy: WireCodec<Reply>(codec.configured))
    }

    /// Sends a message as a request, and reads its answer by a codec of your own.
    ///
    /// - Throws: The reason why there is no answer: `.notSent` if the codec refuses the request, and `.unreadable` if
    ///   the codec of the answer cannot read it.
    public nonisolated(nonsending) func request<Reply: PayloadCodec>(
        _ message: consuming Codec.Message,
        timeout: Duration,
        answeredBy answers: Reply
    ) async throws(RequestError) -> Reply.Message {
        let answer = try await supervisor.request(try codec.request(message), timeout: timeout)
        return try answers.answer(from: answer)
    }

    /// Answers the requests of the peer, which are messages of the channel's type; see
    /// ``/TransportAPI/Supervisor/onRequest(on:_:)``. A supervisor has one handler, so this replaces that of another channel. A
    /// request that the codec cannot read is answered with ``/TransportAPI/RequestFailure/unreadable``.
    public func onRequest<Message, Reply: WireMessage>(
        on executor: (any TaskExecutor)? = nil,
        _ handler: @escaping @Sendable (Message) async throws -> Reply
    ) where Codec == WireCodec<Message> {
        onRequest(on: executor, answeredBy: WireCodec<Reply>(codec.configured), handler)
    }

    /// Answers the requests of the peer, and writes the answers by a codec of your own.
    public func onRequest<Reply: PayloadCodec>(
        on executor: (any TaskExecutor)? = nil,
        answeredBy answers: Reply,
        _ handler: @escaping @Sendable (Codec.Message) async throws -> Reply.Message
    ) {
        supervisor.onRequest(on: executor, codec.answering(by: answers, handler))
    }
}

extension SessionMessageChannel {
    /// Sends a message as a request to the client and waits for its answer, as `request` of ``MessageChannel`` does.
    public nonisolated(nonsending) func request<Message, Reply: WireMessage>(
        _ message: consuming Message,
        timeout: Duration,
        answeredBy type: Reply.Type = Reply.self
    ) async throws(RequestError) -> Reply where Codec == WireCodec<Message> {
        try await request(message, timeout: timeout, answeredBy: WireCodec<Reply>(codec.configured))
    }

    /// Sends a message as a request to the client, and reads its answer by a codec of your own.
    ///
    /// - Throws: The reason why there is no answer: `.notSent` if the codec refuses the request, and `.unreadable` if
    ///   the codec of the answer cannot read it.
    public nonisolated(nonsending) func request<Reply: PayloadCodec>(
        _ message: consuming Codec.Message,
        timeout: Duration,
        answeredBy answers: Reply
    ) async throws(RequestError) -> Reply.Message {
        let answer = try await session.request(try codec.request(message), timeout: timeout)
        return try answers.answer(from: answer)
    }

    /// Answers the requests of the client, which are messages of the channel's type; see
    /// ``/TransportAPI/Session/onRequest(on:_:)``. Call this in `onSession`. A session has one handler, so this replaces that of
    /// another channel. A request that the codec cannot read is answered with
    /// ``/TransportAPI/RequestFailure/unreadable``.
    public func onRequest<Message, Reply: WireMessage>(
        on executor: (any TaskExecutor)? = nil,
        _ handler: @escaping @Sendable (Message) async throws -> Reply
    ) where Codec == WireCodec<Message> {
        onRequest(on: executor, answeredBy: WireCodec<Reply>(codec.configured), handler)
    }

    /// Answers the requests of the client, and writes the answers by a codec of your own.
    public func onRequest<Reply: PayloadCodec>(
        on executor: (any TaskExecutor)? = nil,
        answeredBy answers: Reply,
        _ handler: @escaping @Sendable (Codec.Message) async throws -> Reply.Message
    ) {
        session.onRequest(on: executor, codec.answering(by: answers, handler))
    }
}
