import TransportAPI

/// The messages of one subscription, from ``MQTTClient/subscribe(_:qos:)`` or ``STOMPClient/subscribe(_:)``. The sequence
/// keeps its connection or supervisor alive.
///
/// It ends when the filter is unsubscribed and when the client is closed. It throws `.forbidden` if the broker refuses the
/// filter later. It throws the error that ended the connection or the supervisor for good, if there was one.
public struct TopicMessages: AsyncSequence, Sendable {
    let client: TopicClient
    let elements: Subscription<SubscriptionRouter.Element>

    /// Makes an iterator. All iterators of one sequence share its place, so each message goes to one of them.
    public func makeAsyncIterator() -> Iterator {
        Iterator(client: client, elements: elements.makeAsyncIterator())
    }

    /// Iterates over the messages.
    public struct Iterator: AsyncIteratorProtocol {
        let client: TopicClient
        var elements: Subscription<SubscriptionRouter.Element>.Iterator

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
