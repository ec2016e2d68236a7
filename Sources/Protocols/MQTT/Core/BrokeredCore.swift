import TransportAPI

/// A server's core whose client a broker serves.
package protocol BrokeredCore: ProtocolCore {
    /// The session that the client has opened; `nil` if no session outlives its connection.
    var session: MQTTSession? { get }
    /// The same session, unless a later connection has taken it over; `nil` then.
    var live: MQTTSession? { get }
    /// Answers SUBSCRIBE with the QoS granted to each filter in its order, or `nil` for a refused one.
    mutating func grant(_ packetID: UInt16, _ granted: [MQTTQoS?], _ context: inout CoreContext)
    /// Answers UNSUBSCRIBE.
    mutating func confirmUnsubscribe(_ packetID: UInt16, _ context: inout CoreContext)
}
