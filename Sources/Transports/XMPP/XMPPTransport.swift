import Protocols
import SocketIO
import TransportAPI

extension TransportDescriptor {
    /// The descriptor of XMPP without TLS: `xmpp://host/?to=bob@example.org`. An account is allowed to a loopback address
    /// only, because its password would be readable.
    public static let xmpp = xmpp(nil)

    /// The descriptor of XMPP over TLS from the first byte on (XEP-0368):
    /// `xmpps://user:password@host/?to=bob@example.org`. It needs OpenSSL 3 on the machine.
    public static let xmppTLS = xmpp(.openSSL)

    /// Returns the descriptor of XMPP.
    ///
    /// - Parameter security: How connections are encrypted; `nil` for the plain transport.
    static func xmpp(_ security: StreamSecurity?) -> TransportDescriptor {
        var descriptor = TransportDescriptor.stream(
            security == nil ? "xmpp" : "xmpps",
            // The registered port of clients, and the one that servers use for direct TLS.
            defaultPort: security == nil ? 5222 : 5223,
            keepalive: .seconds(60),
            security: security,
            clientSettings: XMPPClientSettings.list,
            serverSettings: XMPPServerSettings.list,
            client: { (endpoint, settings) throws(TransportError) in
                let core = try XMPPClientCore(
                    settings.own.configuration(
                        endpoint,
                        settings.limits,
                        isEncrypted: security != nil
                    )
                )
                return { core }
            },
            server: { (_, settings, _) throws(TransportError) in
                var configuration = settings.own.configuration
                configuration.closeTimeout = settings.limits.closeTimeout
                let core = try XMPPServerCore(configuration)
                return { client in
                    var core = core
                    core.isPeerLocal = client.isLocal
                    return core
                }
            },
            prepare: { $0.prepare($1) }
        )
        descriptor.annotate = annotateStanza
        descriptor.hasPath = false
        descriptor.isOnRequest = true
        descriptor.encryptedName = security == nil ? "xmpps" : nil
        return descriptor
    }

    /// The tags of a message around its payload. Base64 is one field.
    @Sendable
    static func annotateStanza(_ reader: inout WireFieldReader) {
        reader.take(length(before: ">", reader) + 1, "the start tag of the message")
        let isBase64 = reader.text(5) == "<data"
        reader.take(length(before: ">", reader) + 1, "the start tag of the payload")
        let content = length(before: "<", reader)
        if isBase64 {
            reader.take(content, "the payload in base64")
            reader.take(reader.left, "the end tags, and the request for an acknowledgement")
        } else {
            reader.trailing = reader.left - content
        }
    }

    /// How many bytes come before the next one of this kind.
    private static func length(before character: Unicode.Scalar, _ reader: borrowing WireFieldReader) -> Int {
        var length = 0
        while length < reader.left, reader.peek(length) != UInt8(ascii: character) { length += 1 }
        return length
    }
}
