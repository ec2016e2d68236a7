import TransportAPI

/// A protocol that a peer speaks in place of the expected one, recognized by its first bytes.
///
/// The stream cores use it when the first bytes of a connection are an error, and at no other time. It reads at most
/// ``longestPrefix`` bytes.
package enum ForeignProtocol: Sendable, Hashable {
    /// A TLS record: an alert, or a ClientHello (RFC 8446, section 5.1).
    case tls
    /// The request line of HTTP, in part.
    case httpRequest
    /// The status line of HTTP, in part. It holds printable ASCII only.
    case httpResponse(String)
    /// CONNECT or CONNACK.
    case mqtt
    /// The line of a command with which STOMP begins on either side.
    case stomp
    /// The XML declaration or the start tag of a stream of XMPP.
    case xmpp
    /// A word of framed TCP: certainly a control frame, or possibly a short message.
    case framedTCP(isCertain: Bool)
    /// None of these. The first bytes, at most four.
    case unknown([UInt8])

    /// The protocol that this side speaks.
    package enum Expected: Sendable, Hashable {
        case framedTCP, webSocket, mqtt, mqttWebSocket, http, stomp, stompWebSocket, xmpp

        var name: String {
            switch self {
            case .framedTCP: "framed TCP"
            case .webSocket: "WebSocket"
            case .mqtt: "MQTT"
            case .mqttWebSocket: "MQTT over WebSocket"
            case .http: "HTTP"
            case .stomp: "STOMP"
            case .stompWebSocket: "STOMP over WebSocket"
            case .xmpp: "XMPP"
            }
        }

        /// The scheme of the protocol without encryption.
        package var scheme: String {
            switch self {
            case .framedTCP: "tcp://"
            case .webSocket: "ws://"
            case .mqtt: "mqtt://"
            case .mqttWebSocket: "mqtt+ws://"
            case .http: "http://"
            case .stomp: "stomp://"
            case .stompWebSocket: "stomp+ws://"
            case .xmpp: "xmpp://"
            }
        }

        /// The scheme of the protocol over a connection that is encrypted or plain.
        func scheme(isEncrypted: Bool) -> String { isEncrypted ? encryptedScheme : scheme }

        /// The scheme of the same protocol over TLS.
        package var encryptedScheme: String {
            switch self {
            case .framedTCP: "tls://"
            case .webSocket: "wss://"
            case .mqtt: "mqtts://"
            case .mqttWebSocket: "mqtt+wss://"
            case .http: "https://"
            case .stomp: "stomp+tls://"
            case .stompWebSocket: "stomp+wss://"
            case .xmpp: "xmpps://"
            }
        }

        /// Whether it begins with a request of HTTP.
        fileprivate var isWeb: Bool {
            switch self {
            case .webSocket, .mqttWebSocket, .stompWebSocket, .http: true
            case .framedTCP, .mqtt, .stomp, .xmpp: false
            }
        }

        /// The same protocol over WebSocket, if there is one.
        fileprivate var overWebSocket: Expected? {
            switch self {
            case .mqtt: .mqttWebSocket
            case .stomp: .stompWebSocket
            case .framedTCP, .webSocket, .mqttWebSocket, .stompWebSocket, .http, .xmpp: nil
            }
        }
    }

    /// How many bytes are read.
    package static let longestPrefix = 64

    /// Recognizes the protocol of the first bytes that a peer has sent.
    package init(_ bytes: UnsafeRawBufferPointer) {
        let prefix = Array(bytes.prefix(Self.longestPrefix))
        self = Self.recognize(prefix) ?? .unknown(Array(prefix.prefix(4)))
    }

    private static let methods = [
        "GET ", "HEAD ", "POST ", "PUT ", "PATCH ", "DELETE ", "OPTIONS ", "CONNECT ", "PRI ",
    ]

    private static func recognize(_ bytes: [UInt8]) -> ForeignProtocol? {
        guard bytes.count >= 2 else { return nil }
        // An alert or a handshake, of SSL 3.0 to TLS 1.3.
        if bytes[0] == 0x15 || bytes[0] == 0x16, bytes[1] == 3, bytes.count < 3 || bytes[2] <= 4 { return .tls }
        if bytes.starts(with: "HTTP/".utf8) { return .httpResponse(String(excerptOf: bytes.prefix { $0 != 0x0d })) }
        if methods.contains(where: { bytes.starts(with: $0.utf8) }) { return .httpRequest }
        if isMQTT(bytes) { return .mqtt }
        if isSTOMP(bytes) { return .stomp }
        if ["<?xml ", "<stream:stream"].contains(where: { bytes.starts(with: $0.utf8) }) { return .xmpp }
        guard bytes.count >= 4 else { return nil }
        let word = bytes.prefix(4).reduce(0) { $0 << 8 | UInt32($1) }
        if word & 0x8000_0000 != 0, (1...125).contains(word & 0x7fff_ffff) { return .framedTCP(isCertain: true) }
        return word < 0x0100_0000 ? .framedTCP(isCertain: false) : nil
    }

    /// CONNECT with the name of a protocol (MQTT 3.1.1, section 3.1.2.1), or CONNACK with its two bytes (section 3.2).
    private static func isMQTT(_ bytes: [UInt8]) -> Bool {
        if bytes[0] == 0x20 { return bytes.count >= 4 && bytes[1] == 2 && bytes[2] <= 1 && bytes[3] <= 5 }
        guard bytes[0] == 0x10 else { return false }
        let name = bytes.dropFirst().drop { $0 & 0x80 != 0 }.dropFirst()
        return name.starts(with: [0, 4] + "MQTT".utf8) || name.starts(with: [0, 6] + "MQIsdp".utf8)
    }

    /// CONNECT or STOMP of a client, CONNECTED or ERROR of a broker, each with the end of its line (STOMP 1.2).
    private static func isSTOMP(_ bytes: [UInt8]) -> Bool {
        let line = bytes.prefix { UInt8(ascii: "A")...UInt8(ascii: "Z") ~= $0 }
        guard ["CONNECT", "STOMP", "CONNECTED", "ERROR"].contains(where: { line.elementsEqual($0.utf8) }) else {
            return false
        }
        let end = bytes.dropFirst(line.count)
        return end.starts(with: "\n".utf8) || end.starts(with: "\r\n".utf8)
    }

    /// How sure it is that the bytes are not of the expected protocol.
    private enum Verdict { case foreign, possiblyForeign, expected }

    private func verdict(_ expected: Expected) -> Verdict {
        switch (self, expected) {
        case (.framedTCP, .framedTCP), (.mqtt, .mqtt), (.stomp, .stomp), (.xmpp, .xmpp): .expected
        case (.httpRequest, _) where expected.isWeb, (.httpResponse, _) where expected.isWeb: .expected
        // A length that is larger than the limit, which the error says already.
        case (.unknown, .framedTCP): .expected
        // A method, a version or a command that is misspelt, most likely.
        case (.unknown(let bytes), .webSocket), (.unknown(let bytes), .mqttWebSocket), (.unknown(let bytes), .http),
            (.unknown(let bytes), .stomp), (.unknown(let bytes), .stompWebSocket), (.unknown(let bytes), .xmpp):
            bytes.first.map { $0 > 0x20 && $0 < 0x7f } ?? true ? .expected : .possiblyForeign
        case (.unknown, .mqtt), (.framedTCP(isCertain: false), _): .possiblyForeign
        case (.tls, _), (.httpRequest, _), (.httpResponse, _), (.mqtt, _), (.stomp, _), (.xmpp, _),
            (.framedTCP, _):
            .foreign
        }
    }

    /// Whether a server answers in the peer's own protocol (``answer(expected:isEncrypted:to:)``).
    package func isForeign(to expected: Expected) -> Bool { verdict(expected) != .expected }

    // MARK: For people

    /// A sentence that says what was seen, what was expected, and which setting to change.
    ///
    /// - Parameter isEncrypted: Whether the bytes came over TLS. The other protocol then has TLS too.
    package func sentence(expected: Expected, by role: CoreRole, isEncrypted: Bool) -> String {
        let peer = role == .client ? "the server" : "the client"
        let here = role == .client ? "this client" : "this listener"
        return switch self {
        case .tls where role == .client:
            "the server speaks TLS; this client speaks plain \(expected.name): use \(expected.encryptedScheme), or a port "
                + "of the server without TLS"
        case .tls:
            "the client speaks TLS; this listener is plain: use \(expected.scheme)"
        case .httpResponse(let line):
            "\(peer) speaks HTTP ('\(line)'); \(here) speaks \(expected.name): use "
                + (expected.overWebSocket.map { "\($0.scheme(isEncrypted: isEncrypted)) or " } ?? "")
                + "\(Expected.webSocket.scheme(isEncrypted: isEncrypted)) for a WebSocket server, or another port"
        case .httpRequest:
            "\(peer) speaks HTTP or WebSocket; \(here) speaks \(expected.name): use \(remedy(.webSocket, expected, role, isEncrypted))"
        case .mqtt:
            "\(peer) speaks MQTT; \(here) speaks \(expected.name): use \(remedy(.mqtt, expected, role, isEncrypted))"
        case .stomp:
            "\(peer) speaks STOMP; \(here) speaks \(expected.name): use \(remedy(.stomp, expected, role, isEncrypted))"
        case .xmpp:
            "\(peer) speaks XMPP; \(here) speaks \(expected.name): use \(remedy(.xmpp, expected, role, isEncrypted))"
        case .framedTCP(let isCertain):
            "\(peer) \(isCertain ? "speaks" : "may speak") framed TCP; \(here) speaks \(expected.name): use "
                + remedy(.framedTCP, expected, role, isEncrypted)
        case .unknown(let bytes):
            "\(peer) does not speak \(expected.name); its first bytes are \(Self.hexadecimal(bytes)): compare the "
                + "scheme and the port of both sides"
        }
    }

    /// A client can use the scheme of the server's protocol. The client of a server uses the scheme of this listener.
    private func remedy(_ theirs: Expected, _ expected: Expected, _ role: CoreRole, _ isEncrypted: Bool) -> String {
        role == .client
            ? "\(theirs.scheme(isEncrypted: isEncrypted)), or another port" : expected.scheme(isEncrypted: isEncrypted)
    }

    private static func hexadecimal(_ bytes: [UInt8]) -> String {
        guard !bytes.isEmpty else { return "none" }
        return "0x"
            + bytes.map { byte in
                let digits = String(byte, radix: 16)
                return digits.utf8.count == 1 ? "0\(digits)" : digits
            }.joined(separator: " ")
    }

    /// The error of a connection whose first bytes were `error` to the expected protocol. If the bytes are certainly of
    /// another protocol, the sentence replaces `error`. If that is possible, the sentence is added.
    package func error(
        insteadOf error: TransportError,
        expected: Expected,
        by role: CoreRole,
        isEncrypted: Bool
    ) -> TransportError {
        let sentence = sentence(expected: expected, by: role, isEncrypted: isEncrypted)
        switch verdict(expected) {
        case .expected: return error
        case .possiblyForeign:
            return TransportError(error.code, .handshake, "\(error.reason); \(sentence)", detail: error.detail)
        case .foreign: return foreignError(expected: expected, by: role, isEncrypted: isEncrypted)
        }
    }

    /// The error of a connection whose peer certainly speaks this protocol.
    package func foreignError(expected: Expected, by role: CoreRole, isEncrypted: Bool) -> TransportError {
        TransportError(
            .handshakeFailed,
            .handshake,
            sentence(expected: expected, by: role, isEncrypted: isEncrypted),
            detail: self == .tls ? TLSProblem.unexpectedTLS.rawValue : nil
        )
    }

    // MARK: For the peer

    /// Writes an answer of a server that a peer of this protocol can read: an HTTP response, a TLS alert, a close
    /// frame of framed TCP, an ERROR of STOMP, or a stream error of XMPP.
    ///
    /// - Parameter unixTime: the time of this machine in seconds since 1970; `nil` if it is not known.
    package func answer(expected: Expected, isEncrypted: Bool, to output: inout ByteBuffer, unixTime: Int64?) {
        let sentence = "this port speaks \(expected.name): use \(expected.scheme(isEncrypted: isEncrypted))"
        switch self {
        case .tls:
            // A fatal alert: unexpected_message (RFC 8446, section 6). A TLS server answers a ClientHello with others.
            output.append(contentsOf: [0x15, 3, 1, 0, 2, 2, 10])
        case .httpRequest:
            output.append(utf8: "HTTP/1.1 400 \(sentence)\r\n")
            output.append(date: unixTime)
            output.append(header: "Content-Type", "text/plain; charset=us-ascii")
            output.append(utf8: "Content-Length: \(sentence.utf8.count + 1)\r\nConnection: close\r\n\r\n\(sentence)\n")
        case .stomp:
            Self.refuse(sentence, &output)
        case .xmpp: XMPPStreamError.writeStream(sentence, to: &output)
        case .mqtt where expected == .xmpp: XMPPStreamError.writeStream(sentence, to: &output)
        case .mqtt where expected == .stomp:
            // A client of MQTT recognizes the ERROR as STOMP.
            Self.refuse(sentence, &output)
        case .framedTCP, .mqtt:
            // No answer of MQTT says that there is no broker. A client of MQTT recognizes the frame as framed TCP.
            ControlFrame.close(CloseReason(.protocolError, code: ClosePayload.unacceptableData, text: sentence))
                .write(to: &output)
        case .httpResponse, .unknown: break
        }
    }

    /// Writes an ERROR of STOMP.
    private static func refuse(_ sentence: String, _ output: inout ByteBuffer) {
        STOMPFrameWriter.write(STOMPFrame(.error, [STOMPHeader("message", sentence)]), into: &output)
    }
}
