import TestSupport
import Testing
import TransportAPI

@testable import Protocols

/// What Prosody 0.12.3 sent to a client on a socket, and what it was sent. Prosody had the modules `saslauth`, `smacks`, `ping` and
/// `roster`, and an account. Identifiers are its own.
private let capture: [(client: String, server: String)] = [
    (
        "<?xml version='1.0'?>\n<stream:stream to='localhost' version='1.0' xmlns='jabber:client' "
            + "xmlns:stream='http://etherx.jabber.org/streams'>",
        "<?xml version='1.0'?><stream:stream xml:lang='en' version='1.0' xmlns='jabber:client' "
            + "id='22f0579b-72af-4ba7-93d8-dbdda68a9a48' xmlns:stream='http://etherx.jabber.org/streams' "
            + "from='localhost'><stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>"
            + "<mechanism>SCRAM-SHA-1</mechanism><mechanism>PLAIN</mechanism><mechanism>"
            + "SCRAM-SHA-256</mechanism></mechanisms></stream:features>"
    ),
    (
        "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGFubgBzZWNyZXQ=</auth>",
        "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>"
    ),
    (
        "<?xml version='1.0'?>\n<stream:stream to='localhost' version='1.0' xmlns='jabber:client' "
            + "xmlns:stream='http://etherx.jabber.org/streams'>",
        "<?xml version='1.0'?><stream:stream xml:lang='en' version='1.0' xmlns='jabber:client' "
            + "id='4e031e1c-683c-4e48-9ba4-f0bf86681bfb' xmlns:stream='http://etherx.jabber.org/streams' "
            + "from='localhost'><stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><required/>"
            + "</bind><session xmlns='urn:ietf:params:xml:ns:xmpp-session'><optional/></session><ver "
            + "xmlns='urn:xmpp:features:rosterver'/><sm xmlns='urn:xmpp:sm:2'><optional/></sm><sm "
            + "xmlns='urn:xmpp:sm:3'><optional/></sm><sub xmlns='urn:xmpp:features:pre-approval'/>"
            + "</stream:features>"
    ),
    (
        "<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>",
        "<iq id='bind' type='result'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>"
            + "ann@localhost/qNi4i_wfj7-q</jid></bind></iq>"
    ),
    (
        "<enable xmlns='urn:xmpp:sm:3'/><presence/>",
        "<enabled xmlns='urn:xmpp:sm:3'/><presence from='ann@localhost/qNi4i_wfj7-q' xml:lang='en'/><r "
            + "xmlns='urn:xmpp:sm:3'/>"
    ),
    (
        "<a xmlns='urn:xmpp:sm:3' h='1'/><message type='chat' to='ann@localhost/qNi4i_wfj7-q' id='1'>"
            + "<body>a &lt; b &amp; 'q' \"d\" é</body></message><r xmlns='urn:xmpp:sm:3'/>",
        "<message xml:lang='en' type='chat' to='ann@localhost/qNi4i_wfj7-q' "
            + "from='ann@localhost/qNi4i_wfj7-q' id='1'><body>a &lt; b &amp; &apos;q&apos; &quot;d&quot; "
            + "é</body></message><a h='2' xmlns='urn:xmpp:sm:3'/><r xmlns='urn:xmpp:sm:3'/>"
    ),
    (
        "<a xmlns='urn:xmpp:sm:3' h='2'/><message type='chat' to='ann@localhost/qNi4i_wfj7-q' id='2'>"
            + "<data xmlns='urn:im-transports:payload:1'>AAEC/w==</data></message><r xmlns='urn:xmpp:sm:3'/>",
        "<message xml:lang='en' type='chat' to='ann@localhost/qNi4i_wfj7-q' "
            + "from='ann@localhost/qNi4i_wfj7-q' id='2'><data xmlns='urn:im-transports:payload:1'>"
            + "AAEC/w==</data></message><a h='3' xmlns='urn:xmpp:sm:3'/><r xmlns='urn:xmpp:sm:3'/>"
    ),
    (
        "<a xmlns='urn:xmpp:sm:3' h='3'/></stream:stream>",
        "<a h='3' xmlns='urn:xmpp:sm:3'/></stream:stream>"
    ),
]

@Suite("XMPP as Prosody speaks it")
struct XMPPCaptureTests {
    @Test("A client writes what Prosody understands, and reads what it answers", arguments: [Int.max, 1, 7])
    func prosody(slice: Int) throws {
        var client = try xmppClient {
            ($0.domain, $0.user, $0.password, $0.awaitsAcknowledgements) = ("localhost", "ann", "secret", true)
        }
        client.start()
        for (index, exchange) in capture.enumerated() {
            switch index {
            case 5: #expect(try client.send(Payload(text: "a < b & 'q' \"d\" é"), id: 1) == .awaitingAcknowledgement)
            case 6: #expect(try client.send(Payload([0, 1, 2, 255]), id: 2) == .awaitingAcknowledgement)
            case 7: client.core.close(.user, &client.context)
            default: break
            }
            #expect(client.takeXMPP() == exchange.client)
            client.feed(xmpp: exchange.server, slice: slice)
        }
        #expect(client.failure == nil && client.closeReason == .user && client.acknowledgedIDs == [1, 2])
        #expect(client.messages.map(\.bytes) == [Array("a < b & 'q' \"d\" é".utf8), [0, 1, 2, 255]])
        #expect(client.messages.map(\.kind) == [.text, .binary])
    }

    @Test("An embedded server understands what Prosody understands")
    func server() throws {
        var server = try xmppServer()
        server.start()
        // Nothing is returned to a client here, so there is nothing to acknowledge.
        for exchange in capture { server.feed(xmpp: exchange.client.replacing(/<a [^>]*>/, with: "")) }
        #expect(server.failure == nil && server.closeReason?.initiator == .peer)
        #expect(server.messages.map(\.bytes) == [Array("a < b & 'q' \"d\" é".utf8), [0, 1, 2, 255]])
    }
}
