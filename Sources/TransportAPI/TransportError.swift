/// The one error of all transports: what went wrong, in which phase, through whose fault, and whether trying again can help.
public struct TransportError: Error, Sendable, Hashable {
    /// How far the link had come.
    public enum Phase: String, Sendable, Hashable, CaseIterable {
        /// Reading the URL or the options.
        case configure
        /// Looking up the name.
        case resolve
        /// Opening the connection.
        case connect
        /// Setting up encryption.
        case secure
        /// The protocol's own handshake.
        case handshake
        /// The link was open.
        case open
        /// Saying goodbye.
        case closing
    }

    /// Who has to change something for it to go well.
    public enum Fault: String, Sendable, Hashable, CaseIterable {
        /// This program or its configuration.
        case local
        /// The far side.
        case peer
        /// What lies between.
        case network
    }

    /// What went wrong.
    public var code: Code
    /// How far the link had come.
    public var phase: Phase
    /// A sentence for people.
    public var reason: String
    /// The number behind it: errno, HTTP status, WebSocket close code, CONNACK return code, by ``code`` and ``phase``.
    public var detail: Int?
    /// How long the far side asks to wait before the next attempt (RFC 9110, section 10.2.3: Retry-After).
    public var retryAfter: Duration?

    /// An error in full.
    public init(_ code: Code, _ phase: Phase, _ reason: String, detail: Int? = nil, retryAfter: Duration? = nil) {
        self.code = code
        self.phase = phase
        self.reason = reason
        self.detail = detail
        self.retryAfter = retryAfter
    }

    /// Who has to change something for it to go well.
    public var fault: Fault { code.row.fault }
    /// Whether another attempt, with nothing changed, can go well.
    public var isRetryable: Bool { code.row.retryable }
}

extension TransportError {
    /// What can go wrong, whatever the transport. ``Code/row`` says for each whose fault it is and whether retrying helps.
    public enum Code: String, Sendable, Hashable, CaseIterable {
        // Configuration
        case invalidConfiguration, unsupported
        // Resolve and connect
        case nameNotFound, resolverFailed, refused, unreachable, networkDown, addressInUse, permissionDenied
        case resourcesExhausted, timedOut
        // Secure
        case certificateRejected, secureHandshakeFailed
        // Handshake
        case handshakeFailed, authenticationFailed, forbidden, notFound, serverUnavailable, tooManyRequests
        // Open
        case closedByPeer, connectionReset, connectionLost, keepaliveTimeout, protocolViolation, invalidText
        case messageTooLarge, bufferFull, acknowledgementTimeout, wouldBlock
        // This program's own doing
        case closedByUser, cancelled, busy
        // What fits no other row
        case systemError
    }
}

extension TransportError.Code {
    /// One row of the table that gives each code its meaning.
    public struct Row: Sendable, Hashable {
        /// Who has to change something for it to go well.
        public var fault: TransportError.Fault
        /// Whether another attempt, with nothing changed, can go well.
        public var retryable: Bool
    }

    /// The row of this code.
    public var row: Row {
        switch self {
        case .invalidConfiguration, .unsupported: Row(fault: .local, retryable: false)
        case .nameNotFound: Row(fault: .network, retryable: true)
        case .resolverFailed: Row(fault: .network, retryable: true)
        case .refused: Row(fault: .peer, retryable: true)
        case .unreachable, .networkDown: Row(fault: .network, retryable: true)
        case .addressInUse, .permissionDenied: Row(fault: .local, retryable: false)
        case .resourcesExhausted: Row(fault: .local, retryable: true)
        case .timedOut: Row(fault: .network, retryable: true)
        case .certificateRejected: Row(fault: .peer, retryable: false)
        case .secureHandshakeFailed: Row(fault: .peer, retryable: true)
        case .handshakeFailed: Row(fault: .peer, retryable: false)
        case .authenticationFailed, .forbidden: Row(fault: .local, retryable: false)
        case .notFound: Row(fault: .local, retryable: false)
        case .serverUnavailable, .tooManyRequests: Row(fault: .peer, retryable: true)
        case .closedByPeer: Row(fault: .peer, retryable: true)
        case .connectionReset, .connectionLost, .keepaliveTimeout: Row(fault: .network, retryable: true)
        case .protocolViolation, .invalidText: Row(fault: .peer, retryable: false)
        case .messageTooLarge: Row(fault: .local, retryable: false)
        case .bufferFull, .wouldBlock: Row(fault: .local, retryable: true)
        case .acknowledgementTimeout: Row(fault: .peer, retryable: true)
        case .closedByUser, .cancelled, .busy: Row(fault: .local, retryable: false)
        case .systemError: Row(fault: .local, retryable: true)
        }
    }
}

extension TransportError: CustomStringConvertible {
    /// One line: phase, sentence, code and number.
    public var description: String {
        let number = detail.map { " \($0)" } ?? ""
        return "\(phase.rawValue): \(reason) (\(code.rawValue)\(number))"
    }
}
