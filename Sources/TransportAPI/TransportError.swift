/// The error of all transports: what failed, in which phase, which side must change something, and whether a retry can
/// help.
public struct TransportError: Error, Sendable, Hashable {
    /// The phase that the connection had reached.
    public enum Phase: String, Sendable, Hashable, CaseIterable {
        /// Reading the URL or the options.
        case configure
        /// Opening the socket of a server.
        case listen
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

    /// The sender of the answer that the error is about.
    public enum Origin: String, Sendable, Hashable, CaseIterable {
        /// The transport does not say. A supervisor then assumes the peer.
        case unstated
        /// Nothing proves that the peer has sent the answer. It may come from a device on the path, such as a captive
        /// portal.
        case path
        /// The peer itself: the answer came over a connection whose certificate was verified, or in a message that no
        /// device on the path sends, such as CONNACK.
        case peer
    }

    /// The fields, in a box on the heap. An error is rare, and a result or an outcome that can contain one
    /// stays as small as a pointer.
    private struct Fields: Sendable {
        var code: Code
        var phase: Phase
        var reason: String
        var detail: Int?
        var retryAfter: Duration?
        var origin = Origin.unstated
    }

    /// The box of the fields. It never changes.
    private final class Box: Sendable {
        let fields: Fields

        init(_ fields: Fields) { self.fields = fields }
    }

    private var box: Box

    /// The fields. Writing makes another box, because copies of the error share this one.
    private var fields: Fields {
        get { box.fields }
        set { box = Box(newValue) }
    }

    /// Creates an error from its parts.
    public init(_ code: Code, _ phase: Phase, _ reason: String, detail: Int? = nil, retryAfter: Duration? = nil) {
        box = Box(Fields(code: code, phase: phase, reason: reason, detail: detail, retryAfter: retryAfter))
    }

    /// Returns whether the errors say the same. Their ``origin`` is not compared, because it is the evidence for an error
    /// and not a part of it.
    public static func == (left: TransportError, right: TransportError) -> Bool {
        let (one, other) = (left.box.fields, right.box.fields)
        return left.box === right.box
            || one.code == other.code && one.phase == other.phase && one.reason == other.reason
                && one.detail == other.detail && one.retryAfter == other.retryAfter
    }

    /// Hashes what ``==(_:_:)`` compares.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(code)
        hasher.combine(phase)
        hasher.combine(reason)
        hasher.combine(detail)
        hasher.combine(retryAfter)
    }

    /// The kind of error.
    public var code: Code {
        get { fields.code }
        set { fields.code = newValue }
    }
    /// The phase that the connection had reached.
    public var phase: Phase {
        get { fields.phase }
        set { fields.phase = newValue }
    }
    /// A sentence for people.
    public var reason: String {
        get { fields.reason }
        set { fields.reason = newValue }
    }
    /// The number of the error by ``code`` and ``phase``: errno, HTTP status, WebSocket close code, CONNACK return code,
    /// reply of a SOCKS proxy, or ``tlsProblem``.
    public var detail: Int? {
        get { fields.detail }
        set { fields.detail = newValue }
    }
    /// How long the peer requests to wait before the next attempt (RFC 9110, section 10.2.3: Retry-After).
    public var retryAfter: Duration? {
        get { fields.retryAfter }
        set { fields.retryAfter = newValue }
    }
    /// The sender of the answer that the error is about. Once an endpoint has worked, a supervisor retries an answer that
    /// may come from the path. Default ``Origin/unstated``.
    public var origin: Origin {
        get { fields.origin }
        set { fields.origin = newValue }
    }

    /// The side that must change something to avoid the error.
    public var fault: Fault { code.row.fault }
    /// Whether another attempt, with nothing changed, can succeed.
    public var isRetryable: Bool { prospectOfAttempt == .again }
    /// The problem with the encryption; `nil` if the error has another cause.
    public var tlsProblem: TLSProblem? { detail.flatMap(TLSProblem.init) }
}

extension TransportError {
    /// The kinds of errors of all transports. ``TransportError/fault`` and ``TransportError/isRetryable`` follow from the
    /// code.
    public enum Code: String, Sendable, Hashable, CaseIterable {
        // Configuration

        /// The URL, an option or the configuration file is wrong. The reason names the key and the allowed values.
        /// Correct it.
        case invalidConfiguration
        /// The transport, the peer or the system cannot do what was requested. Use another option or another transport.
        case unsupported

        // Resolve and connect

        /// DNS does not know the host name. Check the spelling. The network can also be the cause, so a retry can help.
        case nameNotFound
        /// Name resolution failed without an answer, for example because no DNS server was reached. Retry later.
        case resolverFailed
        /// No program listens at the address and port. Start the server, or correct host and port.
        case refused
        /// There is no route to the address, or this machine has no address of its family. Check the network, and
        /// retry.
        case unreachable
        /// The network interface is down. Retry when the network is back.
        case networkDown
        /// Another program, or another listener of this one, uses the address to listen on. Choose another port, or
        /// port 0.
        case addressInUse
        /// The system does not allow the operation, such as listening on a port below 1024. Choose another port.
        case permissionDenied
        /// This process has no descriptors or no memory left, or a limit on buffered bytes was reached. Raise the
        /// limit, or reduce the number of connections.
        case resourcesExhausted
        /// An answer did not come in time. The phase shows which one. A retry can help. Otherwise check firewalls and
        /// the timeout.
        case timedOut

        // Secure

        /// The peer's certificate was not accepted. ``TransportError/tlsProblem`` says why. Correct the certificate, the
        /// trusted authorities or the host.
        case certificateRejected
        /// The TLS handshake failed (WebSocket close code 1015). ``TransportError/tlsProblem`` says why. Check that both
        /// sides use TLS.
        case secureHandshakeFailed

