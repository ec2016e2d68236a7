import TransportAPI

/// An ERROR as errors of this package. It has a text for people and no code, so the code follows from what the broker
/// refuses, and for CONNECT from words that RabbitMQ, ActiveMQ and Artemis use.
struct STOMPRefusal {
    /// The longest part of each text that is shown, in bytes.
    private static let longestExcerpt = 200

    /// What the broker says: the header `message`, and the first line of the body.
    private let text: String

    /// Reads an ERROR.
    init(_ frame: STOMPFrame) {
        let message = String(excerptOf: (frame["message"] ?? "").utf8, limit: Self.longestExcerpt)
        let isEnd: (UInt8) -> Bool = { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }
        let line = frame.body.drop(while: isEnd).prefix { !isEnd($0) }
        let detail = String(excerptOf: line, limit: Self.longestExcerpt)
        text = [message, detail].filter { !$0.isEmpty }.joined(separator: ": ")
    }

    private func error(_ code: TransportError.Code, _ phase: TransportError.Phase, _ sentence: String) -> TransportError
    {
        var error = TransportError(code, phase, sentence + (text.isEmpty ? ", and does not say why" : ": \(text)"))
        // No device on the path speaks STOMP.
        error.origin = .peer
        return error
    }

    /// The error of a connection that the broker has ended.
    func ofConnection(_ phase: TransportError.Phase) -> TransportError {
        error(.closedByPeer, phase, "the broker ended the connection by ERROR")
    }

    /// The error of a message that the broker refuses.
    var ofMessage: TransportError { error(.forbidden, .open, "the broker refuses the message") }

    /// The error of a subscription that the broker refuses.
    func ofSubscription(to destination: String, _ phase: TransportError.Phase) -> TransportError {
        let shown = String(excerptOf: destination.utf8)
        return error(.forbidden, phase, "the broker refuses the subscription to '\(shown)'")
    }

    /// The error of a client that the broker refuses. It says which credentials the client has not sent.
    func ofConnect(_ configuration: STOMPConfiguration) -> TransportError {
        let code = codeOfConnect
        var error = self.error(code, .handshake, "the broker refuses this client")
        guard code == .authenticationFailed || code == .forbidden, configuration.passcode == nil else { return error }
        error.reason +=
            "; no \(configuration.login == nil ? "login" : "passcode") was sent: write it into the URL, as in "
            + "stomp://USER:PASSWORD@host, or return it from the preparation"
        return error
    }

    /// Words about the identity of a client.
    private static let aboutIdentity = [
        "access refused", "authenticat", "credential", "login", "logged in", "passcode", "password", "unauthenticated",
    ]
    /// Words about what a client may do.
    private static let aboutRights = [
        "access denied", "authoris", "authoriz", "forbidden", "not allowed", "permission",
    ]

    private var codeOfConnect: TransportError.Code {
        let text = text.lowercased()
        if Self.aboutIdentity.contains(where: { Self.isFound($0, in: text) }) { return .authenticationFailed }
        if Self.aboutRights.contains(where: { Self.isFound($0, in: text) }) { return .forbidden }
        return .handshakeFailed
    }

    /// Whether the words are in a text of at most a few hundred bytes.
    private static func isFound(_ words: String, in text: String) -> Bool {
        let (words, text) = (Array(words.utf8), Array(text.utf8))
        return text.indices.contains { text[$0...].starts(with: words) }
    }
}
