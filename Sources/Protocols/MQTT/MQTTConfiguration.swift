import TransportAPI

/// How a client speaks MQTT 3.1.1: who it is, what it subscribes to, where it publishes, and its limits.
package struct MQTTConfiguration: Sendable, Hashable {
    /// The client identifier; `nil` for a random one of 23 letters and digits, which every broker has to accept
    /// (MQTT 3.1.1, section 3.1.3.1).
    package var clientID: String?
    /// Whether the broker forgets this client's subscriptions and messages when the connection ends. `false` needs a
    /// ``clientID`` (section 3.1.2.4), and what was received at QoS 1 or 2 is the broker's until the next message is
    /// asked for. What the broker has not acknowledged when a connection ends, the transport's next connection sends
    /// again, whatever the outcome of its sending was.
    package var cleanSession = true
    /// Seconds after which the broker may give up a silent client, 0 to 65,535; 80 by default, 0 for never (section 3.1.2.10).
    package var keepAlive = 80
    /// How long the connection may be silent in either direction before PINGREQ is sent, at most three quarters of
    /// ``keepAlive`` where that is not 0; `nil`, the default: three quarters of it, which is 60 s by default. Without
    /// either the connection sends none by itself.
    package var keepaliveInterval: Duration?
    /// The user name, if the broker asks for one.
    package var user: String?
    /// The password; needs a ``user`` (MQTT-3.1.2-22). At most 65,535 bytes.
    package var password: [UInt8]?
    /// What the broker publishes if the connection ends without a goodbye.
    package var will: MQTTWill?
    /// Where payloads without a topic of their own are published.
    package var publishTopic: String?
    /// What is subscribed to before the connection counts as open; at most 4,096 filters.
    package var subscriptions: [MQTTSubscription] = []
    /// The QoS of published messages that don't choose their own (``Payload/qos``); 0 by default. At 1 and 2, sending ends in
    /// ``SendOutcome/acknowledged``.
    package var qos = MQTTQoS.atMostOnce
    /// How many packets may wait for their acknowledgement, 1 to 65,535; 64 by default.
    package var maximumInFlight = 64
    /// How many of these may be messages of QoS 2, 1 to 65,535; 20 by default. mosquitto 2.0.11 acknowledges and drops
    /// what exceeds 20, unless it is configured otherwise, and a client of MQTT 3.1.1 can't know.
    package var maximumExactlyOnceInFlight = 20
    /// The largest payload sent or received, in bytes; 1 to 268,369,916, 16 MiB by default. A packet may be larger by
    /// its topic and header.
    package var maximumMessageSize = 16 << 20
    /// How long CONNACK and SUBACK may take together; 10 s by default. In a kept session, a message that comes before
    /// SUBACK opens the connection.
    package var handshakeTimeout = Duration.seconds(10)
    /// How long the broker may be silent after a keep-alive PINGREQ; 10 s by default, and never longer than
    /// the silence before it.
    package var pingTimeout = Duration.seconds(10)
    /// How long PUBACK, PUBREC, PUBCOMP, SUBACK or UNSUBACK may take on an open connection before the connection is
    /// given up; 30 s by default. If the broker sends other things then, it is asked by PINGREQ, and the connection
    /// ends if PINGRESP comes first. Neither this nor ``pingTimeout`` counts while output is on its way to the kernel,
    /// or while no caller takes what was received, so that the connection is not read.
    package var acknowledgementTimeout = Duration.seconds(30)

    /// The defaults: an anonymous client with a clean session that subscribes to nothing.
    package init() {}

    /// Throws `.invalidConfiguration` for the first value that is not allowed, naming the key and what it may be.
    package func validate() throws(TransportError) {
        try checkIdentity()
        guard 0...65_535 ~= keepAlive else {
            throw .configuration("keepAlive", "is \(keepAlive), allowed are 0 to 65535 s")
        }
        if let keepaliveInterval { try MQTTCheck.duration(keepaliveInterval, "keepaliveInterval") }
        if let will { try Self.check(will) }
        if let publishTopic, !MQTTTopic.isName(publishTopic) {
            throw .configuration("publish", "'\(publishTopic)' must be 1 to 65535 bytes without + and #")
        }
        try MQTTCheck.subscriptions(subscriptions)
        try MQTTCheck.limits(maximumInFlight: maximumInFlight, maximumMessageSize: maximumMessageSize)
        try MQTTCheck.window(maximumExactlyOnceInFlight, "maximumExactlyOnceInFlight")
        try MQTTCheck.duration(handshakeTimeout, "handshakeTimeout")
        try MQTTCheck.duration(pingTimeout, "pingTimeout")
        try MQTTCheck.duration(acknowledgementTimeout, "acknowledgementTimeout")
    }

    /// Nanoseconds of silence until PINGREQ; 0 for never.
    var pingInterval: Int64 {
        let most = Duration.seconds(keepAlive).wholeNanoseconds / 4 * 3
        guard let own = keepaliveInterval?.wholeNanoseconds else { return most }
        return most > 0 ? min(own, most) : own
    }

    private func checkIdentity() throws(TransportError) {
        if let clientID {
            try MQTTCheck.text(clientID, "clientID")
            guard !clientID.isEmpty || cleanSession else {
                throw .configuration("clientID", "must not be empty where cleanSession is false (MQTT-3.1.3-7)")
            }
        } else if !cleanSession {
            throw .configuration("clientID", "must be set where cleanSession is false (MQTT-3.1.3-7)")
        }
        if let user { try MQTTCheck.text(user, "user") }
        guard let password else { return }
        guard user != nil else { throw .configuration("password", "needs a user (MQTT-3.1.2-22)") }
        guard password.count <= 65_535 else { throw .configuration("password", "is longer than 65535 bytes") }
    }

    private static func check(_ will: MQTTWill) throws(TransportError) {
        guard MQTTTopic.isName(will.topic) else {
            throw .configuration("will", "has topic '\(will.topic)', which must be 1 to 65535 bytes without + and #")
        }
        guard will.payload.count <= 65_535 else { throw .configuration("will", "is longer than 65535 bytes") }
    }

}

