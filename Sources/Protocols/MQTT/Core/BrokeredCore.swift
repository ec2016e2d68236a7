import TransportAPI

/// A server's core whose client a broker serves.
package protocol BrokeredCore: PackageCore {
    /// The session that the client has opened; `nil` if it ends with the connection, or if a later connection has taken
    /// it over.
    var live: MQTTSession? { get }
    /// Answers SUBSCRIBE with the QoS granted to each filter in its order, or `nil` for a refused one.
    mutating func grant(_ packetID: UInt16, _ granted: [MQTTQoS?], _ context: inout CoreContext)
    /// Answers UNSUBSCRIBE.
    mutating func confirmUnsubscribe(_ packetID: UInt16, _ context: inout CoreContext)
}

extension WebSocketCarrier: BrokeredCore where Inner: BrokeredCore {
    package var live: MQTTSession? { inner.live }

    package mutating func grant(_ packetID: UInt16, _ granted: [MQTTQoS?], _ context: inout CoreContext) {
        inside(&context) { $0.grant(packetID, granted, &$1) }
    }

    package mutating func confirmUnsubscribe(_ packetID: UInt16, _ context: inout CoreContext) {
        inside(&context) { $0.confirmUnsubscribe(packetID, &$1) }
    }
}
