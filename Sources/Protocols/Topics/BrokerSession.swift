/// A session at a broker, as far as its client can tell it from others. Two are equal if they are the same session for sure.
package struct BrokerSession: Sendable, Hashable {
    /// A random number. It differs whenever the broker has begun a new session, or may have. Filters that were granted under
    /// another number may not be there any more.
    package let number: UInt64
    /// Another one, which differs only if the broker has said that it has begun a new session; 0 before that.
    private let beginning: UInt64

    /// Creates a session from its numbers.
    package init(number: UInt64, beginning: UInt64) {
        (self.number, self.beginning) = (number, beginning)
    }

    /// Whether the broker has surely lost the former session. If not, this is the same one, or the broker has begun it in an
    /// answer that was lost.
    package func isSurelyNew(after former: BrokerSession) -> Bool {
        beginning != 0 && beginning != former.beginning
    }
}
