import TransportAPI

/// The close codes of WebSocket (RFC 6455, section 7.4, and the IANA registry of close codes).
enum CloseCode {
    static let normal: UInt16 = 1000
    static let goingAway: UInt16 = 1001
    static let protocolError: UInt16 = 1002
    static let unacceptableData: UInt16 = 1003
    static let absent: UInt16 = 1005
    static let abnormal: UInt16 = 1006
    static let invalidText: UInt16 = 1007
    static let policyViolation: UInt16 = 1008
    static let messageTooLarge: UInt16 = 1009

    /// The most bytes of text in a close frame: the 125 of a control frame, without the code.
    static let maximumTextBytes = 123

    /// Returns whether a close frame may carry `code`. The codes 1004, 1005, 1006 and 1015 are never sent, and the
    /// others below 3000 are reserved.
    static func isAllowedOnWire(_ code: UInt16) -> Bool {
        switch code {
        case 1000...1003, 1007...1014, 3000...4999: true
        default: false
        }
    }

    /// Returns the code with which this side closes a connection for `reason`.
    static func forReason(_ reason: CloseReason) -> UInt16 {
        if let code = reason.code, isAllowedOnWire(code) { return code }
        return switch reason.initiator {
        case .user, .peer: normal
        case .network, .keepalive: goingAway
        case .protocolError: reason.error.map(forError) ?? protocolError
        case .authentication: policyViolation
        }
    }

    /// Returns the code with which this side closes a connection for an error of the peer.
    static func forError(_ error: TransportError) -> UInt16 {
        switch error.code {
        case .invalidText: invalidText
        case .messageTooLarge: messageTooLarge
        case .tooManyRequests: policyViolation
        default: protocolError
        }
    }
}

/// The body of a close frame (RFC 6455, section 5.5.1): empty, or a code and a text.
struct CloseFrame: Sendable, Hashable {
    /// The code, or `nil` if the frame was empty.
    var code: UInt16?
    /// The sender's explanation.
    var text = ""

    init(code: UInt16?, text: String = "") {
        self.code = code
        self.text = text
    }

    /// Reads the body of a received frame.
    init(_ payload: [UInt8]) throws(TransportError) {
        guard let high = payload.first else { return }
        guard let low = payload.dropFirst().first else {
            throw .webSocketViolation("a close frame holds only half a code")
        }
        let code = UInt16(high) << 8 | UInt16(low)
        guard CloseCode.isAllowedOnWire(code) else {
            throw .webSocketViolation("close code \(code) may not be sent")
        }
        guard let text = String(validating: payload.dropFirst(2), as: UTF8.self) else {
            throw .webSocketInvalidText("the text of a close frame is not UTF-8")
        }
        self.code = code
        self.text = text
    }

    /// The body to send. The text is cut between code points if it is too long.
    var payload: [UInt8] {
        guard let code else { return [] }
        var bytes = [UInt8(truncatingIfNeeded: code >> 8), UInt8(truncatingIfNeeded: code)]
        for scalar in text.unicodeScalars {
            let encoded = UTF8.encode(scalar).map(Array.init) ?? []
            guard bytes.count + encoded.count <= CloseCode.maximumTextBytes + 2 else { break }
            bytes += encoded
        }
        return bytes
    }

    /// The reason of the close, if the peer sent this frame first. `TransportError.webSocketClose` gives its error,
    /// if it means one, and `RetryPolicy` decides about another attempt.
    var reason: CloseReason { CloseReason(peerClosed: code ?? CloseCode.absent, text: text) }
}

extension CloseReason {
    /// The code and the text with which a WebSocket closes for this reason. The text fits into a close frame.
    package var closeFrame: (code: UInt16, text: String) {
        let code = CloseCode.forReason(self)
        let body = CloseFrame(code: code, text: text).payload
        return (code, String(decoding: body.dropFirst(2), as: UTF8.self))
    }
}

extension TransportError {
    /// Returns the error for a peer that violates RFC 6455, with close code 1002.
    static func webSocketViolation(_ reason: String) -> TransportError {
        TransportError(.protocolViolation, .open, reason, detail: Int(CloseCode.protocolError))
    }

    /// Returns the error for text that is not UTF-8, with close code 1007.
    static func webSocketInvalidText(_ reason: String) -> TransportError {
        TransportError(.invalidText, .open, reason, detail: Int(CloseCode.invalidText))
    }

    /// Returns the error for a message in too many frames, with close code 1008.
    static func webSocketFragments(_ limit: Int) -> TransportError {
        TransportError(
            .tooManyRequests,
            .open,
            "a message has more than \(limit) frames",
            detail: Int(CloseCode.policyViolation)
        )
    }

    /// Returns the error for a message that expands too much when it is decompressed, with close code 1009.
    static func webSocketExpansion(_ limit: Int) -> TransportError {
        TransportError(
            .messageTooLarge,
            .open,
            "a message expands to more than \(limit) times its compressed size",
            detail: Int(CloseCode.messageTooLarge)
        )
    }

    /// Returns the error for a message above the limit, with close code 1009.
    static func webSocketTooLarge(_ limit: Int) -> TransportError {
        TransportError(
            .messageTooLarge,
            .open,
            "a message is larger than the limit of \(limit) bytes",
            detail: Int(CloseCode.messageTooLarge)
        )
    }
}
