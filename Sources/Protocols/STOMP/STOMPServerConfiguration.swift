import TransportAPI

/// How a server uses STOMP 1.2, with one client or for a broker.
package struct STOMPServerConfiguration: Sendable {
    /// The limits of received frames. The largest body is also that of a message that is sent.
    package var limits = STOMPFrameReader.Limits()
    /// How many subscriptions a client may have; 1,000 by default.
    package var maximumSubscriptions = 1000
    /// The longest id of a subscription, in bytes; 256 by default.
    package var maximumID = 256
    /// How many messages may wait for the ACK of the client, 1 to 65,535; 100 by default.
    package var maximumInFlight = 100
    /// The shortest interval of heart-beats in either direction; 1 s by default. A client chooses the interval, and a
    /// shorter one costs the server work.
    package var shortestHeartBeat = Duration.seconds(1)
    /// How much longer than twice the agreed time the client may be silent; 10 s by default. It is never longer than the
    /// agreed time itself, unless that is shorter than a second.
    package var heartBeatMargin = Duration.seconds(10)
    /// How long CONNECT may take; 10 s by default.
    package var handshakeTimeout = Duration.seconds(10)
    /// Decides about a client by its CONNECT, its address and its certificate. `nil`, the default, accepts every client.
    package var authentication:
        (@Sendable (_ connect: STOMPFrame, _ peer: String?, TLSCertificate?) -> STOMPRejection?)?
    /// Whether a broker gets every frame as an ``STOMPSignal``. `false`, the default: payloads are messages.
    package var routesSignals = false

    /// Creates the defaults.
    package init() {}

    /// Checks each value.
    ///
    /// - Throws: `.invalidConfiguration` for the first value that is not allowed. The error names the key and the
    ///   allowed values.
    package func validate() throws(TransportError) {
        try SettingCheck.number("limits.line", limits.line, 1...STOMPCheck.maximumLimit)
        try SettingCheck.number("limits.headers", limits.headers, 1...STOMPCheck.maximumLimit)
        try SettingCheck.number("limits.head", limits.head, 1...STOMPCheck.maximumLimit)
        try SettingCheck.number("limits.body", limits.body, 1...STOMPFrameReader.largestPassedOver)
        try SettingCheck.number("maximumSubscriptions", maximumSubscriptions, 1...Int.max)
        try SettingCheck.number("maximumID", maximumID, 1...Int.max)
        try SettingCheck.number("maximumInFlight", maximumInFlight, 1...65_535)
        guard shortestHeartBeat >= .milliseconds(1) else {
            throw .configuration("shortestHeartBeat", "is \(shortestHeartBeat), it must be at least 1 ms")
        }
        try SettingCheck.positive("heartBeatMargin", heartBeatMargin)
        try SettingCheck.positive("handshakeTimeout", handshakeTimeout)
    }
}

/// Why a server rejects a client.
package struct STOMPRejection: Sendable, Hashable {
    /// The error of the connection at the server.
    package var code: TransportError.Code
    /// The text of the ERROR that the client gets.
    package var text: String

    /// Creates a rejection.
    package init(_ code: TransportError.Code, _ text: String) {
        (self.code, self.text) = (code, text)
    }
}
