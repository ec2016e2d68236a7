import Primitives

/// A received message that the app acknowledges once it has processed it. An unacknowledged message is delivered again,
/// also to the next process if this one ends. The peer of a session delivers it over the next connection, and a broker
/// does so in a persistent session of MQTT.
public struct ReceivedMessage: Sendable {
    /// Identifies a message among all messages of its sender, also when it is delivered again: over the next connection, to
    /// the next process, or in another session. An app that stores it together with its own data knows which messages it has
    /// processed, whatever is killed. It is no secret.
    public struct ID: Sendable, Hashable, Codable, CustomStringConvertible {
        let sender: SessionID
        let number: UInt64

        /// 32 hexadecimal digits of the sender, a colon, and the decimal number of the message, of 52 bytes at most.
        public var description: String {
            Self.digits(sender.high) + Self.digits(sender.low) + ":\(number)"
        }

        private static func digits(_ half: UInt64) -> String {
            let digits = String(half, radix: 16)
            return String(repeating: "0", count: 16 - digits.utf8.count) + digits
        }
    }

    /// The message.
    public let payload: Payload
    /// Identifies the message. `nil` outside sessions, and for a message that was acknowledged when it was received.
    public let id: ID?
    /// Whether the app may have been given this message before, over an earlier connection or in an earlier process, as
    /// its sender says, or a broker on the way (``Payload/isDuplicate``).
    public let isRepeated: Bool
    /// `nil` if it was acknowledged when it was received.
    private let receipt: Receipt?

    init(_ payload: Payload, _ receipt: Receipt?, id: ID? = nil, isRepeated: Bool = false) {
        self.payload = payload
        self.receipt = receipt
        (self.id, self.isRepeated) = (id, isRepeated)
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

    /// Whether it was acknowledged. Call this on the runtime.
    var isAcknowledged: Bool { receipt?.isSettled ?? true }
}
