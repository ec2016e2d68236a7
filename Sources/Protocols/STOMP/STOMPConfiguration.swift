import Primitives
import TransportAPI

/// How a client acknowledges the messages of its subscriptions (section "SUBSCRIBE ack Header").
package enum STOMPAckMode: String, Sendable, Hashable, CaseIterable {
    /// It does not: the broker assumes that a message has arrived as soon as it is sent.
    case auto
    /// By ACK when the receiver requests the next message. It counts for all earlier messages of the subscription.
    case client
    /// By ACK when the receiver requests the next message. It counts for this message alone.
    case clientIndividual = "client-individual"
}

/// Whether a client asks for a RECEIPT of each SUBSCRIBE and UNSUBSCRIBE.
package enum STOMPSubscriptionReceipts: String, Sendable, Hashable, CaseIterable {
    /// If CONNECTED has a `server` header. RabbitMQ, ActiveMQ and CoilMQ have one. The simple broker of Spring has none, and
    /// sends no receipts.
    case auto
    /// It does. A subscription without its receipt fails.
    case on
    /// It does not. A subscription counts as made when its frame is written, and a refusal ends the connection without the
    /// name of the destination.
    case off
}

/// How a client uses STOMP 1.2: its identity, its subscriptions, its default destination, and its limits.
package struct STOMPConfiguration: Sendable, Hashable {
    /// The name of the virtual host (section "CONNECT or STOMP Frame"): the host of the connection, or any name that
    /// the broker's configuration gives.
    package var host: String
    /// The user, if the broker requires one; `nil` by default.
    package var login: String?
    /// The password; `nil` by default.
    @Secret package var passcode: String? = nil
    /// Further headers of CONNECT; none by default.
    package var connectHeaders: [STOMPHeader] = []
    /// The destination of payloads that have no topic; `nil` by default.
    package var destination: String?
    /// The content-type of every message that is sent, a MIME type. By default, `nil`, it is `text/plain;charset=utf-8`
    /// for texts and `application/octet-stream` for others.
    package var contentType: String?
    /// Further headers of each SEND; none by default.
    package var sendHeaders: [STOMPHeader] = []
    /// The destinations that are subscribed to before the connection counts as open: none by default, at most 1,024.
    package var subscriptions: [String] = []
    /// How the messages of all subscriptions are acknowledged; ``STOMPAckMode/auto`` by default.
    package var ack = STOMPAckMode.auto
    /// Further headers of each SUBSCRIBE, such as the number of messages that the broker sends in advance; none by
    /// default.
    package var subscribeHeaders: [STOMPHeader] = []
    /// Whether subscriptions are confirmed; ``STOMPSubscriptionReceipts/auto`` by default.
    package var subscriptionReceipts = STOMPSubscriptionReceipts.auto
    /// Whether each SEND whose payload does not choose (``Payload/qos``) asks for a RECEIPT; `false` by default. With a
    /// receipt, the outcome of a send is ``SendOutcome/acknowledged``.
    package var requestsReceipts = false
    /// How many messages may wait for their RECEIPT, 1 to 65,535; 64 by default.
    package var maximumInFlight = 64
    /// The limits of received frames. The largest body is also that of a message that is sent.
    package var limits = STOMPFrameReader.Limits()
    /// How long messages of a client of subscriptions wait for the listener of a configured destination, from the first of
    /// them on a connection; 30 s by default.
    package var unclaimedWait = Duration.seconds(30)
    /// How often the client offers to send heart-beats, at least 1 ms; 60 s by default. `nil` means never.
    package var outgoingHeartBeat: Duration? = .seconds(60)
    /// How often the client wants to hear from the broker, at least 1 ms; 60 s by default. `nil` means that it does not
    /// matter.
    package var incomingHeartBeat: Duration? = .seconds(60)
    /// How much longer than twice the agreed time the broker may be silent; 10 s by default. It is never longer than the
    /// agreed time itself, unless that is shorter than a second.
    package var heartBeatMargin = Duration.seconds(10)
    /// How long CONNECTED and the receipts of the subscriptions may take together; 10 s by default. A message that
    /// arrives before the last of these receipts opens the connection, because a broker may send any number of them
    /// before.
    package var handshakeTimeout = Duration.seconds(10)
    /// How long a RECEIPT may take on an open connection; 30 s by default, and four times as long while the broker
    /// sends anything else. The time does not run while output is queued in the kernel, or while the connection is not
    /// read because no caller takes its messages.
    package var receiptTimeout = Duration.seconds(30)
    /// How long the RECEIPT of DISCONNECT may take after the broker last took bytes; 5 s by default.
    package var closeTimeout = Duration.seconds(5)

    /// Creates the defaults for this virtual host: no user, no subscriptions, no receipts.
    package init(host: String) {
        self.host = host
    }

    /// Checks a destination. Its syntax depends on the broker.
    ///
    /// - Throws: `.invalidConfiguration` if it is empty, too long for a header, or has a NUL.
    package static func check(destination: String) throws(TransportError) {
        try STOMPCheck.destination(destination, "destination")
    }

    /// Checks each value.
    ///
    /// - Throws: `.invalidConfiguration` for the first value that is not allowed. The error names the key and the
    ///   allowed values.
    package func validate() throws(TransportError) {
        guard !host.isEmpty else { throw .configuration("host", "is empty, and CONNECT has to name one") }
        try STOMPCheck.plain(host, "host")
        if let login { try STOMPCheck.plain(login, "login") }
        if let passcode { try STOMPCheck.plain(passcode, "passcode") }
        for header in connectHeaders {
            try STOMPCheck.header(header, STOMPCheck.ofConnect, "connectHeaders")
            guard !header.name.utf8.contains(UInt8(ascii: ":")) else {
                throw .configuration("connectHeaders", "have a name with a colon, which CONNECT cannot have")
            }
            try STOMPCheck.plain(header.name, "connectHeaders")
            try STOMPCheck.plain(header.value, "connectHeaders")
        }
        if let destination { try STOMPCheck.destination(destination, "destination") }
        if let contentType {
            try STOMPCheck.text(contentType, "contentType")
            guard contentType.utf8.contains(UInt8(ascii: "/")) else {
                throw .configuration("contentType", "is '\(contentType)', which is not a MIME type such as text/plain")
            }
        }
        for header in sendHeaders { try STOMPCheck.header(header, STOMPCheck.ofSend, "sendHeaders") }
        for header in subscribeHeaders { try STOMPCheck.header(header, STOMPCheck.ofSubscribe, "subscribeHeaders") }
        guard subscriptions.count <= STOMPCheck.maximumSubscriptions else {
            let most = STOMPCheck.maximumSubscriptions
            throw .configuration("subscribe", "has \(subscriptions.count) destinations, allowed are \(most)")
        }
        for destination in subscriptions { try STOMPCheck.destination(destination, "subscribe") }
        try checkLimits()
    }

    private func checkLimits() throws(TransportError) {
        try SettingCheck.number("maximumInFlight", maximumInFlight, 1...65_535)
        try SettingCheck.number("limits.line", limits.line, 1...STOMPCheck.maximumLimit)
        try SettingCheck.number("limits.headers", limits.headers, 1...STOMPCheck.maximumLimit)
        try SettingCheck.number("limits.head", limits.head, 1...STOMPCheck.maximumLimit)
        try SettingCheck.number("limits.body", limits.body, 1...STOMPFrameReader.largestPassedOver)
        for (key, interval) in [("outgoingHeartBeat", outgoingHeartBeat), ("incomingHeartBeat", incomingHeartBeat)] {
            guard let interval, interval < .milliseconds(1) else { continue }
            throw .configuration(key, "is \(interval), it must be at least 1 ms")
        }
        try SettingCheck.notNegative("unclaimedWait", unclaimedWait)
        try SettingCheck.positive("heartBeatMargin", heartBeatMargin)
        try SettingCheck.positive("handshakeTimeout", handshakeTimeout)
        try SettingCheck.positive("receiptTimeout", receiptTimeout)
        try SettingCheck.positive("closeTimeout", closeTimeout)
    }
}

