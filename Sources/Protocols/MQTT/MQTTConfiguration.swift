import TransportAPI

/// How a client uses MQTT 3.1.1: its identity, its subscriptions, its default topic, and its limits.
package struct MQTTConfiguration: Sendable, Hashable {
    /// The client identifier. The default, `nil`, is a random one of 23 letters and digits, which every broker has to
    /// accept (MQTT 3.1.1, section 3.1.3.1).
    package var clientID: String?
    /// Whether the broker deletes this client's subscriptions and messages when the connection ends; `true` by default.
    ///
    /// `false` requires a ``clientID`` (section 3.1.2.4). A message received at QoS 1 or 2 is then acknowledged when
    /// the receiver requests the next message. Messages that the broker has not acknowledged when a connection ends are
    /// sent again over the transport's next connection, whatever outcome their sending had.
    package var cleanSession = true
    /// Whether messages may leave right behind CONNECT, without waiting for CONNACK (section 3.1.4); `false` by default.
    /// It requires ``cleanSession``.
    ///
    /// The connection counts as open as soon as CONNECT and SUBSCRIBE are written. The outcome of each message that is
    /// sent before CONNACK waits for that packet. At most ``maximumInFlight`` messages leave before it.
    package var publishesEarly = false
    /// The keep alive in seconds, 0 to 65,535; 80 by default. The broker must close the connection after one and a half
    /// times this silence (MQTT-3.1.2-24). 0 turns it off (section 3.1.2.10).
    package var keepAlive = 80
    /// How long the connection may be silent in either direction before PINGREQ is sent. The limit is three quarters of
    /// ``keepAlive``, unless that is 0.
    ///
    /// The default, `nil`, is this limit, which is 60 s by default. If ``keepAlive`` is 0 and this is `nil`, the
    /// connection sends no PINGREQ by itself.
    package var keepaliveInterval: Duration?
    /// The user name, if the broker requires one; `nil` by default.
    package var user: String?
    /// The password; `nil` by default. It requires a ``user`` (MQTT-3.1.2-22) and has at most 65,535 bytes.
    @Secret package var password: [UInt8]? = nil
    /// The message that the broker publishes if the connection ends without DISCONNECT; `nil` by default.
    package var will: MQTTWill?
    /// The topic of payloads that have no topic; `nil` by default.
    package var publishTopic: String?
    /// The filters that are subscribed to before the connection counts as open: none by default, at most 4,096.
    package var subscriptions: [MQTTSubscription] = []
    /// The QoS of published messages that do not choose their own (``Payload/qos``); 0 by default. At QoS 1 and 2, the
    /// outcome of a send is ``SendOutcome/acknowledged``.
    package var qos = MQTTQoS.atMostOnce
    /// How many packets may be in flight, 1 to 65,535; 64 by default.
    package var maximumInFlight = 64
    /// How many of these may be messages at QoS 2, 1 to 65,535; 20 by default. By default, mosquitto 2.0.11 of Debian
    /// 12, and mosquitto from 2.0.17 on, acknowledge and drop messages beyond 20, and a client of MQTT 3.1.1 cannot
    /// detect it.
    package var maximumExactlyOnceInFlight = 20
    /// The largest payload sent or received, in bytes; 1 to 268,369,916, 16 MiB by default. A packet may be larger by
    /// its topic and header.
    package var maximumMessageSize = 16 << 20
    /// How long CONNACK and SUBACK may take together; 10 s by default. In a kept session, a message that arrives before
    /// SUBACK opens the connection. With ``publishesEarly`` this is the time for CONNACK alone.
    package var handshakeTimeout = Duration.seconds(10)
    /// How long the broker may be silent after a keep-alive PINGREQ; 10 s by default. It is never longer than the
    /// silence before that PINGREQ.
    package var pingTimeout = Duration.seconds(10)
    /// How long PUBACK, PUBREC, PUBCOMP, SUBACK or UNSUBACK may take on an open connection; 30 s by default.
    ///
    /// If the broker sends other packets meanwhile, the client sends PINGREQ. The connection ends if PINGRESP arrives
    /// before the acknowledgement. Neither this time nor ``pingTimeout`` runs while output is queued in the kernel, or
    /// while the connection is not read because no caller takes its messages.
    package var acknowledgementTimeout = Duration.seconds(30)
    /// How long received messages that match no filter of the app wait for one, from the first of them; 30 s by default.
    /// The core does not use it.
    package var unclaimedWait = Duration.seconds(30)

    /// Creates the defaults: a random client identifier and a clean session without subscriptions.
    package init() {}

    /// Checks each value.
    ///
    /// - Throws: `.invalidConfiguration` for the first value that is not allowed. The error names the key and the
    ///   allowed values.
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
        try MQTTCheck.duration(unclaimedWait, "unclaimedWait")
    }

    /// The silence before PINGREQ, in nanoseconds; 0 if there is no limit.
    var pingInterval: Int64 {
        let most = Duration.seconds(keepAlive).wholeNanoseconds / 4 * 3
        guard let own = keepaliveInterval?.wholeNanoseconds else { return most }
        return most > 0 ? min(own, most) : own
    }

    private func checkIdentity() throws(TransportError) {
        if let clientID {
            try MQTTCheck.text(clientID, "clientID")
            guard !clientID.isEmpty || cleanSession else {
                throw .configuration("clientID", "must not be empty if cleanSession is false (MQTT-3.1.3-7)")
            }
        } else if !cleanSession {
            throw .configuration("clientID", "must be set if cleanSession is false (MQTT-3.1.3-7)")
        }
        guard !publishesEarly || cleanSession else {
            throw .configuration(
                "early-publish",
                "is on, but clean-session is off; allowed is off there, because messages of the last connection must "
                    + "leave first, and only CONNACK says whether the broker still has them"
            )
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

/// How a server uses MQTT 3.1.1 with one client.
package struct MQTTServerConfiguration: Sendable {
    /// Decides whether to accept a client. The arguments are its CONNECT, its address and port if they are known, and its
    /// verified certificate if it has sent one. The closure must not block or wait.
    package typealias Authentication = @Sendable (MQTTConnect, String?, TLSCertificate?) -> MQTTConnackCode

    /// Whether packets are reported as ``MQTTSignal`` for a broker. `false`, the default, reports payloads as messages,
    /// point to point.
    package var routesSignals = false
    /// Decides which clients are accepted. The default, `nil`, accepts all clients.
    package var authentication: Authentication?
    /// The sessions of a broker; `nil` by default. Without them no session outlives its connection.
    package var sessions: MQTTSessions?
    /// The QoS of messages sent point to point, unless the client subscribed with a lower one; 0 by default.
    package var qos = MQTTQoS.atMostOnce
    /// How many topic filters are stored for one client, point to point; 100 by default. SUBACK refuses further ones.
    package var maximumSubscriptions = 100
    /// How many messages at QoS 2 a client may send without releasing any by PUBREL, 1 to 65,535; 4,096 by default. One
    /// message more ends the connection.
    package var maximumUnreleased = 4096
    /// The longest client identifier, in bytes; 1,024 by default. A longer one is refused with CONNACK 2. Identifiers
    /// of up to 23 letters and digits have to be accepted (MQTT-3.1.3-5).
    package var maximumClientID = 1024
    /// The largest will, in bytes of its topic and its message together; 16 KiB by default. A larger one is refused
    /// with CONNACK 5.
    package var maximumWill = 16 << 10
    /// How many messages may wait for PUBACK or PUBCOMP, 1 to 65,535; 64 by default.
    package var maximumInFlight = 64
    /// The largest payload sent or received, in bytes; 1 to 268,369,916, 16 MiB by default.
    package var maximumMessageSize = 16 << 20
    /// How long a client may take to send CONNECT; 10 s by default.
    package var handshakeTimeout = Duration.seconds(10)

    /// Creates the defaults: all clients are accepted, point to point at QoS 0.
    package init() {}

    /// Checks ``maximumInFlight``, ``maximumMessageSize`` and ``handshakeTimeout``.
    ///
    /// - Throws: `.invalidConfiguration` for the first value that is not allowed. The error names the key and the
    ///   allowed values.
    package func validate() throws(TransportError) {
        try MQTTCheck.limits(maximumInFlight: maximumInFlight, maximumMessageSize: maximumMessageSize)
        try MQTTCheck.duration(handshakeTimeout, "handshakeTimeout")
    }
}

/// The checks that both configurations share.
package enum MQTTCheck {
    /// The largest payload, in bytes: the largest remaining length of four bytes, less the longest topic and a packet
    /// identifier.
    static let maximumMessageSize = MQTTPacketWriter.maximumRemainingLength - MQTTTopic.maximumLength - 4

    /// Checks filters that go into one packet: at most 4,096 well-formed filters of 256 MiB together.
    ///
    /// - Throws: `.invalidConfiguration`, with the key `subscribe`.
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
