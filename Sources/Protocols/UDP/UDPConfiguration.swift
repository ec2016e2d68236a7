import TransportAPI

/// How messages travel in UDP datagrams, and within which limits.
package struct UDPConfiguration: Sendable, Hashable {
    /// The largest payload of one UDP datagram over IPv4, in bytes (RFC 768 and RFC 791: 65,535 less 28 of headers).
    package static let maximumDatagramSize = 65_507

    /// Whether datagrams carry the message and nothing else: no handshake, no session, no ping, no goodbye, no count of
    /// duplicates, and any peer that can forge an address can speak in its name. For peers that are not ours; `false` by
    /// default.
    package var isPlain: Bool
    /// The largest message sent or accepted, in bytes; by default 1200, which passes every usual path whole (RFC 9000,
    /// section 14.1 gives the same reason). Both sides should set the same: what is larger than the receiver allows is
    /// dropped without a word. 1 to 65,491, in plain mode to 65,507.
    package var maximumPayloadSize: Int
    /// How long a client repeats its hello until it gives up; 10 s by default, more than zero.
    package var handshakeTimeout: Duration
    /// How long a server keeps a session from which nothing arrives; more than zero. By default 5 minutes, longer than the
    /// 25 s between the beats of a client that keeps its connection alive with the default settings.
    package var idleTimeout: Duration
    /// How many sessions a server holds at a time; 65,536 by default, at least 1. Further clients take the place of who
    /// has been silent for longest, if that is more than a second, or are told that it is full.
    package var maximumSessions: Int
    /// How many of them may come from one IPv4 address or one IPv6 network of 64 bits; no limit by default, since whole
    /// companies come from one address. Further clients are told that the server is full.
    package var maximumPerAddress: Int?
    /// How many bytes all sessions of a server may hold together of messages that nobody has taken yet, whole or in fragments,
    /// and of what clients have not acknowledged; 256 MiB by default, at least 1 MiB. Beyond it the sessions that hold the most
    /// are ended.
    package var maximumHeld: Int
    /// Whether a client asks for the reliable mode; `.off` by default. A server does as each client asks.
    package var reliability: UDPReliability
    /// The largest message of the reliable mode, in bytes; 1 MiB by default, 1 to 16 MiB. The smaller one of both sides holds.
    package var maximumReliableSize: Int
    /// Whether a server takes clients that ask for the reliable mode; `true` by default. Others are told that it does not.
    package var acceptsReliable: Bool

    /// How much a reliable session keeps of what was sent and not acknowledged before senders wait.
    var reliableBuffer = 1 << 20
    /// What of a reliable session may wait for its receiver; beyond it the peer is stopped.
    var inboxMessages = ConnectionLimits().inboxMessages
    var inboxBytes = ConnectionLimits().inboxBytes
    /// How long a close waits for acknowledgements after the last one that brought news.
    var closeTimeout = ConnectionLimits().closeTimeout
    /// Whether receivers tell when they are done with a message; see ``ProtocolCore/confirmsReceipt``.
    package var confirmsReceipt = true

    /// The defaults, where nothing else is said.
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

    /// What this side promises in a reliable session.
    func terms(isOrdered: Bool) -> ReliableTerms {
        ReliableTerms(isOrdered: isOrdered, maximumMessageSize: maximumReliableSize)
    }

    /// Checks each value.
    ///
    /// - Throws: `.invalidConfiguration` with a sentence that names the key and what it may be.
    package func validate() throws(TransportError) {
        let largest = Self.maximumDatagramSize - (isPlain ? 0 : Datagram.dataHeaderSize)
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
            throw .configuration("reliability", "must be off where datagrams are plain")
        }
        guard maximumReliableSize >= 1, maximumReliableSize <= ReliableTerms.largestLimit else {
            throw .configuration("maximumReliableSize", "must be from 1 to \(ReliableTerms.largestLimit)")
        }
    }
}

extension UDPConfiguration {
    /// Stops the peer of a reliable session where `limits` say, so that no message is dropped.
    package mutating func take(_ limits: ConnectionLimits) {
        inboxMessages = limits.inboxMessages
        inboxBytes = limits.inboxBytes
        reliableBuffer = limits.writeBuffer
        closeTimeout = limits.closeTimeout
    }
}