/// The checks of what a client writes.
enum STOMPCheck {
    /// The longest text of a header, in bytes. Escaped, it fits the limit of a line that readers have by default.
    static let maximumText = 8 << 10
    /// The most subscriptions of a connection.
    static let maximumSubscriptions = 1024
    /// The largest value of the limits of a head.
    static let maximumLimit = 16 << 20

    /// The headers that CONNECT, SEND and SUBSCRIBE get from the client itself.
    static let ofConnect = ["accept-version", "host", "login", "passcode", "heart-beat", "content-length", "receipt"]
    static let ofSend = ["destination", "content-type", "content-length", "receipt", "transaction"]
    static let ofSubscribe = ["destination", "id", "ack", "content-length", "receipt"]

    /// Checks a text that is escaped. Only NUL cannot be written.
    static func text(_ text: String, _ key: String) throws(TransportError) {
        guard text.utf8.count <= maximumText, !text.utf8.contains(0) else {
            throw .configuration(key, "must be at most \(maximumText) bytes without U+0000")
        }
    }

    /// Checks a text of CONNECT, where nothing is escaped.
    static func plain(_ text: String, _ key: String) throws(TransportError) {
        let isPlain = text.utf8.allSatisfy { $0 != UInt8(ascii: "\r") && $0 != UInt8(ascii: "\n") && $0 != 0 }
        guard isPlain, text.utf8.count <= maximumText else {
            throw .configuration(key, "must be at most \(maximumText) bytes without line ends and U+0000")
        }
    }

    /// Checks a destination of any syntax, because that depends on the broker.
    @inline(__always)
    static func destination(_ text: String, _ key: String) throws(TransportError) {
        let isGood = text.withContiguousUTF8 { !$0.isEmpty && $0.count <= maximumText && !$0.contains(0) }
        guard isGood else { throw badDestination(key) }
    }

    @inline(never)
    private static func badDestination(_ key: String) -> TransportError {
        .configuration(key, "must be a destination of 1 to \(maximumText) bytes without U+0000")
    }

    /// Checks a header that the configuration adds to frames.
    static func header(_ header: STOMPHeader, _ own: [String], _ key: String) throws(TransportError) {
        try text(header.name, key)
        try text(header.value, key)
        guard !header.name.isEmpty else { throw .configuration(key, "have a header without a name") }
        guard !own.contains(header.name) else {
            throw .configuration(key, "have '\(header.name)', which the client sets itself")
        }
    }
}
