import EmbeddedServers
import TestSupport
import Testing
import TransportAPI

/// Tests hostile clients that use XMPP, and those that flood a server with what keeps other connections alive.
@Suite("Clients that attack a server of XMPP", .timeLimit(.minutes(5)), .ownThread)
struct HostileStreamTests {
    private static let header =
        "<stream:stream to='localhost' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>"
    private static let anonymous = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='ANONYMOUS'/>"

    private static func binding(_ resource: String) -> String {
        "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>\(resource)</resource></bind></iq>"
    }

    private static let opening = header + anonymous + header + binding("r") + "<enable xmlns='urn:xmpp:sm:3'/>"

    private static func repeated(_ text: String, _ count: Int) -> String { String(repeating: text, count: count) }

    private static let attacks: [(name: String, text: String, code: TransportError.Code)] = [
        ("text before the stream", "hello, world", .protocolViolation),
        (
            "entities", "<?xml version='1.0'?><!DOCTYPE l [<!ENTITY l 'lol'><!ENTITY m '&l;&l;'>]>",
            .protocolViolation
        ),
        ("an entity in a stanza", opening + "<message><body>&lol9;</body></message>", .protocolViolation),
        ("an endless tag of the stream", "<stream:stream x='" + repeated("A", 20_000), .messageTooLarge),
        ("an endless stanza", opening + "<message><body>" + repeated("A", 90_000), .messageTooLarge),
        ("deep elements", opening + repeated("<a>", 17), .messageTooLarge),
        ("many elements", opening + "<message>" + repeated("<a/>", 256), .messageTooLarge),
        (
            "many attributes",
            opening + "<message" + (0..<33).map { " a\($0)=''" }.joined() + "/>", .messageTooLarge
        ),
        (
            "namespaces within namespaces",
            opening + "<message xmlns:a='u' xmlns:b='u' xmlns:c='u'>"
                + (0..<15).map { number in "<e" + (0..<3).map { " xmlns:n\(number)x\($0)='u'" }.joined() + ">" }
                .joined()
                + repeated("</e>", 15) + "</message>", .messageTooLarge
        ),
        ("more acknowledgements than stanzas", opening + "<a xmlns='urn:xmpp:sm:3' h='9'/>", .protocolViolation),
        (
            "a wrong account",
            header + "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>?</auth>", .authenticationFailed
        ),
        ("a long domain", header.replacing("localhost", with: repeated("d", 1024)), .messageTooLarge),
        ("a long resource", header + anonymous + header + binding(repeated("'", 1024)), .messageTooLarge),
        (
            "a long address of the partner",
            opening + "<message to='\(repeated("x", 3072))'><body>a</body></message>", .messageTooLarge
        ),
    ]

    @Test("A server ends a client that sends what no stream may contain, or what exceeds a limit", arguments: attacks)
    func refused(name: String, text: String, code: TransportError.Code) async throws {
        let error = try await ending("xmpp", "max-message=10000") { await $0.send(Array(text.utf8)) }
        #expect(error.code == code, "\(name): \(error)")
    }

    private static let floods = [
        ("xmpp", "", " "), ("xmpp", opening, "\n"), ("xmpp", opening, "<r xmlns='urn:xmpp:sm:3'/>"),
        ("xmpp", opening, "<a xmlns='urn:xmpp:sm:3' h='0'/>"),
        ("xmpp", opening, "<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>"),
        ("xmpp", header + anonymous + header + binding("r"), "<iq type='set' id='p'/>"),
        ("stomp", "", "\n"),
        ("stomp", "CONNECT\naccept-version:1.2\nhost:h\n\n\0", "\n"),
        ("stomp", "CONNECT\naccept-version:1.2\nhost:h\n\n\0", "\r\n"),
    ]

    @Test("A server closes a client that floods it with signs of life", arguments: floods)
    func flood(transport: String, opening: String, sign: String) async throws {
        let error = try await ending(transport, "control-rate=100") { hostile in
            await hostile.send(Array(opening.utf8))
            await hostile.flood(Array(Self.repeated(sign, 10_000).utf8))
        }
        #expect(error.code == .tooManyRequests)
    }
}
