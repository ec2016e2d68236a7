import Primitives
import Testing

@testable import TransportAPI

@Suite("The table of retries")
struct RetryDecisionTests {
    private func decide(
        _ error: TransportError?,
        _ stage: RetryDecision.Stage = .attempt,
        _ history: RetryDecision.History = .none,
        hasRefreshed: Bool = true
    ) -> RetryDecision {
        RetryDecision(error, stage, history, hasRefreshed: hasRefreshed)
    }

    private static func certificate(_ problem: TLSProblem) -> TransportError {
        TransportError(.certificateRejected, .secure, "no", detail: problem.rawValue)
    }

    /// Errors that a device on the path can cause.
    private static let disturbances = answers.map { (answer: TransportError) in
        var error = answer
        error.origin = .path
        return error
    }

    private static let answers: [TransportError] =
        [200, 302, 401, 403, 404, 407, 426].map { .httpStatus($0) } + [
            certificate(.unknownIssuer), certificate(.wrongHost), certificate(.pinMismatch), certificate(.selfSigned),
            TransportError(.secureHandshakeFailed, .secure, "an alert", detail: TLSProblem.noCommonAlgorithm.rawValue),
            TransportError(.authenticationFailed, .secure, "an alert", detail: TLSProblem.certificateRequired.rawValue),
            TransportError(.connectionReset, .secure, "a reset"),
            TransportError(.connectionLost, .secure, "the end"),
            TransportError(.forbidden, .connect, "the proxy forbids this connection: HTTP 403", detail: 403),
            TransportError(.authenticationFailed, .connect, "the proxy asks for credentials: HTTP 407", detail: 407),
            TransportError(.protocolViolation, .handshake, "an HTTP answer instead of the session's welcome"),
            TransportError(.permissionDenied, .connect, "connect: Permission denied"),
        ]

    @Test("An error that the path can cause is outlasted at an endpoint that has worked", arguments: disturbances)
    func disturbed(error: TransportError) {
        #expect(decide(error, .attempt, .this) == .outlast)
    }

    @Test("The same is final at an endpoint that has never worked", arguments: disturbances.filter { !$0.isRetryable })
    func unknown(error: TransportError) {
        let isAboutCredentials = error.code == .authenticationFailed
        #expect(decide(error) == (isAboutCredentials ? .giveUp : .setAside(.untilAnotherOpens)))
        #expect(decide(error, .attempt, .others) == .setAside(.untilAnotherOpens))
    }

    @Test(
        "The same is final if the peer itself has answered, or the transport does not say who has",
        arguments: answers.filter { !$0.isRetryable },
        [TransportError.Origin.peer, .unstated]
    )
    func fromPeer(error: TransportError, origin: TransportError.Origin) {
        var error = error
        error.origin = origin
        let isAboutCredentials = error.code == .authenticationFailed
        for history in RetryDecision.History.allCases {
            let expected: RetryDecision = isAboutCredentials ? .giveUp : .setAside(.untilAnotherOpens)
            #expect(decide(error, .attempt, history) == expected)
        }
    }

    @Test("Fresh credentials are requested first, whatever has worked", arguments: RetryDecision.History.allCases)
    func credentials(history: RetryDecision.History) {
        for stage in RetryDecision.Stage.allCases {
            #expect(decide(.httpStatus(401), stage, history, hasRefreshed: false) == .refresh)
        }
    }

    @Test("Errors of this program stay final")
    func local() {
        let login = TransportError(.authenticationFailed, .configure, "login needed")
        #expect(decide(login, .attempt, .this) == .giveUp)
        for code in [TransportError.Code.invalidConfiguration, .addressInUse, .busy, .cancelled, .closedByUser] {
            #expect(decide(TransportError(code, .connect, "no"), .attempt, .this) == .setAside(.untilAnotherOpens))
        }
    }

    @Test("The answer of a broker or of a session server is not from the path")
    func wordsOfTheProtocol() {
        #expect(decide(.connack(2), .attempt, .this) == .setAside(.untilAnotherOpens))
        #expect(decide(.connack(4), .attempt, .this) == .giveUp)
        #expect(decide(.connack(5), .early, .this) == .setAside(.untilAnotherIsStable))
        #expect(decide(SessionFrame.Refusal.otherIdentity.error, .attempt, .this) == .setAside(.untilAnotherOpens))
    }

    @Test("An open connection's end follows the close code", arguments: RetryDecision.History.allCases)
    func open(history: RetryDecision.History) {
        #expect(decide(nil, .open, history) == .retry)
        #expect(decide(.webSocketClose(1011), .open, history) == .retry)
        #expect(decide(.webSocketClose(1002), .open, history) == .retry)
        #expect(decide(.webSocketClose(1003), .open, history) == .setAside(.untilAnotherIsStable))
        #expect(decide(.webSocketClose(1010), .open, history) == .setAside(.untilAnotherIsStable))
        #expect(decide(.webSocketClose(1008), .open, history) == .giveUp)
        #expect(decide(.webSocketClose(3000), .open, history) == .giveUp)
        #expect(decide(.webSocketClose(3003), .open, history) == .giveUp)
    }

    @Test("Whatever a retry can fix is retried", arguments: TransportError.Code.allCases.filter(\.row.retryable))
    func retryable(code: TransportError.Code) {
        for phase in TransportError.Phase.allCases where phase != .secure {
            let error = TransportError(code, phase, "no")
            for history in RetryDecision.History.allCases {
                #expect(decide(error, .attempt, history) == .tryNext)
                #expect(decide(error, .early, history) == .tryNext)
                #expect(decide(error, .open, history) == .retry)
            }
        }
    }
}
