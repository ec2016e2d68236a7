import Protocols
import TransportAPI

/// The messages of one filter, from ``MQTTClient/subscribe(_:qos:)``. It ends when the filter is unsubscribed and when
/// the client is closed; it throws `.forbidden` with detail 0x80 when the broker refuses to go on with it, and what
/// ended the connection or the supervisor for good if that was an error. It keeps its client alive.
public struct MQTTMessages: AsyncSequence, Sendable {
    let client: MQTTClient
    let elements: Subscription<SubscriptionRouter.Element>

    /// Begins to read. All iterators of one sequence share its place: each message goes to one of them.
    public func makeAsyncIterator() -> Iterator {
        Iterator(client: client, elements: elements.makeAsyncIterator())
    }

    /// Reads the messages.
    public struct Iterator: AsyncIteratorProtocol {
        let client: MQTTClient
        var elements: Subscription<SubscriptionRouter.Element>.Iterator

        /// The next message; `nil` at the end, or when the task is cancelled.
        public mutating func next() async throws(TransportError) -> Payload? {
            try await next(isolation: #isolation)
        }

        /// As ``next()``, in the caller's isolation.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws(TransportError) -> Payload? {
            try await elements.next(isolation: actor)?.get()
        }
    }
}

/// A broker's answer to one filter of a SUBSCRIBE.
public struct MQTTGrant: Sendable, Hashable {
    /// Which one.
    public var filter: String
    /// The most at which messages come; `nil` if the broker refuses the filter.
    public var qos: Payload.QoS?

    /// An answer spelled out.
    public init(filter: String, qos: Payload.QoS?) {
        self.filter = filter
        self.qos = qos
    }
}
