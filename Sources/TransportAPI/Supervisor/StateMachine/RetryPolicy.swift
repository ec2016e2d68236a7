/// The decision whether something is tried again after an error, for attempts, connections and messages. Nothing else makes
/// this decision; the state machines carry it out. Most decisions follow from the code of the error, by the table
/// ``TransportError/Code/row``.
package enum RetryPolicy {
    /// The next step after an error.
    enum Decision: Sendable, Hashable {
        /// Another attempt at the same endpoint at once, with fresh credentials.
        case refresh
        /// Another attempt at the same endpoint after a pause. A message waits for the next connection.
        case retry
        /// An attempt at the next endpoint.
        case tryNext
        /// An attempt at the next endpoint. This one has worked before and nothing proves that the answer is its own, so a
        /// captive portal or another device on the path may have given it. It is tried again until it works: no count ends
        /// that, and the pauses are those of ``BackoffPolicy/whileDisturbed``.
        case outlast
        /// The endpoint is wrong, so only the others are tried.
        case setAside(SetAside)
        /// No attempt can help. The sender of a message gets the error.
        case giveUp
    }

    /// How long an endpoint is set aside.
    enum SetAside: Sendable, Hashable {
        /// Until a connection to another endpoint opens.
        case untilAnotherOpens
        /// Until a connection to another endpoint was stable. This is for endpoints whose connections open and then end.
        case untilAnotherIsStable
    }

    /// The thing that has failed.
    enum Stage: Sendable, Hashable, CaseIterable {
        /// An attempt: the connection did not open.
        case attempt
        /// A connection that opened before the peer had accepted it, and the peer did not (MQTT with `early-publish=on`).
        case early
        /// An open connection.
        case open
        /// An open connection that the peer has ended because of one message (``Blame/Evidence``).
        case refusedMessage
        /// A message that an open connection did not take.
        case message
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

    /// The chance of another try.
    package enum Prospect: Sendable, Hashable {
        /// The same can succeed.
        case again
        /// The same would fail again, but another endpoint may be the right one.
        case elsewhere
        /// The same would fail everywhere.
        case never
    }

    /// Makes the decision.
    ///
    /// - Parameters:
    ///   - error: The error; `nil` if the peer has closed the connection normally.
    ///   - stage: The thing that has failed.
    ///   - history: Which endpoints have worked.
    ///   - canRefresh: Whether other credentials can be requested.
    static func decide(
        _ error: TransportError?,
        _ stage: Stage,
        _ history: History,
        canRefresh: Bool
    ) -> Decision {
        guard let error, stage != .refusedMessage else { return .retry }
        if stage == .message { return error.refusesMessage ? .giveUp : .retry }
        let isAboutCredentials = error.code == .authenticationFailed
        if isAboutCredentials, canRefresh { return .refresh }
        if history == .this, error.mayComeFromPath { return .outlast }
        switch stage == .open ? error.code.row.open : error.prospectOfAttempt {
        case .again: return stage == .open ? .retry : .tryNext
        case .elsewhere: return .setAside(stage == .attempt ? .untilAnotherOpens : .untilAnotherIsStable)
        // The path may refuse this endpoint like the one that has worked.
        case .never where isAboutCredentials && history == .others && error.mayComeFromPath:
            return .setAside(.untilAnotherOpens)
        case .never: return .giveUp
        }
    }
}

extension TransportError {
    /// A certificate that is not valid yet becomes so. Everything else follows from the code.
    var prospectOfAttempt: RetryPolicy.Prospect { tlsProblem == .notYetValid ? .again : code.row.attempt }

    /// Whether another connection would refuse the message too.
    var refusesMessage: Bool {
        // The end of the connection is no property of a message that came too late for it.
        guard phase != .closing else { return false }
        // Without a close code, this side has refused the text.
        return code.row.message == .never || code == .invalidText && detail == nil
    }

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
