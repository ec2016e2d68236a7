import TransportAPI

/// A protocol that a peer speaks in place of the expected one, recognized by its first four bytes.
///
/// The stream cores use it when the first bytes of a connection are an error, and at no other time. The result does not
/// depend on how the bytes are divided when they arrive, because a core waits for four of them (``mustWait(for:expected:)``).
package enum ForeignProtocol: Sendable, Hashable, CaseIterable {
    /// A TLS record: an alert, or a ClientHello (RFC 8446, section 5.1).
    case tls
    /// The request line of HTTP.
    case httpRequest
    /// The status line of HTTP.
    case httpResponse
    /// CONNECT or CONNACK.
    case mqtt
    /// A control frame of framed TCP.
    case framedTCP
    /// Possibly a short message of framed TCP.
    case framedTCPMessage

    /// The protocol that this side speaks.
    package enum Expected: Sendable, Hashable, CaseIterable {
        case framedTCP, webSocket, mqtt, mqttWebSocket

        var name: String {
            switch self {
            case .framedTCP: "framed TCP"
            case .webSocket: "WebSocket"
            case .mqtt: "MQTT"
            case .mqttWebSocket: "MQTT over WebSocket"
            }
        }

        var scheme: String {
            switch self {
            case .framedTCP: "tcp://"
            case .webSocket: "ws://"
            case .mqtt: "mqtt://"
            case .mqttWebSocket: "mqtt+ws://"
            }
        }
    }

    /// How many bytes are read.
    private static let prefixLength = 4

    /// The protocol of the first bytes in `input`. `nil` if it is unknown, or if it is the expected one.
    package init?(_ input: borrowing ByteBuffer, expected: Expected) {
        guard let bytes = input.bytes(at: 0, count: Self.prefixLength), let found = Self.recognize(bytes),
            !found.isPart(of: expected)
        else { return nil }
        self = found
    }

    /// Whether the first bytes in `input`, which are an error already, are too few to recognize their protocol. The beginning
    /// of the expected protocol is never waited for.
    package static func mustWait(for input: borrowing ByteBuffer, expected: Expected) -> Bool {
        guard input.count < prefixLength, let first = input.byte(at: 0) else { return false }
        switch first {
        case 0x00, 0x15, 0x16, 0x80: return true
        case 0x10, 0x20: return expected != .mqtt
        default: return expected == .mqtt && "HGPDOC".utf8.contains(first)
        }
    }

    private static let methods = ["GET ", "HEAD", "POST", "PUT ", "PATC", "DELE", "OPTI", "CONN", "PRI "]

    private static func recognize(_ bytes: [UInt8]) -> ForeignProtocol? {
        // SSL 3.0 to TLS 1.3.
        if bytes[0] == 0x15 || bytes[0] == 0x16, bytes[1] == 3, bytes[2] <= 4 { return .tls }
        if bytes.elementsEqual("HTTP".utf8) { return .httpResponse }
        if methods.contains(where: { bytes.elementsEqual($0.utf8) }) { return .httpRequest }
        if isMQTT(bytes) { return .mqtt }
        let word = bytes.reduce(0) { $0 << 8 | UInt32($1) }
        if word & 0x8000_0000 != 0, (1...125).contains(word & 0x7fff_ffff) { return .framedTCP }
        return word < 0x0100_0000 ? .framedTCPMessage : nil
    }

    /// CONNECT up to the length of the protocol's name (MQTT 3.1.1, section 3.1.2.1), or CONNACK (section 3.2).
    private static func isMQTT(_ bytes: [UInt8]) -> Bool {
        if bytes[0] == 0x20 { return bytes[1] == 2 && bytes[2] <= 1 && bytes[3] <= 5 }
        guard bytes[0] == 0x10 else { return false }
        return bytes[1] & 0x80 == 0 ? bytes[2] == 0 && (bytes[3] == 4 || bytes[3] == 6) : bytes[3] == 0
    }

    private func isPart(of expected: Expected) -> Bool {
        switch (self, expected) {
        case (.framedTCP, .framedTCP), (.framedTCPMessage, .framedTCP), (.mqtt, .mqtt): true
        case (.httpRequest, .webSocket), (.httpRequest, .mqttWebSocket): true
        case (.httpResponse, .webSocket), (.httpResponse, .mqttWebSocket): true
        default: false
        }
    }

    // MARK: For people

    /// A sentence that contains the found protocol, the expected one, and the setting to change.
    package func sentence(expected: Expected, by role: CoreRole) -> String {
        let peer = role == .client ? "the server" : "the client"
        let here = role == .client ? "this client" : "this listener"
        let schemes: String
        let found: String
        switch self {
        case .tls where role == .client:
            return
                "the server speaks TLS; this client speaks plain \(expected.name): use a port of the server without TLS"
        case .tls: return "the client speaks TLS; this listener is plain: use \(expected.scheme)"
        case .httpRequest: (found, schemes) = ("speaks HTTP or WebSocket", "ws://")
        case .httpResponse: (found, schemes) = ("speaks HTTP", "\(expected == .mqtt ? "mqtt+ws:// or " : "")ws://")
        case .mqtt: (found, schemes) = ("speaks MQTT", "mqtt://")
        case .framedTCP: (found, schemes) = ("speaks framed TCP", "tcp://")
        case .framedTCPMessage: (found, schemes) = ("may speak framed TCP", "tcp://")
        }
        // A client can use the scheme of the server's protocol. The client of a server must use the scheme of this listener.
        let remedy = role == .client ? "\(schemes), or another port" : expected.scheme
        return "\(peer) \(found); \(here) speaks \(expected.name): use \(remedy)"
    }

    /// The error of a connection whose first bytes were `error` to the expected protocol. The sentence replaces `error`,
    /// unless it is a guess.
    package func error(insteadOf error: TransportError, expected: Expected, by role: CoreRole) -> TransportError {
        let sentence = sentence(expected: expected, by: role)
        guard self == .framedTCPMessage else { return TransportError(.handshakeFailed, .handshake, sentence) }
        return TransportError(error.code, .handshake, "\(error.reason); \(sentence)", detail: error.detail)
    }

    // MARK: For the peer

    /// Writes an answer of a server that a peer of this protocol can read: an HTTP response, a TLS alert, or a close
    /// frame of framed TCP.
    package func answer(expected: Expected, to output: inout ByteBuffer) {
        let sentence = "this port speaks \(expected.name): use \(expected.scheme)"
        switch self {
        case .tls:
            // A fatal alert: protocol_version (RFC 8446, section 6).
            output.append(contentsOf: [0x15, 3, 1, 0, 2, 2, 70])
        case .httpRequest:
            output.append(utf8: "HTTP/1.1 400 \(sentence)\r\nContent-Type: text/plain; charset=us-ascii\r\n")
            output.append(utf8: "Content-Length: \(sentence.utf8.count + 1)\r\nConnection: close\r\n\r\n\(sentence)\n")
        case .framedTCP, .framedTCPMessage, .mqtt:
            // No answer of MQTT says that there is no broker. A client of MQTT recognizes the frame as framed TCP.
            ControlFrame.close(CloseReason(.protocolError, code: ClosePayload.unacceptableData, text: sentence))
                .write(to: &output)
        case .httpResponse: break
        }
    }
}
