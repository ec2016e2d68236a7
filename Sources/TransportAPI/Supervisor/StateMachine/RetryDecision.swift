/// The next step after an attempt has failed or a connection has ended. This is the only table of these decisions; the
/// state machine carries them out.
enum RetryDecision: Sendable, Hashable {
    /// Another attempt at the same endpoint at once, with fresh credentials.
    case refresh
    /// Another attempt at the same endpoint after a pause.
    case retry
    /// An attempt at the next endpoint.
    case tryNext
    /// An attempt at the next endpoint. This one has worked before and nothing proves that the answer is its own, so a
    /// captive portal or another device on the path may have given it. It is tried again until it works: no count ends
    /// that, and the pauses are those of ``BackoffPolicy/whileDisturbed``.
    case outlast
    /// The endpoint is wrong, so only the others are tried.
    case setAside(SetAside)
    /// No attempt can help.
    case giveUp

    /// How long an endpoint is set aside.
    enum SetAside: Sendable, Hashable {
        /// Until a connection to another endpoint opens.
        case untilAnotherOpens
        /// Until a connection to another endpoint was stable. This is for endpoints whose connections open and then end.
        case untilAnotherIsStable
    }

    /// How far the connection had come.
    enum Stage: Sendable, Hashable, CaseIterable {
        /// It did not open.
        case attempt
        /// It opened before the peer had accepted it, and the peer did not (MQTT with `early-publish=on`).
        case early
        /// It was open.
        case open
    }

    /// Which endpoints have accepted a connection since the supervisor was created.
    enum History: Sendable, Hashable, CaseIterable {
        /// No endpoint.
        case none
        /// Other endpoints than this one.
        case others
        /// This endpoint.
        case this
    }

    /// Makes the decision.
    ///
    /// - Parameters:
    ///   - error: The error of the attempt or of the end; `nil` if the peer has closed the connection normally.
    ///   - stage: How far the connection had come.
    ///   - history: Which endpoints have worked.
    ///   - hasRefreshed: Whether the credentials are fresh already, and no connection was accepted since.
    init(_ error: TransportError?, _ stage: Stage, _ history: History, hasRefreshed: Bool) {
        guard let error else {
            self = .retry
            return
        }
        self =
            switch (error.code, stage) {
            case (.authenticationFailed, _) where !hasRefreshed: .refresh
            case _ where history == .this && error.mayComeFromPath: .outlast
            // The path may refuse this endpoint like the one that has worked.
            case (.authenticationFailed, _) where history == .others && error.mayComeFromPath:
                .setAside(.untilAnotherOpens)
            case (.authenticationFailed, _): .giveUp
            case (_, .attempt): error.isRetryable ? .tryNext : .setAside(.untilAnotherOpens)
            case (_, .early): error.isRetryable ? .tryNext : .setAside(.untilAnotherIsStable)
            // The peer uses another protocol or does not serve this client. Another endpoint may be the right one.
            case (.unsupported, .open), (.handshakeFailed, .open): .setAside(.untilAnotherIsStable)
            // Most errors of an open connection may not occur on the next one. These errors would.
            case (.forbidden, .open), (.certificateRejected, .open), (.invalidConfiguration, .open): .giveUp
            case (_, .open): .retry
            }
    }
}

extension TransportError {
    /// Whether a device on the path can have caused the error in place of the peer: an HTTP answer without encryption, the
    /// answer of a proxy, a certificate that was not accepted, or an alert or a reset during the TLS handshake.
    var mayComeFromPath: Bool {
        guard origin == .path else { return false }
        switch code {
        // Caused by this program.
        case .invalidConfiguration, .addressInUse, .busy, .cancelled, .closedByUser: return false
        case .connectionReset, .connectionLost: return phase == .secure
        default: return !isRetryable
        }
    }

    /// The error with a sentence that says why it may not be final.
    var onDisturbedPath: TransportError {
        var error = self
        error.reason =
            "\(reason). This endpoint has worked before, so the answer may come from the network, such as a captive portal"
        return error
    }
}

extension BackoffPolicy {
    /// The pauses while an endpoint that has worked gives answers that are otherwise final. They begin like those of this
    /// policy and double up to 5 minutes, because such a disturbance can last, and a server that has really changed its
    /// mind should not be asked often.
    var whileDisturbed: BackoffPolicy {
        let start: Duration
        var (factor, randomness) = (2.0, Jitter.none)
        switch self {
        case .immediate: (start, randomness) = (.zero, .full)
        case .fixed(let delay): start = delay
        case .exponential(let initial, _, let multiplier, let jitter):
            (start, factor, randomness) = (initial, max(multiplier, factor), jitter)
        case .schedule(let delays, _): start = delays.first { $0 > .zero } ?? .zero
        }
        return .exponential(
            initial: start > .zero ? start : .milliseconds(500),
            maximum: .seconds(300),
            multiplier: factor,
            jitter: randomness
        )
    }
}
