// How the numbers of each protocol map into the one error. Tested row by row.

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

    /// The error for a close code that the far side sent on an open WebSocket (RFC 6455, section 7.4.1; the IANA registry).
    public static func webSocketClose(_ closeCode: UInt16, reason text: String = "") -> TransportError {
        let (code, sentence): (Code, String) =
            switch closeCode {
            case 1000: (.closedByPeer, "the far side closed normally")
            case 1001: (.closedByPeer, "the far side is going away")
            case 1002: (.protocolViolation, "the far side saw a protocol error")
            case 1003: (.unsupported, "the far side does not accept this kind of data")
            case 1005: (.closedByPeer, "the far side closed without a code")
            case 1006: (.connectionLost, "the connection broke without a close frame")
            case 1007: (.invalidText, "the far side could not read our text")
            case 1008: (.forbidden, "the far side's policy was violated")
            case 1009: (.messageTooLarge, "a message was too large for the far side")
            case 1010: (.handshakeFailed, "the far side missed an extension")
            case 1011: (.serverUnavailable, "the far side failed")
            case 1012, 1013: (.serverUnavailable, "the far side restarts or is overloaded")
            case 1014: (.serverUnavailable, "the gateway got no good answer")
            case 1015: (.secureHandshakeFailed, "the TLS handshake failed")
            case 3000: (.authenticationFailed, "the far side asks for other credentials")
            case 3003: (.forbidden, "the far side forbids this connection")
            case 3008: (.timedOut, "the far side gave up waiting")
            default: (.closedByPeer, "the far side closed")
            }
        let suffix = text.isEmpty ? "" : ": \(text)"
        return TransportError(code, .open, sentence + suffix, detail: Int(closeCode))
    }

    /// The error for a return code with which an MQTT broker refused a connection (MQTT 3.1.1, section 3.2.2.3, table 3.1).
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