        // Handshake

        /// The peer did not complete the protocol's handshake. Often it speaks another protocol or version, so compare
        /// scheme and port with the server's.
        case handshakeFailed
        /// The peer did not accept the credentials. Set the right ones, or get a fresh token for each attempt.
        case authenticationFailed
        /// The peer does not allow the operation for these credentials. Change them, or the access rules of the peer.
        case forbidden
        /// The path, the session or the message does not exist at the peer. Correct the path of the URL.
        case notFound
        /// The server is overloaded, restarts or has failed. Retry later, no sooner than ``TransportError/retryAfter``.
        case serverUnavailable
        /// This client has exceeded the peer's rate limit. Send less, and retry later, no sooner than
        /// ``TransportError/retryAfter``.
        case tooManyRequests

        // Open

        /// The peer closed the connection. ``TransportError/detail`` can contain its close code. Connect again.
        case closedByPeer
        /// The connection was reset, usually because the peer's process has ended or has forgotten the connection.
        /// Connect again.
        case connectionReset
        /// The connection ended without a close. Connect again. If this happens at regular intervals, use a shorter
        /// keepalive interval.
        case connectionLost
        /// The peer fell silent: it did not answer a probe, or sent nothing for too long. Connect again. On a slow path
        /// use a longer timeout.
        case keepaliveTimeout
        /// One side broke the protocol. Often the peer speaks another protocol, so compare scheme and port.
        case protocolViolation
        /// A text message is not UTF-8. Send such bytes as a binary message.
        case invalidText
        /// A message is larger than the limit of this side or of the peer. Raise the limit on both sides, or send
        /// smaller messages.
        case messageTooLarge
        /// A bounded buffer is full, such as the outbox or the write buffer of a slow peer. Send more slowly, or raise
        /// the limit.
        case bufferFull
        /// The peer did not acknowledge a message in time. The message can have arrived. Connect again.
        case acknowledgementTimeout
        /// The operation is not possible now, because the connection is not open yet or too many packets are in flight.
        /// Try again later.
        case wouldBlock

        // Caused by this program

        /// This program has closed the connection or the supervisor. Open a new one.
        case closedByUser
        /// The task was cancelled, or the operation was given up by another call. The connection stays open unless it
        /// was still being opened.
        case cancelled
        /// Another task already uses an operation that only one can use, or too many pings wait. Wait for the earlier
        /// call.
        case busy

        /// The store of the outbox could not be read or written, so a message was not accepted. The reason says what to
        /// do. ``TransportError/detail`` is the errno if there is one.
        case storageFailed

        // Any other error

        /// Any other error of the system or of the app's preparation. ``TransportError/detail`` is the errno if there
        /// is one.
        case systemError
    }
}

extension TransportError.Code {
    /// One row of the table that defines the meaning of each code.
    package struct Row: Sendable, Hashable {
        /// The side that must change something to avoid the error.
        package let fault: TransportError.Fault
        /// The prospect if an attempt has failed with it.
        package let attempt: RetryPolicy.Prospect
        /// The prospect if an open connection has ended with it.
        package let open: RetryPolicy.Prospect
        /// The prospect of a message that a connection has not taken because of it.
        package let message: RetryPolicy.Prospect

        fileprivate init(
            _ fault: TransportError.Fault,
            attempt: RetryPolicy.Prospect = .again,
            open: RetryPolicy.Prospect = .again,
            message: RetryPolicy.Prospect = .again
        ) {
            (self.fault, self.attempt, self.open, self.message) = (fault, attempt, open, message)
        }
    }

    /// The row of this code. The table in `Docs/reference/supervisor.md` has the same rows, which a test compares.
    package var row: Row {
        switch self {
        case .nameNotFound, .resolverFailed, .unreachable, .networkDown, .timedOut, .connectionReset, .connectionLost,
            .keepaliveTimeout:
            Row(.network)
        case .refused, .serverUnavailable, .tooManyRequests, .closedByPeer, .acknowledgementTimeout: Row(.peer)
        case .resourcesExhausted, .bufferFull, .wouldBlock, .storageFailed, .systemError: Row(.local)
        case .authenticationFailed: Row(.local, attempt: .never, open: .never, message: .never)
        case .invalidConfiguration, .forbidden: Row(.local, attempt: .elsewhere, open: .never, message: .never)
        case .certificateRejected: Row(.peer, attempt: .elsewhere, open: .never)
        case .unsupported: Row(.local, attempt: .elsewhere, open: .elsewhere, message: .never)
        case .handshakeFailed: Row(.peer, attempt: .elsewhere, open: .elsewhere)
        case .addressInUse, .permissionDenied, .notFound, .messageTooLarge, .cancelled, .busy:
            Row(.local, attempt: .elsewhere, message: .never)
        case .secureHandshakeFailed, .protocolViolation, .invalidText: Row(.peer, attempt: .elsewhere)
        // A connection that this program has closed did not take the message, and the next one can.
        case .closedByUser: Row(.local, attempt: .elsewhere)
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
            case 300...399: (.handshakeFailed, "the redirect was not followed")
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
    /// A peer that closes with 1000, 1001 or 1005 has made no error: ``CloseReason`` has none then.
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
            case 5:
                (
                    .forbidden,
                    "the broker does not authorise this client; mosquitto says the same of a wrong user or password"
                )
            default: (.protocolViolation, "the broker sent a reserved return code")
            }
        var error = TransportError(code, .handshake, sentence, detail: Int(returnCode))
        error.origin = .peer
        return error
    }
    /// Returns the error for a cancelled task.
    package static func cancelled(_ phase: Phase) -> TransportError {
        TransportError(.cancelled, phase, "the task was cancelled")
    }
}
