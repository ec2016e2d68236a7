/// The error of all transports: what failed, in which phase, which side must change something, and whether a retry can
/// help.
public struct TransportError: Error, Sendable, Hashable {
    /// The phase that the connection had reached.
    public enum Phase: String, Sendable, Hashable, CaseIterable {
        /// Reading the URL or the options.
        case configure
        /// Resolving the name.
        case resolve
        /// Opening the connection.
        case connect
        /// Setting up encryption.
        case secure
        /// The protocol's own handshake.
        case handshake
        /// The connection was open.
        case open
        /// The close handshake.
        case closing
    }

    /// The side that must change something to avoid the error.
    public enum Fault: String, Sendable, Hashable, CaseIterable {
        /// This program or its configuration.
        case local
        /// The peer.
        case peer
        /// The network between them.
        case network
    }

    /// The fields, on the heap. An error is rare, and a result or an outcome that can contain one stays as small as a
    /// pointer.
    private final class Fields: Sendable, Hashable {
        let code: Code
        let phase: Phase
        let reason: String
        let detail: Int?
        let retryAfter: Duration?

        init(_ code: Code, _ phase: Phase, _ reason: String, _ detail: Int?, _ retryAfter: Duration?) {
            (self.code, self.phase, self.reason) = (code, phase, reason)
            (self.detail, self.retryAfter) = (detail, retryAfter)
        }

        static func == (left: Fields, right: Fields) -> Bool {
            left === right
                || left.code == right.code && left.phase == right.phase && left.reason == right.reason
                    && left.detail == right.detail && left.retryAfter == right.retryAfter
        }

        func hash(into hasher: inout Hasher) {
            hasher.combine(code)
            hasher.combine(phase)
            hasher.combine(reason)
            hasher.combine(detail)
            hasher.combine(retryAfter)
        }
    }

    private var fields: Fields

    /// Creates an error from its parts.
    public init(_ code: Code, _ phase: Phase, _ reason: String, detail: Int? = nil, retryAfter: Duration? = nil) {
        fields = Fields(code, phase, reason, detail, retryAfter)
    }

    /// The kind of error.
    public var code: Code {
        get { fields.code }
        set { self = TransportError(newValue, phase, reason, detail: detail, retryAfter: retryAfter) }
    }
    /// The phase that the connection had reached.
    public var phase: Phase {
        get { fields.phase }
        set { self = TransportError(code, newValue, reason, detail: detail, retryAfter: retryAfter) }
    }
    /// A sentence for people.
    public var reason: String {
        get { fields.reason }
        set { self = TransportError(code, phase, newValue, detail: detail, retryAfter: retryAfter) }
    }
    /// The number of the error by ``code`` and ``phase``: errno, HTTP status, WebSocket close code, or CONNACK return
    /// code.
    public var detail: Int? {
        get { fields.detail }
        set { self = TransportError(code, phase, reason, detail: newValue, retryAfter: retryAfter) }
    }
    /// How long the peer requests to wait before the next attempt (RFC 9110, section 10.2.3: Retry-After).
    public var retryAfter: Duration? {
        get { fields.retryAfter }
        set { self = TransportError(code, phase, reason, detail: detail, retryAfter: newValue) }
    }

    /// The side that must change something to avoid the error.
    public var fault: Fault { code.row.fault }
    /// Whether another attempt, with nothing changed, can succeed.
    public var isRetryable: Bool { code.row.retryable }
}

extension TransportError {
    /// The kinds of errors of all transports. ``Code/row`` gives the fault of each and whether a retry can help.
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
        // Caused by this program
        case closedByUser, cancelled, busy
        // Any other error
        case systemError
    }
}

extension TransportError.Code {
    /// One row of the table that defines the meaning of each code.
    public struct Row: Sendable, Hashable {
        /// The side that must change something to avoid the error.
        public var fault: TransportError.Fault
        /// Whether another attempt, with nothing changed, can succeed.
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
    /// The error in one line: phase, sentence, code and number.
    public var description: String {
        let number = detail.map { " \($0)" } ?? ""
        return "\(phase.rawValue): \(reason) (\(code.rawValue)\(number))"
    }
}

// Maps the numbers of each protocol to the error. Tested row by row.

extension TransportError {
    /// The error for the status of a refused WebSocket handshake (RFC 6455, section 4.1; RFC 9110, section 15).
    public static func httpStatus(_ status: Int, retryAfter: Duration? = nil) -> TransportError {
        let (code, sentence): (Code, String) =
            switch status {
            case 300...399: (.handshakeFailed, "the server sends to another place, which is not followed")
            case 401, 407: (.authenticationFailed, "the server asks for other credentials")
            case 403: (.forbidden, "the server forbids this connection")
            case 404, 410: (.notFound, "there is nothing at this path")
            case 408, 504: (.timedOut, "the server gave up waiting")
            case 426: (.handshakeFailed, "the server asks for another version of the protocol")
            case 429: (.tooManyRequests, "the server asks to slow down")
            case 500...599: (.serverUnavailable, "the server is not able to serve now")
            default: (.handshakeFailed, "the server did not switch protocols")
            }
        return TransportError(code, .handshake, "\(sentence): HTTP \(status)", detail: status, retryAfter: retryAfter)
    }

    /// The error for a close code that the peer sent on an open WebSocket (RFC 6455, section 7.4.1; the IANA registry).
    public static func webSocketClose(_ closeCode: UInt16, reason text: String = "") -> TransportError {
        let (code, sentence): (Code, String) =
            switch closeCode {
            case 1000: (.closedByPeer, "the peer closed normally")
            case 1001: (.closedByPeer, "the peer is going away")
            case 1002: (.protocolViolation, "the peer saw a protocol error")
            case 1003: (.unsupported, "the peer does not accept this kind of data")
            case 1005: (.closedByPeer, "the peer closed without a code")
            case 1006: (.connectionLost, "the connection broke without a close frame")
            case 1007: (.invalidText, "the peer could not read our text")
            case 1008: (.forbidden, "the peer's policy was violated")
            case 1009: (.messageTooLarge, "a message was too large for the peer")
            case 1010: (.handshakeFailed, "the peer missed an extension")
            case 1011: (.serverUnavailable, "the peer failed")
            case 1012, 1013: (.serverUnavailable, "the peer restarts or is overloaded")
            case 1014: (.serverUnavailable, "the gateway got no good answer")
            case 1015: (.secureHandshakeFailed, "the TLS handshake failed")
            case 3000: (.authenticationFailed, "the peer asks for other credentials")
            case 3003: (.forbidden, "the peer forbids this connection")
            case 3008: (.timedOut, "the peer gave up waiting")
            default: (.closedByPeer, "the peer closed")
            }
        let suffix = text.isEmpty ? "" : ": \(text)"
        return TransportError(code, .open, sentence + suffix, detail: Int(closeCode))
    }

    /// The error for a return code with which an MQTT broker refused a connection (MQTT 3.1.1, section 3.2.2.3, table
    /// 3.1).
    public static func connack(_ returnCode: UInt8) -> TransportError {
        let (code, sentence): (Code, String) =
            switch returnCode {
            case 1: (.handshakeFailed, "the broker does not speak this version of the protocol")
            case 2: (.handshakeFailed, "the broker refuses this client identifier")
            case 3: (.serverUnavailable, "the broker is unavailable")
            case 4: (.authenticationFailed, "the broker refuses this user name or password")
            case 5: (.forbidden, "the broker does not authorise this client")
            default: (.protocolViolation, "the broker sent a reserved return code")
            }
        return TransportError(code, .handshake, sentence, detail: Int(returnCode))
    }
}
