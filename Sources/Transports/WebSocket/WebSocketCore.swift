import TransportAPI

/// The WebSocket protocol (RFC 6455) for both roles: opening handshake, messages, pings, closing handshake. A value that does
/// no I/O; see ``ProtocolCore`` for the contract with its driver.
///
/// | phase | goes on to | when |
/// |---|---|---|
/// | idle | handshaking | started |
/// | handshaking | open | the handshake was accepted |
/// | | ending | closed by this side: there is nothing to say goodbye to |
/// | open | closing | this side sent its close frame first |
/// | | awaitingEnd | the far side did, and was answered |
/// | closing | awaitingEnd | the far side's close frame came |
/// | | ending | it did not come in time |
/// | awaitingEnd | ending | the connection did not end in time |
/// | ending | ended | `closed` was reported |
///
/// Only clients wait for the end of the connection, within ``WebSocketConfiguration/closeTimeout``; a server reports `closed`
/// as soon as both close frames have gone, so that it is the one to end the TCP connection (section 7.1.1). Errors other than
/// those of `send` and `ping` lead to `ended` from everywhere, and so does the end of the input.
public struct WebSocketCore: ProtocolCore {
    enum Phase: Sendable, Hashable {
        case idle, handshaking, open, closing, awaitingEnd, ending, ended
    }

    /// Client or server.
    public let role: CoreRole
    /// The subprotocol that was agreed on, once the link is open.
    public internal(set) var subprotocol: String?
    /// Where the server sends this client, if it may follow.
    public internal(set) var redirection: Redirection?

    /// Whether the client of this server connects from this machine, set before ``start(_:)``; see
    /// ``WebSocketConfiguration/allowedHosts``. Default `false`.
    public var isPeerOnLoopback = false

    let configuration: WebSocketConfiguration
    var phase = Phase.idle
    var reader: FrameReader
    var liveness = Liveness()
    /// What compresses messages, if that was agreed on.
    var deflation: Deflation?

    /// When the handshake or the goodbye has taken too long.
    var phaseDeadline: Instant?
    /// Why the link ended, once that is known.
    var ending = CloseReason.user

    var head: HTTPHeadReader
    /// The key that this client has sent.
    var key = ""

    /// A core for one link.
    ///
    /// - Throws: `.invalidConfiguration` that names the key.
    public init(_ role: CoreRole, _ configuration: WebSocketConfiguration) throws(TransportError) {
        try self.init(role, configuration, givesParts: false)
    }

    /// - Parameter givesParts: whether messages are reported part by part, as they come (``FrameReader/givesParts``).
    init(_ role: CoreRole, _ configuration: WebSocketConfiguration, givesParts: Bool) throws(TransportError) {
        try configuration.validate()
        var configuration = configuration
        configuration.maximumMessageSize = min(configuration.maximumMessageSize, WebSocketConfiguration.largestMessage)
        self.role = role
        self.configuration = configuration
        reader = FrameReader(
            mustBeMasked: role == .server,
            maximumMessageSize: configuration.maximumMessageSize,
            maximumFragments: configuration.maximumFragments,
            givesParts: givesParts
        )
        head = HTTPHeadReader(
            maximumBytes: configuration.maximumHeaderBytes,
            maximumCount: configuration.maximumHeaderCount,
            skipsEmptyLines: role == .server
        )
    }

    /// No.
    public var acknowledges: Bool { false }

    /// A reliable, ordered transport with a ping of its own that tells text from binary.
    public var capabilities: Capabilities {
        Capabilities(distinguishesText: true, maximumMessageSize: configuration.maximumMessageSize)
    }

    /// The message under assembly, and what compresses.
    public var heldBytes: Int {
        mutating get { reader.heldBytes + (deflation?.heldBytes ?? 0) }
    }

    /// Opens the link.
    public mutating func start(_ context: inout CoreContext) {
        guard phase == .idle else { return }
        phase = .handshaking
        phaseDeadline = context.now.advanced(by: configuration.handshakeTimeout)
        guard role == .client else { return }
        key = HandshakeKey.generate(&context.random)
        ClientHandshake.writeRequest(configuration, key: key, to: &context.output)
    }

    /// Reads on until there is something to report.
    ///
    /// - Throws: `.protocolViolation`, `.invalidText` or `.messageTooLarge` once the close frame that says so is written;
    ///   what a handshake failed with.
    public mutating func next(
        _ input: inout ByteBuffer,
        _ context: inout CoreContext
    ) throws(TransportError) -> CoreEvent? {
        switch phase {
        case .open, .closing:
            return try readFrames(&input, &context)
        case .idle:
            return nil
        case .handshaking:
            return try readHandshake(&input, &context)
        case .awaitingEnd, .ended:
            // Nothing counts after the far side's close frame (section 1.4).
            input.removeAll()
            return nil
        case .ending:
            input.removeAll()
            return closed()
        }
    }

    /// Ends the link cleanly.
    mutating func closed() -> CoreEvent {
        phase = .ended
        phaseDeadline = nil
        liveness = Liveness()
        dropMessages()
        return .closed(ending)
    }

    /// Lets go of the message under assembly and of what compresses: nothing comes of them any more, and who ends may linger for
    /// its last bytes, when nobody counts what it keeps.
    mutating func dropMessages() {
        reader.discardMessages()
        deflation = nil
    }

    /// Lets go of the message under assembly and of what compresses.
    public mutating func linkEnded() {
        dropMessages()
    }

    /// The far side has ended the connection: the last step of a goodbye, or a break.
    ///
    /// - Throws: `.connectionLost` if no goodbye was under way.
    public mutating func inputEnded(_ context: inout CoreContext) throws(TransportError) -> CoreEvent {
        switch phase {
        case .idle, .handshaking:
            throw end(TransportError(.connectionLost, .handshake, "the connection ended within the handshake"))
        case .open:
            throw end(.webSocketClose(CloseCode.abnormal))
        case .closing, .awaitingEnd, .ending, .ended:
            return closed()
        }
    }

    /// When the handshake, the goodbye, or a pong that was put off wants attention.
    public var deadline: Instant? {
        mutating get {
            guard let pong = liveness.pongDue else { return phaseDeadline }
            return phaseDeadline.map { min($0, pong) } ?? pong
        }
    }

    /// Gives up what has taken too long.
    ///
    /// - Throws: `.timedOut` if that was the handshake; a server has written status 408 by then.
    public mutating func deadlineReached(_ context: inout CoreContext) throws(TransportError) {
        writeDelayedPong(&context)
        guard let phaseDeadline, phaseDeadline <= context.now else { return }
        self.phaseDeadline = nil
        switch phase {
        case .handshaking where role == .server:
            throw refuse(.init(status: 408, reason: "no request came in time"), &context)
        case .handshaking:
            throw end(TransportError(.timedOut, .handshake, "the server did not answer the handshake in time"))
        case .closing, .awaitingEnd:
            // The peer may still be reading what stands before the close frame.
            let extended = context.outputMoved.advanced(by: configuration.closeTimeout)
            if extended > context.now { self.phaseDeadline = extended } else { phase = .ending }
        case .idle, .open, .ending, .ended:
            break
        }
    }
}
