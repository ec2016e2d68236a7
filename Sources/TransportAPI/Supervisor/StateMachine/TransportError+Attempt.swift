extension TransportError {
    /// Returns the error for an attempt that was not over at the connect timeout.
    static func timedOut(in step: SupervisorStateMachine.AttemptStep) -> TransportError {
        switch step {
        case .store:
            let sentence = "the store of the outbox, which knows the session, was not open within the connect timeout"
            return TransportError(.timedOut, .configure, sentence)
        case .preparation:
            let sentence = "the app's preparation did not return within the connect timeout"
            return TransportError(.timedOut, .configure, "\(sentence): return sooner, or raise the timeout")
        case .transport:
            let sentence =
                "the attempt took too long: the host may be down, or the port may belong to another protocol"
            return TransportError(.timedOut, .connect, sentence)
        case .greeting:
            let sentence =
                "the app's greeting did not end within the connect timeout: the server may not answer it, "
                + "or it waits for the supervisor, which sends nothing before the greeting has ended"
            return TransportError(.timedOut, .handshake, sentence)
        }
    }

    /// The sentence about a session through a broker that acknowledges nothing, without its subject.
    package static let sessionWithoutAcknowledgements =
        "asks the broker for no acknowledgements, but the delivery mode session needs them: write qos=1 into the URL over "
        + "MQTT, or receipt=on over STOMP, or set delivery.mode to plain"

    /// Returns the error for a server that has not answered the hello.
    ///
    /// - Parameter isAlive: Whether it has answered a ping in the meantime.
    static func noWelcome(isAlive: Bool) -> TransportError {
        let sentence = "the server does not answer the session hello\(isAlive ? ", but answers pings" : "")"
        return TransportError(.timedOut, .handshake, "\(sentence): \(maybeWithoutSessions)")
    }

    static let withoutSessions = "it has no sessions; set the delivery mode to plain, or use a session server"
    static let maybeWithoutSessions =
        "if it has no sessions, set the delivery mode to plain, or use a session server"

    /// Returns the error for a server that has sent another message instead of the welcome. A refusal is an answer to
    /// the hello. Any other message comes from a server without sessions.
    ///
    /// - Parameters:
    ///   - payload: The message.
    ///   - error: The error of its frame.
    static func noWelcome(_ payload: Payload, _ error: TransportError) -> TransportError {
        guard error.code == .protocolViolation else { return error }
        let sentence: String
        switch try? SessionFrame(payload) {
        case .refused: return error
        case .hello: sentence = "the server returned the session hello, as an echo server does"
        default: sentence = "the server sent a message that does not answer the session hello (\(error.reason))"
        }
        return TransportError(error.code, .handshake, "\(sentence): \(withoutSessions)")
    }

    /// The error for a server that has ended the connection instead of answering the hello.
    var insteadOfWelcome: TransportError {
        switch code {
        case .closedByPeer, .connectionLost, .connectionReset, .protocolViolation, .invalidText, .unsupported: break
        default: return self
        }
        let sentence = "the server ended the connection without an answer to the session hello (\(reason))"
        let text = "\(sentence): \(Self.maybeWithoutSessions)"
        return TransportError(code, .handshake, text, detail: detail, retryAfter: retryAfter)
    }
}
