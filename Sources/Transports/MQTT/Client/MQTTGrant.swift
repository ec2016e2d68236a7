import Protocols
import TransportAPI

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
