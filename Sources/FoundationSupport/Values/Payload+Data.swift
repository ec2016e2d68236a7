import Foundation
import TransportAPI

extension Payload {
    /// Creates a payload with a copy of these bytes.
    public init(
        _ data: Data,
        kind: Kind = .binary,
        topic: String? = nil,
        qos: QoS? = nil,
        isRetained: Bool = false
    ) {
        self.init([UInt8](data), kind: kind, topic: topic, qos: qos, isRetained: isRetained)
    }

    /// A copy of the message's bytes.
    public var data: Data { Data(bytes) }
}
