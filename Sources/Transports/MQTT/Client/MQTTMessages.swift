import Protocols
import TransportAPI

/// The messages of one filter, from ``MQTTClient/subscribe(_:qos:)``. The sequence keeps its client alive.
///
/// It ends when the filter is unsubscribed and when the client is closed. It throws `.forbidden` with detail 0x80 if
/// the broker refuses the filter later. It throws the error that ended the connection or the supervisor for good, if
/// there was one.
public struct MQTTMessages: AsyncSequence, Sendable {
    let client: MQTTClient
    let elements: Subscription<SubscriptionRouter<MQTTTopic>.Element>

    /// Makes an iterator. All iterators of one sequence share its place, so each message goes to one of them.
    public func makeAsyncIterator() -> Iterator {
        Iterator(client: client, elements: elements.makeAsyncIterator())
    }

    /// Iterates over the messages.
    public struct Iterator: AsyncIteratorProtocol {
        let client: MQTTClient
        var elements: Subscription<SubscriptionRouter<MQTTTopic>.Element>.Iterator

        /// Returns the next message, or `nil` at the end or when the task is cancelled.
        ///
        /// - Throws: The error that ended the sequence.
        public mutating func next() async throws(TransportError) -> Payload? {
            try await next(isolation: #isolation)
        }

        /// Returns the next message like ``next()``, in the caller's isolation.
        ///
        /// - Throws: The error that ended the sequence.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws(TransportError) -> Payload? {
            try await elements.next(isolation: actor)?.get()
        }
    }
}

/// A broker's answer to one filter of a SUBSCRIBE.
public struct MQTTGrant: Sendable, Hashable {
    /// The filter.
    public var filter: String
    /// The maximum QoS of messages, or `nil` if the broker refuses the filter.
    public var qos: Payload.QoS?
    /// Why the broker may have refused the filter, as far as that can be seen from the filter; `nil` if it is granted.
    public var refusal: String? { qos == nil ? MQTTTopic.refusal(of: filter) : nil }

    /// Creates an answer from its parts.
    public init(filter: String, qos: Payload.QoS?) {
        self.filter = filter
        self.qos = qos
    }
}
