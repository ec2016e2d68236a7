import TransportAPI

/// The numbers that say why a WebSocket was closed (RFC 6455, section 7.4; the IANA registry of close codes).
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

    /// The most bytes of text in a close frame: a control frame's 125 without the code.
    static let maximumTextBytes = 123

    /// Whether a close frame may carry `code`: 1004, 1005, 1006 and 1015 never travel, the rest below 3000 is reserved.
    static func isAllowedOnWire(_ code: UInt16) -> Bool {
        switch code {
        case 1000...1003, 1007...1014, 3000...4999: true
        default: false
        }
    }

    /// The code with which this side ends a connection for `reason`.
    static func forReason(_ reason: CloseReason) -> UInt16 {
        if let code = reason.code, isAllowedOnWire(code) { return code }
        return switch reason.initiator {
        case .user, .peer: normal
        case .network, .keepalive: goingAway
        case .protocolError: reason.error.map(forError) ?? protocolError
        case .authentication: policyViolation
        }
    }

    /// The code with which this side answers what it cannot accept.
    static func forError(_ error: TransportError) -> UInt16 {
        switch error.code {
        case .invalidText: invalidText
        case .messageTooLarge: messageTooLarge
        case .tooManyRequests: policyViolation
        default: protocolError
        }
    }
}

/// The body of a close frame (RFC 6455, section 5.5.1): nothing, or a code and a text.
struct CloseFrame: Sendable, Hashable {
    /// The code; `nil` if the frame was empty.
    var code: UInt16?
    /// What the sender says to it.
    var text = ""

    init(code: UInt16?, text: String = "") {
        self.code = code
        self.text = text
    }

    /// Reads a received body.
    init(_ payload: [UInt8]) throws(TransportError) {
        guard let high = payload.first else { return }
        guard let low = payload.dropFirst().first else {
            throw .webSocketViolation("a close frame holds half a code")
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

    /// The body to send, its text cut to what fits, between code points.
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

    /// Why the connection ended, if the peer sent this frame first.
    var reason: CloseReason { CloseReason(peerClosed: code ?? CloseCode.absent, text: text) }
}

extension TransportError {
    /// The peer broke RFC 6455; answered with close code 1002.
    static func webSocketViolation(_ reason: String) -> TransportError {
        TransportError(.protocolViolation, .open, reason, detail: Int(CloseCode.protocolError))
    }

    /// The peer sent text that is not UTF-8; answered with close code 1007.
    static func webSocketInvalidText(_ reason: String) -> TransportError {
        TransportError(.invalidText, .open, reason, detail: Int(CloseCode.invalidText))
    }

    /// The peer cut a message into too many frames; answered with close code 1008.
    static func webSocketFragments(_ limit: Int) -> TransportError {
        TransportError(
            .tooManyRequests,
            .open,
            "a message has more than \(limit) frames",
            detail: Int(CloseCode.policyViolation)
        )
    }

    /// The peer sent a message that is small only while it is compressed; answered with close code 1009.
    static func webSocketExpansion(_ limit: Int) -> TransportError {
        TransportError(
            .messageTooLarge,
            .open,
            "a message expands to more than \(limit) times what came",
            detail: Int(CloseCode.messageTooLarge)
        )
    }

    /// The peer sent more than is accepted; answered with close code 1009.
    static func webSocketTooLarge(_ limit: Int) -> TransportError {
        TransportError(
            .messageTooLarge,
            .open,
            "a message is larger than the limit of \(limit) bytes",
            detail: Int(CloseCode.messageTooLarge)
        )
    }
}
