import Primitives

/// A received message that the app acknowledges once it has processed it. An unacknowledged message is delivered again,
/// also to the next process if this one ends. The peer of a session delivers it over the next connection, and a broker
/// does so in a persistent session of MQTT.
public struct ReceivedMessage: Sendable {
    /// The message.
    public let payload: Payload
    /// `nil` if it was acknowledged when it was received.
    private let receipt: Receipt?

    init(_ payload: Payload, _ receipt: Receipt?) {
        self.payload = payload
        self.receipt = receipt
    }

    /// Acknowledges to the peer that the message was processed. Acknowledgements are sent in the order in which the
    /// messages were received. One that comes early waits until those before it were made. Calling this again, or after
    /// the connection or session has ended, does nothing. Can be called from any task.
    ///
    /// If all copies of this value are released without a call, the message is delivered again over the next
    /// connection, and no later message is acknowledged before that.
    public func acknowledge() {
        receipt?.acknowledge()
    }

    /// Whether an acknowledgement still has an effect. It has none once the connection has ended over which the message
    /// came, because the next one brings the message again. Call this on the runtime.
    package var awaitsAcknowledgement: Bool { receipt?.isAwaited ?? false }
}
