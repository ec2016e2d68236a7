import TransportAPI

/// An attribute of an element. Its name has the prefix with which it was written.
package struct XMPPAttribute: Sendable, Hashable {
    /// The name, such as `to` or `xml:lang`.
    package var name: String
    /// The value, without references.
    package var value: String

    /// Creates an attribute.
    package init(_ name: String, _ value: String) {
        (self.name, self.value) = (name, value)
    }
}

/// An element of a stream: a stanza, an element inside one, or the start tag of the stream itself.
package struct XMPPElement: Sendable, Hashable {
    /// The name without its prefix.
    package var name: String
    /// The namespace, which its prefix or the default stands for; empty for none.
    package var namespace: String
    /// The attributes without declarations of namespaces, in their order.
    package var attributes: [XMPPAttribute] = []
    /// The elements inside, in their order.
    package var children: [XMPPElement] = []
    /// The text directly inside, in UTF-8 and without references.
    package var text: [UInt8] = []

    /// Creates an element without content.
    package init(_ name: String, _ namespace: String) {
        (self.name, self.namespace) = (name, namespace)
    }

    /// The value of the attribute of this name; `nil` if there is none.
    package subscript(_ name: String) -> String? {
        attributes.first { $0.name.hasSameBytes(as: name) }?.value
    }

    /// Whether it has this name in this namespace.
    package func isNamed(_ name: String, _ namespace: String) -> Bool {
        self.name.hasSameBytes(as: name) && self.namespace.hasSameBytes(as: namespace)
    }

    /// The first element of this name inside; `nil` if there is none.
    package func child(_ name: String, _ namespace: String) -> XMPPElement? {
        children.first { $0.isNamed(name, namespace) }
    }

    /// The text as a string, shortened for errors.
    var excerpt: String { String(excerptOf: text, limit: 200) }
}

extension String {
    /// Whether both have the same bytes. `==` also finds characters equal that only look the same.
    func hasSameBytes(as other: String) -> Bool {
        utf8.count == other.utf8.count && utf8.elementsEqual(other.utf8)
    }
}

/// The namespaces of this package's streams.
package enum XMPPNamespace {
    /// The stream itself, its features and its errors.
    package static let stream = "http://etherx.jabber.org/streams"
    /// The stanzas of a client.
    package static let client = "jabber:client"
    /// Authentication.
    package static let sasl = "urn:ietf:params:xml:ns:xmpp-sasl"
    /// The offer of STARTTLS, which this package does not take.
    package static let startTLS = "urn:ietf:params:xml:ns:xmpp-tls"
    /// Binding of a resource.
    package static let bind = "urn:ietf:params:xml:ns:xmpp-bind"
    /// Conditions of stream errors.
    package static let streamErrors = "urn:ietf:params:xml:ns:xmpp-streams"
    /// Conditions of errors of stanzas.
    package static let stanzaErrors = "urn:ietf:params:xml:ns:xmpp-stanzas"
    /// Stream management (XEP-0198).
    package static let management = "urn:xmpp:sm:3"
    /// Pings of entities (XEP-0199).
    package static let ping = "urn:xmpp:ping"
    /// The payloads of this package that are no text of XML (Docs/reference/xmpp.md).
    package static let payload = "urn:im-transports:payload:1"
}

/// Why a stream has to end: what its stream error says, and the error of this side.
struct XMPPFault: Error {
    /// The condition of the stream error (RFC 6120, section 4.9.3).
    var condition: String
    /// The code of this side's error.
    var code: TransportError.Code
    /// What was seen, and what was expected.
    var sentence: String

    init(_ condition: String, _ sentence: String, code: TransportError.Code = .protocolViolation) {
        (self.condition, self.code, self.sentence) = (condition, code, sentence)
    }

    /// XML that no document may contain.
    static func malformed(_ sentence: String) -> XMPPFault { XMPPFault("not-well-formed", sentence) }

    /// XML that a stream may not contain (RFC 6120, section 11.1).
    static func restricted(_ seen: String) -> XMPPFault {
        XMPPFault("restricted-xml", "the peer sent \(seen), which no stream of XMPP may contain")
    }

    /// More than a limit allows.
    static func excess(_ sentence: String) -> XMPPFault {
        XMPPFault("policy-violation", sentence, code: .messageTooLarge)
    }
}
