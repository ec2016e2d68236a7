import Foundation
import Primitives
import Testing

@testable import TransportAPI

@Suite("The table of retries")
struct RetryPolicyTests {
    private func decide(
        _ error: TransportError?,
        _ stage: RetryPolicy.Stage = .attempt,
        _ history: RetryPolicy.History = .none,
        canRefresh: Bool = false
    ) -> RetryPolicy.Decision {
        RetryPolicy.decide(error, stage, history, canRefresh: canRefresh)
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
        for history in RetryPolicy.History.allCases {
            let expected: RetryPolicy.Decision = isAboutCredentials ? .giveUp : .setAside(.untilAnotherOpens)
            #expect(decide(error, .attempt, history) == expected)
        }
    }

    @Test("Fresh credentials are requested first, whatever has worked", arguments: RetryPolicy.History.allCases)
    func credentials(history: RetryPolicy.History) {
        for stage in [RetryPolicy.Stage.attempt, .early, .open] {
            #expect(decide(.httpStatus(401), stage, history, canRefresh: true) == .refresh)
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

    @Test("An open connection's end follows the close code", arguments: RetryPolicy.History.allCases)
    func open(history: RetryPolicy.History) {
        #expect(decide(nil, .open, history) == .retry)
        #expect(decide(.webSocketClose(1011), .open, history) == .retry)
        #expect(decide(.webSocketClose(1002), .open, history) == .retry)
        #expect(decide(.webSocketClose(1003), .open, history) == .setAside(.untilAnotherIsStable))
        #expect(decide(.webSocketClose(1010), .open, history) == .setAside(.untilAnotherIsStable))
        #expect(decide(.webSocketClose(1008), .open, history) == .giveUp)
        #expect(decide(.webSocketClose(3000), .open, history) == .giveUp)
        #expect(decide(.webSocketClose(3003), .open, history) == .giveUp)
    }

    @Test(
        "A peer that has ended the connection because of a message is tried again",
        arguments: [1003, 1007, 1008, 1009]
    )
    func refusedMessage(closeCode: UInt16) {
        #expect(decide(.webSocketClose(closeCode), .refusedMessage, .this) == .retry)
    }

    @Test("The sender of a message gets the error that each connection would give it")
    func message() {
        for code in [TransportError.Code.messageTooLarge, .unsupported, .invalidConfiguration, .cancelled, .busy] {
            #expect(decide(TransportError(code, .open, "no"), .message) == .giveUp)
            // A connection that is closing takes no message at all.
            #expect(decide(TransportError(code, .closing, "no"), .message) == .retry)
        }
        for code in [TransportError.Code.connectionLost, .closedByPeer, .closedByUser, .bufferFull, .wouldBlock] {
            #expect(decide(TransportError(code, .open, "no"), .message) == .retry)
        }
        // This side refuses the text, and then the peer does.
        #expect(decide(TransportError(.invalidText, .open, "no UTF-8"), .message) == .giveUp)
        #expect(decide(.webSocketClose(1007), .message) == .retry)
    }

    @Test("The documented table is that of the code")
    func documented() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../..")
        let text = try String(contentsOf: root.appending(path: "Docs/reference/supervisor.md"), encoding: .utf8)
        let lines = Set(text.split(separator: "\n").map(String.init))
        let rows = Self.table
        print("| error | an attempt | an open connection | a message |\n|---|---|---|---|")
        for row in rows {
            print(row)
            #expect(lines.contains(row), "Docs/reference/supervisor.md lacks: \(row)")
        }
        let ends = ["| to its sender |", "| waits |"]
        #expect(lines.count { line in ends.contains { line.hasSuffix($0) } } == rows.count)
    }

    /// One line for all codes of a row, in the order of the codes.
    private static var table: [String] {
        var rows: [TransportError.Code.Row] = []
        for code in TransportError.Code.allCases where !rows.contains(where: { $0.isLike(code.row) }) {
            rows.append(code.row)
        }
        return rows.map { row in
            let codes = TransportError.Code.allCases.filter { $0.row.isLike(row) }.map { "`\($0)`" }
            let open =
                row.open.phrase + (row.open == .elsewhere ? ", until a connection to another endpoint was stable" : "")
            return "| \(codes.joined(separator: ", ")) | \(row.attempt.phrase) | \(open) "
                + "| \(row.message == .never ? "to its sender" : "waits") |"
        }
    }

    @Test(
        "Whatever a retry can fix is retried",
        arguments: TransportError.Code.allCases.filter { $0.row.attempt == .again }
    )
    func retryable(code: TransportError.Code) {
        for phase in TransportError.Phase.allCases where phase != .secure {
            let error = TransportError(code, phase, "no")
            for history in RetryPolicy.History.allCases {
                #expect(decide(error, .attempt, history) == .tryNext)
                #expect(decide(error, .early, history) == .tryNext)
                #expect(decide(error, .open, history) == .retry)
            }
        }
    }
}

extension TransportError.Code.Row {
    /// Whether the same decisions follow.
    fileprivate func isLike(_ other: Self) -> Bool {
        (attempt, open, message) == (other.attempt, other.open, other.message)
    }
}

extension RetryPolicy.Prospect {
    /// The word of the documented table.
    fileprivate var phrase: String {
        switch self {
        case .again: "next attempt"
        case .elsewhere: "hopeless"
        case .never: "**closed**"
        }
    }
}
