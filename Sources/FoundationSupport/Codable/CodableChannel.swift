import Codecs
import Foundation
import TransportAPI
import Transports

/// A channel for messages of a `Codable` type, as JSON:
///
/// ```swift
/// let orders = supervisor.channel(of: Order.self)
/// let outcome = await orders.send(Order(dish: "soup", count: 2))
/// for await order in orders.messages { show(order) }
/// ```
public typealias CodableChannel<Message: Codable & Sendable> = MessageChannel<CodableJSON<Message>>

/// A channel of a session for messages of a `Codable` type, as JSON.
public typealias CodableSessionChannel<Message: Codable & Sendable> = SessionMessageChannel<CodableJSON<Message>>

extension Supervisor {
    /// A channel for messages of a `Codable` type, as JSON. The key `codec` of the configuration does not matter to it.
    ///
    /// If a type is also a ``/Codecs/WireMessage``, pass the codec. It chooses between the two.
    ///
    /// - Parameters:
    ///   - type: The type of the messages.
    ///   - codec: The encoder and the decoder. Those with Foundation's defaults unless it is given.
    public func channel<Message: Codable & Sendable>(
        of type: Message.Type = Message.self,
        codec: CodableJSON<Message> = CodableJSON()
    ) -> CodableChannel<Message> {
        channel(by: codec)
    }
}

extension Session {
    /// A channel for messages of a `Codable` type, as JSON.
    ///
    /// If a type is also a ``/Codecs/WireMessage``, pass the codec. It chooses between the two.
    ///
    /// - Parameters:
    ///   - type: The type of the messages.
    ///   - codec: The encoder and the decoder. Those with Foundation's defaults unless it is given.
    public func channel<Message: Codable & Sendable>(
        of type: Message.Type = Message.self,
        codec: CodableJSON<Message> = CodableJSON()
    ) -> CodableSessionChannel<Message> {
        channel(by: codec)
    }
}

extension MessageChannel {
    /// Sends a message as a request and waits for its answer; see ``/TransportAPI/Supervisor/request(_:timeout:)``. The answer
    /// has another type, and the encoder and decoder of the channel.
    ///
    /// - Parameters:
    ///   - message: The request.
    ///   - timeout: How long to wait for the answer, including the time without a connection.
    ///   - type: The type of the answer.
    /// - Throws: The reason why there is no answer: `.notSent` if the codec refuses the request, and `.unreadable` if it
    ///   cannot read the answer.
    public nonisolated(nonsending) func request<Message, Reply: Codable & Sendable>(
        _ message: consuming Message,
        timeout: Duration,
        answeredBy type: Reply.Type = Reply.self
    ) async throws(RequestError) -> Reply where Codec == CodableJSON<Message> {
        try await request(message, timeout: timeout, answeredBy: codec.codec(of: Reply.self))
    }

    /// Answers the requests of the peer, which are messages of the channel's type; see
    /// ``/TransportAPI/Supervisor/onRequest(on:_:)``. A supervisor has one handler, so this replaces that of another channel. A
    /// request that the codec cannot read is answered with ``/TransportAPI/RequestFailure/unreadable``.
    public func onRequest<Message, Reply: Codable & Sendable>(
        on executor: (any TaskExecutor)? = nil,
        _ handler: @escaping @Sendable (Message) async throws -> Reply
    ) where Codec == CodableJSON<Message> {
        onRequest(on: executor, answeredBy: codec.codec(of: Reply.self), handler)
    }
}

extension SessionMessageChannel {
    /// Sends a message as a request to the client and waits for its answer. The answer has another type, and the encoder and
    /// decoder of the channel.
    ///
    /// - Parameters:
    ///   - message: The request.
    ///   - timeout: How long to wait for the answer, including the time without a connection.
    ///   - type: The type of the answer.
    /// - Throws: The reason why there is no answer: `.notSent` if the codec refuses the request, and `.unreadable` if it
    ///   cannot read the answer.
    public nonisolated(nonsending) func request<Message, Reply: Codable & Sendable>(
        _ message: consuming Message,
        timeout: Duration,
        answeredBy type: Reply.Type = Reply.self
    ) async throws(RequestError) -> Reply where Codec == CodableJSON<Message> {
        try await request(message, timeout: timeout, answeredBy: codec.codec(of: Reply.self))
    }

    /// Answers the requests of the client, which are messages of the channel's type; see
    /// ``/TransportAPI/Session/onRequest(on:_:)``. Call this in `onSession`. A session has one handler, so this replaces that of
    /// another channel. A request that the codec cannot read is answered with
    /// ``/TransportAPI/RequestFailure/unreadable``.
    public func onRequest<Message, Reply: Codable & Sendable>(
        on executor: (any TaskExecutor)? = nil,
        _ handler: @escaping @Sendable (Message) async throws -> Reply
    ) where Codec == CodableJSON<Message> {
        onRequest(on: executor, answeredBy: codec.codec(of: Reply.self), handler)
    }
}
