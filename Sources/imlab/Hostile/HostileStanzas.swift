import TransportAPI

// The output of hostile clients of a server of XMPP (RFC 6120, XEP-0198).
extension HostileScript {
    /// The scripts of a kind over XMPP, between which its clients alternate; empty if there is no such kind.
    static func xmpp(_ kind: HostileKind) -> [HostileScript] {
        switch kind {
        case .halfOpen: return [HostileScript()]
        case .slowHeaders: return [sending("<stream:stream x='", then: "A", pace: 100_000_000)]
        case .neverReading:
            var script = loading(stanza)
            script.reads = false
            return [script]
        case .messageFlood: return [loading(stanza)]
        case .pingFlood:
            return [
                loading("<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>"),
                loading("<r xmlns='urn:xmpp:sm:3'/>"), loading(nothingAcknowledged), loading("<presence/>"),
                sending(bound(to: "r"), then: repeated("<iq type='set' id='p'/>")),
            ]
        case .blankFlood: return [loading(" "), sending("", then: repeated(" "))]
        case .garbageFlood: return [sending("", then: repeated("hello, world\n"))]
        case .endlessHeaders:
            return [
                sending("<stream:stream x='", then: repeated("A")), sending("<?xml version='1.0'", then: repeated(" ")),
            ]
        case .endlessBody: return ["A", "<![CDATA[<]]>"].map { loading($0, after: "<message><body>") }
        case .deepNesting: return [loading("<a>"), loading("<a/>", after: "<message>")]
        case .endlessAttributes:
            return [loading(" a='b'", after: "<message"), loading(manyAttributes), loading(innerNamespaces)]
        case .entityExpansion:
            return [
                sending(laughs, then: repeated("<!ENTITY x '&y;&y;'>")),
                loading("<message><body>&lol9;</body></message>"), loading("<message to='&lol9;'/>"),
            ]
        case .passwordGuessing: return guesses.map { sending(header, then: repeated($0)) }
        case .longAddress:
            return [
                sending(handshake(resource: quotes(60_000)), then: repeated(stanza)),
                loading("<message to='\(String(repeating: "x", count: 16_000))'><body>A</body></message>"),
            ]
        case .costlyStanzas:
            let alternating = ["a", "b"].map { "<message to='\($0)'><body>A</body></message>" }.joined()
            return [loading(lookups), sending(handshake(resource: quotes(1023)), then: repeated(alternating))]
        case .falseAcknowledgement: return [loading("<a xmlns='urn:xmpp:sm:3' h='1000'/>")]
        case .neverAcknowledging:
            let received = handshake(resource: "r") + stanza
            return [sending(received), sending(received, then: nothingAcknowledged, pace: 50_000_000)]
        default: return []
        }
    }

    private static func sending(_ opening: String, then load: String = "", pace: Int64 = 0) -> HostileScript {
        HostileScript(opening: Array(opening.utf8), load: Array(load.utf8), pace: pace)
    }

    /// A client that repeats a text in its open stream, which it begins with another one.
    private static func loading(_ text: String, after begun: String = "") -> HostileScript {
        sending(handshake(resource: "r") + begun, then: repeated(text))
    }

    private static func repeated(_ text: String) -> String {
        String(repeating: text, count: max(1, batch / text.utf8.count))
    }

    // MARK: Streams

    private static let header =
        "<stream:stream to='localhost' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>"

    /// All that a client sends until its stream is open, with acknowledgements. It does not wait for the answers.
    private static func handshake(resource: String) -> String {
        bound(to: resource) + "<enable xmlns='urn:xmpp:sm:3'/>"
    }

    /// All of it but the request for acknowledgements, which opens the stream.
    private static func bound(to resource: String) -> String {
        "\(header)<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='ANONYMOUS'/>\(header)<iq type='set' id='b'>"
            + "<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>\(resource)</resource></bind></iq>"
    }

    // MARK: Stanzas

    private static let stanza = "<message to='x@localhost'><body>\(String(repeating: "A", count: 64))</body></message>"

    private static let nothingAcknowledged = "<a xmlns='urn:xmpp:sm:3' h='0'/>"

    /// Authentication without a password, and by a mechanism that no server of this package offers.
    private static let guesses = [guess("PLAIN", "AGFubg=="), guess("SCRAM-SHA-1", "biwsbj1hbm4scj1hYmM=")]

    private static func guess(_ mechanism: String, _ response: String) -> String {
        "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='\(mechanism)'>\(response)</auth>"
    }

    /// A document type whose last entity would be ten to the ninth power of three letters, and that goes on.
    private static let laughs =
        "<?xml version='1.0'?><!DOCTYPE lolz [<!ENTITY lol0 'lol'>"
        + (1...9).map { number in
            "<!ENTITY lol\(number) '\(String(repeating: "&lol\(number - 1);", count: 10))'>"
        }.joined()

    /// A stanza with more attributes than are allowed.
    private static let manyAttributes = "<message" + (0..<100).map { " a\($0)=''" }.joined() + "/>"

    /// A stanza whose elements declare few namespaces each, but many together.
    private static let innerNamespaces =
        "<message>"
        + (0..<15).map { level in "<e" + (0..<30).map { " xmlns:n\(level)x\($0)='u'" }.joined() + ">" }.joined()
        + String(repeating: "</e>", count: 15) + "</message>"

    /// A message with as many namespaces as are allowed, and nearly as many elements, whose names are looked up among them.
    private static let lookups =
        "<message to='x@localhost'><a" + (0..<32).map { " xmlns:n\($0)='u'" }.joined() + ">"
        + String(repeating: "<b/>", count: 250) + "</a><body>A</body></message>"

    /// Characters that are six times as long in an attribute that a server writes.
    private static func quotes(_ count: Int) -> String { String(repeating: "'", count: count) }
}
