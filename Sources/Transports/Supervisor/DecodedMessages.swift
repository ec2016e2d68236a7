import TransportAPI

/// Received messages after decoding, as they arrive: ``MessageChannel/messages``, ``MessageChannel/results``
/// and ``SessionMessageChannel/messages``. Listening begins when the sequence is made, and only one task can wait at a time.
public struct DecodedMessages<Element: Sendable>: AsyncSequence, Sendable {
    let payloads: Subscription<Payload>
    /// Returns `nil` for a payload that is left out.
    let decode: @Sendable (Payload) -> Element?

    /// Makes an iterator. All iterators of one sequence share its place, so each message goes to one of them.
    public func makeAsyncIterator() -> Iterator {
        Iterator(payloads: payloads.makeAsyncIterator(), decode: decode)
    }

    /// Iterates over the messages.
    public struct Iterator: AsyncIteratorProtocol {
        var payloads: Subscription<Payload>.Iterator
        let decode: @Sendable (Payload) -> Element?

        /// Returns the next message, or `nil` at the end or when the task is cancelled.
        public mutating func next() async -> Element? {
            await next(isolation: #isolation)
        }

        /// Returns the next message like ``next()``, in the caller's isolation.
        public mutating func next(isolation actor: isolated (any Actor)?) async -> Element? {
            while let payload = await payloads.next(isolation: actor) {
                if let element = decode(payload) { return element }
            }
            return nil
        }
    }
}
