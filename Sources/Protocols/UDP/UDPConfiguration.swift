import TransportAPI

/// How UDP carries messages, and its limits.
package struct UDPConfiguration: Sendable, Hashable {
    /// The largest payload of one UDP datagram over IPv4, in bytes (RFC 768 and RFC 791: 65,535 less 28 of headers).
    package static let maximumDatagramSize = 65_507

    /// Whether datagrams contain the message and nothing else; `false` by default. Use it for peers that do not know
    /// this package's format.
    ///
    /// There is no handshake, no session, no ping, no bye and no detection of duplicates. Any peer that can forge an
    /// address can send messages in its name.
    package var isPlain: Bool
    /// The largest message sent or accepted, in bytes; 1 to 65,491, in plain mode to 65,507. The default of 1200 passes
    /// every usual path in one packet (RFC 9000, section 14.1 has the same reason). Both sides should have the same
    /// value, because a message that is larger than the receiver allows is dropped silently.
    package var maximumPayloadSize: Int
    /// How long a client repeats its hello before it gives up; more than zero, 10 s by default.
    package var handshakeTimeout: Duration
    /// How long a server keeps a session from which nothing arrives; more than zero, 5 minutes by default. The default
    /// is longer than the default keepalive interval of a client.
    package var idleTimeout: Duration
    /// The most sessions of a server at a time; at least 1, 65,536 by default. A further client replaces the session
    /// that has been silent longest, if that is more than a second. Otherwise the server refuses it.
    package var maximumSessions: Int
    /// The most sessions from one IPv4 address or one IPv6 network of 64 bits; `nil`, no limit, by default, because
    /// whole companies share one address. The server refuses further clients.
    package var maximumPerAddress: Int?
    /// The most bytes that all sessions of a server buffer together; at least 1 MiB, 256 MiB by default. These are
    /// messages that no caller has taken yet, whole or in fragments, and messages that clients have not acknowledged.
    /// Beyond the limit the sessions that buffer most are ended.
    package var maximumHeld: Int
    /// Whether a client requests the reliable mode; `.off` by default. A server follows each client's request.
    package var reliability: UDPReliability
    /// The largest message of the reliable mode, in bytes; 1 to 16 MiB, 1 MiB by default. The smaller limit of both
    /// sides applies.
    package var maximumReliableSize: Int
    /// Whether a server accepts clients that request the reliable mode; `true` by default. Otherwise it refuses them.
    package var acceptsReliable: Bool

    /// How many bytes encryption adds to each datagram; 0 without encryption. Packets of the reliable mode are shorter by
    /// this number.
    package var overhead = 0
    /// The longest datagram before encryption, in bytes.
    package var largestPlaintext = Self.maximumDatagramSize
    /// How many bytes of unacknowledged messages a reliable session buffers before senders wait.
    var reliableBuffer = 1 << 20
    /// How many messages of a reliable session, and how many bytes of them, may wait for their receiver. Beyond that
    /// the peer gets no more credit.
    var inboxMessages = ConnectionLimits().inboxMessages
    var inboxBytes = ConnectionLimits().inboxBytes
    /// How long a close waits for acknowledgements after the last one that contained something new.
    var closeTimeout = ConnectionLimits().closeTimeout
    /// Whether receivers confirm each message that they have processed; see ``ProtocolCore/confirmsReceipt``.
    package var confirmsReceipt = true

    /// Creates a configuration; each parameter has the default of its property.
    package init(
        isPlain: Bool = false,
        maximumPayloadSize: Int = 1200,
        handshakeTimeout: Duration = .seconds(10),
        idleTimeout: Duration = .seconds(300),
        maximumSessions: Int = 65_536,
        maximumPerAddress: Int? = nil,
        maximumHeld: Int = 256 << 20,
        reliability: UDPReliability = .off,
        maximumReliableSize: Int = 1 << 20,
        acceptsReliable: Bool = true
    ) {
        self.isPlain = isPlain
        self.maximumPayloadSize = maximumPayloadSize
        self.handshakeTimeout = handshakeTimeout
        self.idleTimeout = idleTimeout
        self.maximumSessions = maximumSessions
        self.maximumPerAddress = maximumPerAddress
        self.maximumHeld = maximumHeld
        self.reliability = reliability
        self.maximumReliableSize = maximumReliableSize
        self.acceptsReliable = acceptsReliable
    }

    /// The longest datagram that these settings allow, in bytes: a full message with its header, or a reliable packet.
    var largestDatagram: Int {
        isPlain
            ? max(512, maximumPayloadSize)
            : max(ReliableSession.packetSize, maximumPayloadSize + Datagram.dataHeaderSize)
    }

    /// The largest ``maximumPayloadSize`` that fits into a datagram.
    package var largestPayload: Int {
        min(Self.maximumDatagramSize - overhead, largestPlaintext) - (isPlain ? 0 : Datagram.dataHeaderSize)
    }

    /// The terms of this side for a reliable session.
    func terms(isOrdered: Bool) -> ReliableTerms {
        ReliableTerms(isOrdered: isOrdered, maximumMessageSize: maximumReliableSize)
    }

    /// Checks each value.
    ///
    /// - Throws: `.invalidConfiguration` for the first value that is not allowed. The error names the key and the
    ///   allowed values.
    package func validate() throws(TransportError) {
        let largest = largestPayload
        guard maximumPayloadSize >= 1, maximumPayloadSize <= largest else {
            throw .configuration("maximumPayloadSize", "must be from 1 to \(largest)")
        }
        guard handshakeTimeout > .zero else { throw .configuration("handshakeTimeout", "must be more than zero") }
        guard idleTimeout > .zero else { throw .configuration("idleTimeout", "must be more than zero") }
        guard maximumSessions >= 1 else { throw .configuration("maximumSessions", "must be at least 1") }
        guard maximumPerAddress.map({ $0 >= 1 }) ?? true else {
            throw .configuration("maximumPerAddress", "must be at least 1")
        }
        guard maximumHeld >= 1 << 20 else { throw .configuration("maximumHeld", "must be at least 1 MiB") }
        guard !isPlain || reliability == .off else {
            throw .configuration("reliability", "must be off if datagrams are plain")
        }
        guard maximumReliableSize >= 1, maximumReliableSize <= ReliableTerms.largestLimit else {
            throw .configuration("maximumReliableSize", "must be from 1 to \(ReliableTerms.largestLimit)")
        }
    }
}

extension UDPConfiguration {
    /// Takes over the limits of a connection. In a reliable session they stop the peer, so that no message is dropped.
    package mutating func take(_ limits: ConnectionLimits) {
        inboxMessages = limits.inboxMessages
        inboxBytes = limits.inboxBytes
        reliableBuffer = limits.writeBuffer
        closeTimeout = limits.closeTimeout
    }
}
