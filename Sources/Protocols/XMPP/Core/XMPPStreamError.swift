import TransportAPI

/// A stream error of the peer (RFC 6120, section 4.9) as an error of this package.
struct XMPPStreamError {
    private let condition: String
    private let text: String

    /// Reads the element of the error.
    init(_ element: XMPPElement) {
        let own = element.children.filter { $0.namespace.hasSameBytes(as: XMPPNamespace.streamErrors) }
        let condition = own.first { !$0.name.hasSameBytes(as: "text") }
        self.condition = condition.map { String(excerptOf: $0.name.utf8) } ?? "undefined-condition"
        text = own.first { $0.name.hasSameBytes(as: "text") }?.excerpt ?? ""
    }

    /// The conditions of a server that has a problem of its own, which passes.
    private static let passing = [
        "connection-timeout", "internal-server-error", "remote-connection-failed", "reset", "resource-constraint",
        "system-shutdown",
    ]

    /// The error of the connection.
    func error(in phase: TransportError.Phase) -> TransportError {
        let said = text.isEmpty ? condition : "\(condition): \(text)"
        var code = TransportError.Code.closedByPeer
        var advice = ""
        if phase == .handshake {
            code = Self.passing.contains(condition) ? .serverUnavailable : .handshakeFailed
            if condition == "host-unknown" { advice = "; the option 'domain' names the domain of the account" }
        }
        var error = TransportError(code, phase, "the peer ended the stream with an error (\(said))\(advice)")
        // No device on the path speaks XMPP.
        error.origin = .peer
        return error
    }

    /// Writes a stream error. The end of the stream has to follow.
    static func write(_ condition: String, _ text: String, to output: inout ByteBuffer) {
        output.append(utf8: "<stream:error><\(condition) xmlns='\(XMPPNamespace.streamErrors)'/>")
        if !text.isEmpty {
            output.append(utf8: "<text xmlns='\(XMPPNamespace.streamErrors)'>")
            XMPPWriter.append(escaped: String(excerptOf: text.utf8, limit: 500).utf8, to: &output)
            output.append(utf8: "</text>")
        }
        output.append(utf8: "</stream:error>")
    }

    /// Writes a whole stream that consists of an error, for a peer that speaks XMPP at the port of another protocol.
    static func writeStream(_ text: String, to output: inout ByteBuffer) {
        output.append(utf8: "<?xml version='1.0'?><stream:stream version='1.0' xmlns='\(XMPPNamespace.client)' ")
        output.append(utf8: "xmlns:stream='\(XMPPNamespace.stream)'>")
        write("undefined-condition", text, to: &output)
        output.append(utf8: "</stream:stream>")
    }
}
