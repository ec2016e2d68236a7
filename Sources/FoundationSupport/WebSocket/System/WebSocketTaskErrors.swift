import Protocols
import SocketIO
import TransportAPI

/// An error of the system, as its domain and its number. Its text is left out, because it can contain the URL.
struct WebSocketTaskFailure: Error, Sendable, Hashable {
    enum Domain: Sendable, Hashable {
        /// `NSURLErrorDomain`.
        case url
        /// `NSPOSIXErrorDomain`.
        case posix
        /// `NSOSStatusErrorDomain`.
        case status
        case other(String)
    }

    var domain: Domain
    var code: Int

    /// Whether a message was larger than the limit of this side.
    var isTooLarge: Bool {
        domain == .posix && (code == Int(EMSGSIZE) || code == Int(ENOBUFS)) || domain == .url && code == -1103
    }
}

extension WebSocketTaskEnd {
    /// The redirect with which the server has answered the handshake; `nil` if it has not. The system follows none itself: what
    /// may be sent where is decided in one place for all transports.
    var redirectStatus: (number: UInt16, location: String)? {
        guard let status, [301, 302, 303, 307, 308].contains(status), let number = UInt16(exactly: status) else {
            return nil
        }
        let locations = headers.values("Location")
        guard locations.count == 1, let location = locations.first else { return nil }
        return (number, location)
    }

    /// The error of the connection; `nil` if it has ended without one.
    func error(_ request: WebSocketTaskRequest, path: String, wasOpen: Bool) -> TransportError? {
        if let refusal { return TransportError(refusal, wasOpen: wasOpen) }
        if !wasOpen, let status, status != 101 {
            return .refusedRequest(
                status: status,
                retryAfter: headers.retryAfter(at: WallClock.unixTime()),
                path: path,
                headers: request.headers
            )
        }
        guard let failure else { return nil }
        return failure.error(host: request.host, wasOpen: wasOpen)
    }
}

extension WebSocketTaskFailure {
    /// The error of a connection that has ended by this one.
    func error(host: String, wasOpen: Bool) -> TransportError {
        switch domain {
        case .url: urlError(host, wasOpen)
        case .posix: posixError(wasOpen)
        case .status: statusError(wasOpen)
        case .other(let name):
            TransportError(.systemError, wasOpen ? .open : .connect, "the system's error is \(code) of \(name)")
        }
    }

    /// Errors of `URLError.Code`. One of TLS is more exact in ``WebSocketTaskEnd/refusal``, if the challenge came that far.
    private func urlError(_ host: String, _ wasOpen: Bool) -> TransportError {
        let early: TransportError.Phase = wasOpen ? .open : .connect
        func tls(_ problem: TLSProblem, _ sentence: String) -> TransportError {
            TransportError(TLSFailure(problem, "\(sentence) (NSURLErrorDomain \(code))"), wasOpen: wasOpen)
        }
        func plain(_ kind: TransportError.Code, _ phase: TransportError.Phase, _ sentence: String) -> TransportError {
            TransportError(kind, phase, "\(sentence) (NSURLErrorDomain \(code))")
        }
        return switch code {
        case -999: plain(.cancelled, early, "the system has cancelled the connection")
        case -1000: plain(.invalidConfiguration, .configure, "the system does not accept the URL")
        case -1002:
            plain(
                .unsupported,
                .configure,
                "the system has no WebSocket for this URL, as Foundation on Linux: write engine=openssl"
            )
        case -1001 where wasOpen: plain(.connectionLost, .open, "the system gave up waiting for the server")
        case -1001: plain(.timedOut, .connect, "\(host) did not answer in time")
        case -1003: plain(.nameNotFound, .resolve, "the name \(host) is not known")
        case -1006: plain(.resolverFailed, .resolve, "the name \(host) could not be looked up")
        case -1004: plain(.refused, .connect, "the connection to \(host) was refused or could not be made")
        case -1005: plain(.connectionLost, early, "the connection is lost")
        case -1009, -1018, -1019, -1020: plain(.networkDown, .connect, "there is no connection to the internet")
        case -1007: plain(.handshakeFailed, .handshake, "the server redirects without end")
        case -1011: plain(.handshakeFailed, .handshake, "the server did not switch to WebSocket")
        case -1022:
            plain(
                .unsupported,
                .secure,
                "App Transport Security forbids connections without encryption: use wss://, or add an exception to "
                    + "NSAppTransportSecurity of the app's Info.plist"
            )
        case -1103: plain(.messageTooLarge, early, "a message is larger than the limit of this side")
        case -1200: tls(.other, "the TLS handshake has failed").inHandshake(wasOpen)
        case -1201: tls(.expired, "a certificate in the chain of \(host) is not valid now")
        case -1202: tls(.invalidCertificate, "the certificate of \(host) is not trusted")
        case -1203: tls(.unknownIssuer, "no trusted authority has issued the certificate of \(host)")
        case -1204: tls(.notYetValid, "the certificate of \(host) is not valid yet; check the clock of this device")
        case -1205: tls(.certificateRefused, "the server does not accept the certificate of this side")
        case -1206: tls(.certificateRequired, "the server requires a certificate of this side")
        default: plain(wasOpen ? .connectionLost : .systemError, early, "the system has ended the connection")
        }
    }

    private func posixError(_ wasOpen: Bool) -> TransportError {
        guard !isTooLarge else {
            return TransportError(
                .messageTooLarge,
                .open,
                "a message is larger than the limit of this side",
                detail: 1009
            )
        }
        let number = Int32(truncatingIfNeeded: code)
        // The system reports that a task has ended as "socket is not connected".
        if wasOpen, number == ENOTCONN { return .webSocketClose(1006) }
        return TransportError(SystemError("URLSessionWebSocketTask", number), wasOpen ? .open : .connect)
    }

    /// Errors of Secure Transport, which the system uses for the peer's alerts (SecureTransport.h).
    private func statusError(_ wasOpen: Bool) -> TransportError {
        let (problem, sentence): (TLSProblem, String) =
            switch code {
            case -9836: (.protocolVersion, "the server does not speak a TLS version that this side allows")
            case -9801, -9824: (.noCommonAlgorithm, "there is no cipher, group or signature algorithm in common")
            case -9825, -9826, -9827, -9828, -9829, -9831, -9832:
                (.certificateRefused, "the server does not accept the certificate of this side")
            case -9807, -9808, -9812, -9813:
                (.unknownIssuer, "no trusted authority has issued the server's certificate")
            case -9814: (.expired, "a certificate of the server has expired")
            case -9815: (.notYetValid, "the server's certificate is not valid yet; check the clock of this device")
            case -9843: (.wrongHost, "the server's certificate is for another host")
            default: (.other, "TLS has failed")
            }
        let failure = TLSFailure(problem, "\(sentence) (OSStatus \(code))")
        return TransportError(failure, wasOpen: wasOpen).inHandshake(wasOpen)
    }
}

extension TransportError {
    /// An unknown problem of TLS before the connection was open is one of its handshake.
    fileprivate func inHandshake(_ wasOpen: Bool) -> TransportError {
        guard !wasOpen, code == .connectionLost else { return self }
        var error = self
        error.code = .secureHandshakeFailed
        return error
    }
}