/// How a server speaks MQTT 3.1.1 with one client.
package struct MQTTServerConfiguration: Sendable {
    /// Judges a client by its CONNECT, and by its address and port where they are known. Must neither block nor wait.
    package typealias Authentication = @Sendable (MQTTConnect, String?) -> MQTTConnackCode

    /// Whether packets surface as ``MQTTSignal`` for a broker, instead of payloads as messages point to point.
    package var routesSignals = false
    /// Who is let in; everybody if `nil`.
    package var authentication: Authentication?
    /// The sessions of a broker. Without them none outlives its connection.
    package var sessions: MQTTSessions?
    /// The QoS of messages sent point to point, unless the client subscribed with a lower one.
    package var qos = MQTTQoS.atMostOnce
    /// The most topic filters that are kept for one client, point to point; further ones are refused in SUBACK.
    package var maximumSubscriptions = 100
    /// How many messages of QoS 2 a client may send without releasing any by PUBREL, 1 to 65,535; 4,096 by default. Beyond it
    /// the connection is ended.
    package var maximumUnreleased = 4096
    /// The longest client identifier that is let in, in bytes; 1,024 by default. A longer one is refused with CONNACK
    /// 2. Those of up to 23 letters and digits have to be let in (MQTT-3.1.3-5).
    package var maximumClientID = 1024
    /// The largest will that is let in: bytes of its topic and its message together; 16 KiB by default. Who brings a larger one
    /// is refused with CONNACK 5.
    package var maximumWill = 16 << 10
    /// How many messages may wait for PUBACK or PUBCOMP, 1 to 65,535; 64 by default.
    package var maximumInFlight = 64
    /// The largest payload sent or received, in bytes; 1 to 268,369,916, 16 MiB by default.
    package var maximumMessageSize = 16 << 20
    /// How long a client may take to send CONNECT; 10 s by default.
    package var handshakeTimeout = Duration.seconds(10)

    /// The defaults: everybody is let in, point to point at QoS 0.
    package init() {}

    /// Throws `.invalidConfiguration` for the first value that is not allowed, naming the key and what it may be.
    package func validate() throws(TransportError) {
        try MQTTCheck.limits(maximumInFlight: maximumInFlight, maximumMessageSize: maximumMessageSize)
        try MQTTCheck.duration(handshakeTimeout, "handshakeTimeout")
    }
}

/// Checks that both configurations share.
package enum MQTTCheck {
    /// The largest payload: what four bytes of remaining length can tell, less the longest topic and a packet identifier.
    static let maximumMessageSize = MQTTPacketWriter.maximumRemainingLength - MQTTTopic.maximumLength - 4

    /// Checks filters that go into one packet.
    package static func subscriptions(_ subscriptions: [MQTTSubscription]) throws(TransportError) {
        guard subscriptions.count <= MQTTPacketReader.maximumFilters,
            MQTTPacketWriter.subscribeSize(subscriptions) <= MQTTPacketWriter.maximumRemainingLength
        else {
            let count = subscriptions.count
            throw .configuration("subscribe", "has \(count) topic filters, allowed are 4096 of 256 MiB together")
        }
        for subscription in subscriptions {
            guard MQTTTopic.isFilter(subscription.filter) else {
                let rule = "must be 1 to 65535 bytes, with + as a whole level and # as the last"
                throw .configuration("subscribe", "'\(subscription.filter)' \(rule)")
            }
        }
    }

    static func limits(maximumInFlight: Int, maximumMessageSize: Int) throws(TransportError) {
        try window(maximumInFlight, "maximumInFlight")
        guard 1...self.maximumMessageSize ~= maximumMessageSize else {
            let allowed = "allowed are 1 to \(self.maximumMessageSize) bytes"
            throw .configuration("maximumMessageSize", "is \(maximumMessageSize), \(allowed)")
        }
    }

    static func window(_ window: Int, _ key: String) throws(TransportError) {
        guard 1...65_535 ~= window else { throw .configuration(key, "is \(window), allowed are 1 to 65535") }
    }

    static func duration(_ duration: Duration, _ key: String) throws(TransportError) {
        guard duration > .zero else { throw .configuration(key, "is \(duration), it must be longer than zero") }
    }

    static func text(_ text: String, _ key: String) throws(TransportError) {
        guard text.utf8.count <= 65_535, !text.utf8.contains(0) else {
            throw .configuration(key, "must be at most 65535 bytes without U+0000")
        }
    }
}
