import TestSupport
import TransportAPI

@testable import Protocols

/// Reads a stream that arrives `slice` bytes at a time. Returns its parts, and what ended them.
func readParts(
    _ text: String,
    slice: Int = .max,
    _ limits: XMPPStreamReader.Limits = .init()
) -> (parts: [XMPPStreamReader.Part], fault: XMPPFault?) {
    readParts(Array(text.utf8), slice: slice, limits)
}

/// Reads bytes of a stream.
func readParts(
    _ bytes: [UInt8],
    slice: Int = .max,
    _ limits: XMPPStreamReader.Limits = .init()
) -> (parts: [XMPPStreamReader.Part], fault: XMPPFault?) {
    var reader = XMPPStreamReader(limits)
    var input = ByteBuffer()
    var parts: [XMPPStreamReader.Part] = []
    var rest = bytes[...]
    do throws(XMPPFault) {
        repeat {
            input.append(contentsOf: Array(rest.prefix(slice)))
            rest = rest.dropFirst(slice)
            while let part = try reader.next(&input) { parts.append(part) }
        } while !rest.isEmpty
    } catch {
        return (parts, error)
    }
    return (parts, nil)
}

/// The start tag of a stream.
let streamHeader = "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>"

/// The first-level elements of a text inside a stream.
func readElements(_ text: String, slice: Int = .max) -> (elements: [XMPPElement], fault: XMPPFault?) {
    let (parts, fault) = readParts(streamHeader + text, slice: slice)
    return (parts.compactMap { if case .element(let element) = $0 { element } else { nil } }, fault)
}

typealias XMPPClientHarness = CoreHarness<XMPPClientCore>
typealias XMPPServerHarness = CoreHarness<XMPPServerCore>

func xmppClient(_ change: (inout XMPPConfiguration) -> Void = { _ in }) throws -> XMPPClientHarness {
    var configuration = XMPPConfiguration(domain: "example.org")
    change(&configuration)
    return XMPPClientHarness(try XMPPClientCore(configuration))
}

func xmppServer(
    isLocal: Bool = true,
    _ change: (inout XMPPServerConfiguration) -> Void = { _ in }
) throws -> XMPPServerHarness {
    var configuration = XMPPServerConfiguration()
    change(&configuration)
    var core = try XMPPServerCore(configuration)
    core.isPeerLocal = isLocal
    return XMPPServerHarness(core)
}

/// What a server sends up to the answer to the binding.
let serverOpening = [
    "<?xml version='1.0'?>\(streamHeader)"
        + "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>PLAIN</mechanism>"
        + "<mechanism>ANONYMOUS</mechanism></mechanisms></stream:features>",
    "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>",
    "<?xml version='1.0'?>\(streamHeader)"
        + "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/><sm xmlns='urn:xmpp:sm:3'/>"
        + "</stream:features>",
    "<iq type='result' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>ann@example.org/one</jid></bind></iq>",
]

/// A client whose server has accepted it. Its output is empty.
func openXMPPClient(
    isManaged: Bool = true,
    _ change: (inout XMPPConfiguration) -> Void = { _ in }
) throws -> XMPPClientHarness {
    var client = try xmppClient {
        ($0.requestsManagement, $0.awaitsAcknowledgements) = (isManaged, true)
        change(&$0)
    }
    client.start()
    for text in serverOpening { client.feed(Array(text.utf8)) }
    if isManaged { client.feed(Array("<enabled xmlns='urn:xmpp:sm:3'/>".utf8)) }
    _ = client.takeOutput()
    return client
}

extension CoreHarness {
    mutating func feed(xmpp text: String, slice: Int = .max) { feed(Array(text.utf8), slice: slice) }

    mutating func takeXMPP() -> String { String(decoding: takeOutput(), as: UTF8.self) }

    var acknowledgedIDs: [UInt64] {
        events.compactMap { if case .acknowledged(let id) = $0 { id } else { nil } }
    }

    var refusals: [(id: UInt64, error: TransportError)] {
        events.compactMap { if case .refused(let id, let error) = $0 { (id, error) } else { nil } }
    }
}
