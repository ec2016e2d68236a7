import TransportAPI

/// One session over UDP: messages in datagrams that may be lost, doubled or reordered on the way.
///
/// A client gets its session by a handshake in two round trips (Docs/wire-formats.md): hello → retry with a cookie → confirm
/// with the cookie → accept with the connection id. A server's core is made by ``UDPListenerCore`` at the confirm, and is
/// then handed that datagram and all others of its session.
///
/// What cannot be a datagram of this session is dropped and never ends it, since anybody can send a datagram; only a
/// goodbye that carries the connection id, which only the two sides know, does. The core drops duplicates among the last
/// 1024 sequence numbers and delivers late messages when they come.
public struct UDPCore: ProtocolCore {
    enum Phase {
        case idle
        /// Client: the hello has left. Server: the confirm has not been read yet.
        case greeting
        /// Client: the confirm has left.
        case confirming
        /// Plain: `.opened` is still to be reported.
        case opening
        case open
        /// `.closed` is still to be reported.
        case ended
        case done
    }

    /// Client or server.
    public let role: CoreRole
    let configuration: UDPConfiguration
    var phase = Phase.idle
    var reason = CloseReason.user
    var nonce: UInt64
    var cookie: UInt64 = 0
    /// Names the session on the wire, whatever address it comes from; random, and zero before the session is open.
    public internal(set) var connectionID: UInt64
    var timers = UDPTimers()
    /// The reliable mode, if both sides have agreed on it and the session is open.
    var reliable: ReliableSession?
    var nextSequence: UInt32 = 0
    var window = SequenceWindow()
    var pingsSent: UInt64 = 0
    var pongsReceived: UInt64 = 0
    /// The tokens of pings that nobody waits for, newer than the last pong.
    var unaskedPings: [UInt64] = []
    var pongsToReport: UInt64 = 0

    /// A client's core.
    ///
    /// - Throws: `.invalidConfiguration`.
    public init(client configuration: UDPConfiguration = UDPConfiguration()) throws(TransportError) {
        try configuration.validate()
        self.init(.client, configuration, connectionID: 0, nonce: 0)
    }

    /// - Parameter wish: what a client that wants the reliable mode has promised to this server.
    init(
        _ role: CoreRole,
        _ configuration: UDPConfiguration,
        connectionID: UInt64,
        nonce: UInt64,
        wish: ReliableTerms? = nil
    ) {
        reliable = wish.map { ReliableSession(configuration.terms(isOrdered: $0.isOrdered), $0, configuration) }
        self.role = role
        self.configuration = configuration
        self.connectionID = connectionID
        self.nonce = nonce
    }

    var largestDatagram: Int { configuration.largestDatagram }

    /// What a reliable session holds of messages that its user has not taken and the far side has not acknowledged.
    public var heldBytes: Int {
        mutating get { reliable?.heldBytes ?? 0 }
    }

    /// What a reliable session has sent, or is to send, that the peer has not acknowledged.
    public var unacknowledgedBytes: Int {
        mutating get { reliable?.sender.pieces.buffered ?? 0 }
    }

    /// No.
    public var acknowledges: Bool { false }

    /// Neither reliable nor ordered unless configured; a native ping unless plain.
    public var capabilities: Capabilities {
        if let reliable { return .reliable(reliable.terms.isOrdered, reliable.maximumMessageSize) }
        if configuration.reliability != .off {
            return .reliable(configuration.reliability == .ordered, configuration.maximumReliableSize)
        }
        return Capabilities(
            isReliable: false,
            isOrdered: false,
            hasNativePing: !configuration.isPlain,
            maximumMessageSize: configuration.maximumPayloadSize
        )
    }

    /// Reads the datagram in `input` and reports what it holds. Throws `.serverUnavailable` from a server that is full, and
    /// `.connectionReset` from one that has forgotten the session.
    public mutating func next(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        if phase != .open {
            guard phase != .opening else {
                phase = .open
                return .opened
            }
            guard phase != .ended else {
                phase = .done
                return .closed(reason)
            }
        }
        if pongsToReport > 0 {
            pongsToReport -= 1
            return .pong
        }
        guard !input.isEmpty else { return phase == .open ? reliableEvent(&context) : nil }
        defer { input.removeAll() }
        switch phase {
        case .open where configuration.isPlain: return plainMessage(input, context.now)
        case .open: return try readOpen(input, &context) ?? reliableEvent(&context)
        case .greeting, .confirming: return try readHandshake(input, &context)
        case .idle, .opening, .ended, .done: return nil
        }
    }

    /// Never called over datagrams.
    public mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent {
        phase = .done
        return .closed(reason)
    }

    /// Writes one message as a datagram. Throws `.messageTooLarge`, `.unsupported` for a topic, and what ended the session.
    public mutating func send(
        _ payload: Payload,
        id: UInt64,
        _ context: inout CoreContext
    ) throws(TransportError) -> SendStatus {
        guard phase == .open else { throw notOpen }
        guard payload.topic == nil, !payload.isRetained else {
            throw TransportError(.unsupported, .open, "UDP has no topics and retains nothing; send the message without")
        }
        let size = payload.bytes.count
        if reliable != nil { return try sendReliably(payload.bytes, id, &context) }
        guard size <= configuration.maximumPayloadSize else {
            let limit = configuration.maximumPayloadSize
            throw TransportError(.messageTooLarge, .open, "\(size) bytes are more than the limit of \(limit)")
        }
        if configuration.isPlain {
            guard size > 0 else { throw TransportError(.unsupported, .open, "a plain datagram cannot be empty") }
        } else {
            appendDataHeader(roomFor: size, to: &context.output)
        }
        context.output.append(contentsOf: payload.bytes)
        context.endDatagram()
        return .written
    }

    /// Writes a ping; `.unsupported` in plain mode.
    public mutating func ping(_ context: inout CoreContext) throws(TransportError) {
        guard !configuration.isPlain else {
            throw TransportError(.unsupported, .open, "plain datagrams have no ping")
        }
        guard phase == .open else { throw notOpen }
        pingsSent &+= 1
        write(.ping, connectionID, pingsSent, &context)
        reliable?.pinged(again: false, context.now)
    }

    /// Lets the far side know at once where this one is by now.
    public mutating func moved(_ context: inout CoreContext) {
        guard phase == .open, role == .client, !configuration.isPlain else { return }
        pingsSent &+= 1
        unaskedPings.append(pingsSent)
        if unaskedPings.count > 16 { unaskedPings.removeFirst() }
        write(.ping, connectionID, pingsSent, &context)
        reliable?.pinged(again: false, context.now)
    }

    /// Says goodbye once and ends at once. If the goodbye is lost, a client learns it from the server's answer to its next
    /// datagram, and a server from the client's silence.
    public mutating func close(_ reason: CloseReason, _ context: inout CoreContext) {
        guard phase != .ended, phase != .done else { return }
        if phase == .open, reliable != nil { return closeReliably(reason, &context) }
        if phase == .open { writeBye(reason, &context) }
        self.reason = reason
        phase = .ended
    }

    var notOpen: TransportError {
        switch phase {
        case .idle, .greeting, .confirming, .opening:
            TransportError(.wouldBlock, .handshake, "the session is not open yet")
        case .open, .ended, .done:
            reason.initiator == .peer
                ? TransportError(.closedByPeer, .closing, "the far side has closed the session")
                : TransportError(.closedByUser, .closing, "the session is closed")
        }
    }
}
