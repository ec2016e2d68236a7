import TestSupport
import Testing
import TransportAPI

@testable import Protocols

@Suite("XMPP client")
struct XMPPClientTests {
    @Test("The handshake writes a stream, PLAIN, a binding, the request for acknowledgements and presence")
    func handshake() throws {
        var client = try xmppClient {
            ($0.user, $0.password, $0.resource) = ("ann", "secret", "phone")
        }
        client.start()
        let header =
            "<?xml version='1.0'?>\n<stream:stream to='example.org' version='1.0' xmlns='jabber:client' "
            + "xmlns:stream='http://etherx.jabber.org/streams'>"
        #expect(client.takeXMPP() == header)
        client.feed(xmpp: serverOpening[0])
        #expect(
            client.takeXMPP()
                == "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGFubgBzZWNyZXQ=</auth>"
        )
        client.feed(xmpp: serverOpening[1])
        #expect(client.takeXMPP() == header)
        client.feed(xmpp: serverOpening[2])
        #expect(
            client.takeXMPP() == "<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>"
                + "<resource>phone</resource></bind></iq>"
        )
        client.feed(xmpp: serverOpening[3])
        #expect(client.takeXMPP() == "<enable xmlns='urn:xmpp:sm:3'/><presence/>")
        #expect(client.isOpen == false)
        client.feed(xmpp: "<enabled xmlns='urn:xmpp:sm:3' id='x' resume='true'/>")
        #expect(client.isOpen && client.failure == nil && client.core.address == "ann@example.org/one")
        #expect(client.core.capabilities.hasNativePing && !client.core.capabilities.acknowledgesMessages)
    }

    @Test("A server without acknowledgements, or one that refuses them, opens a connection without")
    func withoutManagement() throws {
        var client = try xmppClient()
        client.start()
        for text in serverOpening { client.feed(xmpp: text.replacing("<sm xmlns='urn:xmpp:sm:3'/>", with: "")) }
        #expect(client.isOpen && !client.core.capabilities.hasNativePing)
        #expect(client.takeXMPP().hasSuffix("</iq><presence/>") || client.takeXMPP().isEmpty)
        #expect(try client.send(Payload(text: "x"), id: 1) == .written)
        var refused = try xmppClient()
        refused.start()
        for text in serverOpening { refused.feed(xmpp: text) }
        refused.feed(xmpp: "<failed xmlns='urn:xmpp:sm:3'/>")
        #expect(refused.isOpen && !refused.core.capabilities.acknowledgesMessages)
        #expect(codeOf { () throws(TransportError) in try refused.core.ping(&refused.context) } == .unsupported)
    }

    @Test("Text is a body, and other bytes are base64")
    func payloads() throws {
        var client = try openXMPPClient(isManaged: false) { $0.partner = "bob's@example.org" }
        _ = try client.send(Payload(text: "a < b & c > 'd' \"e\""), id: 1)
        _ = try client.send(Payload([0, 1, 2, 255]), id: 2)
        _ = try client.send(Payload(text: "line\r\n"), id: 3)
        _ = try client.send(Payload([]), id: 4)
        let head = "<message type='chat' to='bob&apos;s@example.org' id="
        #expect(
            client.takeXMPP() == "\(head)'1'><body>a &lt; b &amp; c &gt; 'd' \"e\"</body></message>"
                + "\(head)'2'><data xmlns='urn:im-transports:payload:1'>AAEC/w==</data></message>"
                + "\(head)'3'><data xmlns='urn:im-transports:payload:1' kind='text'>bGluZQ0K</data></message>"
                + "\(head)'4'><data xmlns='urn:im-transports:payload:1'></data></message>"
        )
    }

    @Test("Messages of the partner are reported, and those of others are not")
    func receives() throws {
        var client = try openXMPPClient { $0.partner = "Bob@example.org" }
        client.feed(
            xmpp: "<message from='bob@Example.org/x' type='chat'><body>one</body><active xmlns='urn:c'/></message>"
                + "<message from='eve@example.org/x' type='chat'><body>two</body></message>"
                + "<message><data xmlns='urn:im-transports:payload:1'>AAE=</data></message>"
                + "<message from='bob@example.org' type='groupchat'><body>three</body></message>"
                + "<message from='bob@example.org'><composing xmlns='urn:c'/></message>",
            slice: 9
        )
        #expect(client.messages.map(\.bytes) == [Array("one".utf8), [0, 1]])
        #expect(client.messages.map(\.kind) == [.text, .binary])
        client.feed(xmpp: "<r xmlns='urn:xmpp:sm:3'/>")
        #expect(client.takeXMPP() == "<a xmlns='urn:xmpp:sm:3' h='5'/>" && client.failure == nil)
    }

    @Test("One request for acknowledgements is on its way while messages wait, and the window blocks")
    func acknowledgements() throws {
        var client = try openXMPPClient { $0.maximumInFlight = 3 }
        for id in 1...3 { #expect(try client.send(Payload(text: "x"), id: UInt64(id)) == .awaitingAcknowledgement) }
        #expect(try client.send(Payload(text: "x"), id: 4) == .blocked)
        #expect(client.takeXMPP().components("<r ") == 1)
        // Presence is the first stanza.
        client.feed(xmpp: "<a xmlns='urn:xmpp:sm:3' h='2'/>")
        #expect(client.acknowledgedIDs == [1] && client.takeXMPP() == "<r xmlns='urn:xmpp:sm:3'/>")
        client.feed(xmpp: "<a xmlns='urn:xmpp:sm:3' h='4'/>")
        #expect(client.acknowledgedIDs == [1, 2, 3] && client.takeXMPP().isEmpty)
        client.feed(xmpp: "<a xmlns='urn:xmpp:sm:3' h='5'/>")
        #expect(client.failure?.code == .protocolViolation)
        #expect(client.takeXMPP().hasSuffix("</stream:error></stream:stream>"))
    }

    @Test("A request is a ping, and a missing answer ends the connection")
    func ping() throws {
        var client = try openXMPPClient()
        let first = try client.core.ping(&client.context)
        let second = try client.core.ping(&client.context)
        #expect(client.takeXMPP().components("<r ") == 2)
        client.feed(xmpp: "<a xmlns='urn:xmpp:sm:3' h='1'/>")
        #expect(client.pongs == [first])
        client.feed(xmpp: "<a xmlns='urn:xmpp:sm:3' h='1'/>")
        #expect(client.pongs == [first, second])
        _ = try client.send(Payload(text: "x"), id: 1)
        client.advance(by: .seconds(31))
        #expect(client.failure?.code == .acknowledgementTimeout)
    }

    @Test("A peer that answers without acknowledging is asked again after a pause, and has no more time")
    func withheld() throws {
        var client = try openXMPPClient()
        // Presence is the first stanza.
        let (nothing, everything) = ("<a xmlns='urn:xmpp:sm:3' h='1'/>", "<a xmlns='urn:xmpp:sm:3' h='2'/>")
        client.feed(xmpp: nothing)
        _ = try client.send(Payload(text: "x"), id: 1)
        client.feed(xmpp: nothing)
        client.advance(by: .milliseconds(999))
        #expect(client.takeXMPP().components("<r ") == 1 && client.context.counters.controlWork == 0)
        client.advance(by: .milliseconds(1))
        #expect(client.takeXMPP() == "<r xmlns='urn:xmpp:sm:3'/>")
        client.feed(xmpp: everything)
        #expect(client.acknowledgedIDs == [1])
        client.advance(by: .seconds(60))
        #expect(client.failure == nil && client.takeXMPP().isEmpty)

        _ = try client.send(Payload(text: "x"), id: 2)
        for _ in 0..<29 {
            client.feed(xmpp: everything)
            client.context.outputMoved = client.context.now
            client.advance(by: .seconds(1))
        }
        #expect(client.failure == nil && client.takeXMPP().components("<r ") == 30)
        client.advance(by: .seconds(1))
        #expect(client.failure?.code == .acknowledgementTimeout)
    }

    @Test("Answers without a request, which acknowledge nothing, count as work of the peer")
    func unwantedAnswers() throws {
        var client = try openXMPPClient()
        _ = try client.send(Payload(text: "x"), id: 1)
        client.feed(xmpp: String(repeating: "<a xmlns='urn:xmpp:sm:3' h='0'/>", count: 100))
        #expect(client.context.counters.controlWork == 99 && client.takeXMPP().components("<r ") == 1)
        // White space of a server counts too, but not what keeps a connection alive.
        client.feed(
            xmpp: String(repeating: " ", count: 63) + "<presence/>" + String(repeating: "\n", count: 6400),
            slice: 7
        )
        #expect(client.context.counters.controlWork == 99 + 1 + 100 && client.failure == nil)
    }

    @Test("A request that was sent before a message is no request for it")
    func askedBefore() throws {
        var client = try openXMPPClient()
        let ping = try client.core.ping(&client.context)
        _ = try client.send(Payload(text: "x"), id: 1)
        #expect(client.takeXMPP().components("<r ") == 1)
        client.feed(xmpp: "<a xmlns='urn:xmpp:sm:3' h='1'/>")
        #expect(client.pongs == [ping] && client.takeXMPP() == "<r xmlns='urn:xmpp:sm:3'/>")
        client.feed(xmpp: "<a xmlns='urn:xmpp:sm:3' h='2'/>")
        #expect(client.acknowledgedIDs == [1])
    }

    @Test("A message that the server refuses has that outcome, and no other")
    func refusal() throws {
        var client = try openXMPPClient()
        _ = try client.send(Payload(text: "x"), id: 7)
        client.feed(
            xmpp: "<message type='error' id='1' from='bob@example.org'><error type='cancel'>"
                + "<item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>"
        )
        #expect(client.refusals.map(\.id) == [7] && client.refusals.first?.error.code == .notFound)
        client.feed(xmpp: "<a xmlns='urn:xmpp:sm:3' h='2'/>")
        #expect(client.acknowledgedIDs.isEmpty && client.failure == nil)
    }

    @Test("Requests of the server get an answer")
    func requests() throws {
        var client = try openXMPPClient()
        client.feed(
            xmpp: "<iq type='get' id='p' from='example.org'><ping xmlns='urn:xmpp:ping'/></iq>"
                + "<iq type='get' id='q'><query xmlns='jabber:iq:version'/></iq><iq type='result' id='r'/>"
        )
        #expect(
            client.takeXMPP() == "<iq type='result' id='p' to='example.org'/><iq type='error' id='q'>"
                + "<error type='cancel'><service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
        )
    }

    @Test("White space keeps a connection without acknowledgements alive")
    func keepalive() throws {
        var client = try openXMPPClient(isManaged: false) { $0.keepalive = .seconds(20) }
        client.advance(by: .seconds(19))
        #expect(client.takeXMPP().isEmpty)
        client.advance(by: .seconds(41))
        #expect(client.takeXMPP() == "   ")
        var managed = try openXMPPClient { $0.keepalive = .seconds(20) }
        managed.advance(by: .seconds(60))
        #expect(managed.takeXMPP().isEmpty)
    }

    @Test("A close ends both streams, and asks for what is not acknowledged")
    func close() throws {
        var client = try openXMPPClient()
        _ = try client.send(Payload(text: "x"), id: 1)
        client.feed(xmpp: "<message><body>hi</body></message>")
        _ = client.takeXMPP()
        client.core.close(.user, &client.context)
        #expect(
            client.takeXMPP() == "<a xmlns='urn:xmpp:sm:3' h='1'/><r xmlns='urn:xmpp:sm:3'/></stream:stream>"
        )
        client.feed(xmpp: "<a xmlns='urn:xmpp:sm:3' h='2'/></stream:stream>")
        #expect(client.acknowledgedIDs == [1] && client.closeReason == .user && client.takeXMPP().isEmpty)
        var other = try openXMPPClient()
        other.feed(xmpp: "</stream:stream>")
        #expect(other.closeReason?.initiator == .peer && other.takeXMPP() == "</stream:stream>")
        var silent = try openXMPPClient()
        silent.core.close(.user, &silent.context)
        silent.advance(by: .seconds(6))
        #expect(silent.closeReason?.error?.code == .timedOut)
        var cut = try openXMPPClient()
        cut.feed(xmpp: "<message>")
        cut.endInput()
        #expect(cut.failure?.code == .connectionLost)
    }

    @Test("A server that refuses says why")
    func refused() throws {
        let cases: [(change: (inout XMPPConfiguration) -> Void, texts: [String], TransportError.Code, String)] = [
            (
                { $0.user = "ann" },
                [serverOpening[0], "<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><not-authorized/></failure>"],
                .authenticationFailed, "not-authorized"
            ),
            (
                { _ in }, [serverOpening[0].replacing("ANONYMOUS", with: "SCRAM-SHA-1")], .authenticationFailed,
                "PLAIN, SCRAM-SHA-1"
            ),
            (
                { _ in },
                [
                    streamHeader + "<stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'><required/>"
                        + "</starttls></stream:features>"
                ],
                .handshakeFailed, "STARTTLS"
            ),
            (
                { _ in },
                [
                    streamHeader + "<stream:error><host-unknown xmlns='urn:ietf:params:xml:ns:xmpp-streams'/>"
                        + "</stream:error></stream:stream>"
                ],
                .handshakeFailed, "domain"
            ),
            ({ _ in }, ["HTTP/1.1 400 Bad Request\r\n\r\n"], .handshakeFailed, "speaks HTTP"),
            ({ _ in }, [streamHeader.replacing("1.0", with: "0.9")], .handshakeFailed, "0.9"),
        ]
        for (change, texts, code, words) in cases {
            var client = try xmppClient(change)
            client.start()
            for text in texts { client.feed(xmpp: text) }
            #expect(
                client.failure?.code == code && client.failure?.reason.contains(words) == true,
                "\(client.failure as Any)"
            )
        }
        var late = try xmppClient()
        late.start()
        late.advance(by: .seconds(11))
        #expect(late.failure?.code == .timedOut)
    }

    @Test("A configuration that cannot be written is refused")
    func configuration() throws {
        let wrong: [(inout XMPPConfiguration) -> Void] = [
            { $0.domain = "" }, { $0.partner = "a\nb" }, { $0.user = "\u{FFFE}" }, { $0.password = "x" },
            { $0.maximumInFlight = 0 }, { $0.maximumMessageSize = 0 }, { $0.acknowledgementTimeout = .zero },
        ]
        for change in wrong {
            #expect(
                codeOf { () throws(TransportError) in
                    var configuration = XMPPConfiguration(domain: "a")
                    change(&configuration)
                    _ = try XMPPClientCore(configuration)
                } == .invalidConfiguration
            )
        }
    }
}

extension String {
    /// How often a text occurs.
    fileprivate func components(_ text: String) -> Int { ranges(of: text).count }
}
