import TransportAPI

@testable import Protocols

/// Reads a stream in any slices.
func fuzzXMPPStream(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let choice = input.choice()
    var limits = XMPPStreamReader.Limits()
    if input.flag() {
        (limits.stanza, limits.tag, limits.depth, limits.elements, limits.attributes) = (200, 120, 3, 5, 4)
        limits.namespaces = 2
    }
    let isOpen = input.flag()
    let stream = (isOpen ? Array(xmppHeader.utf8) : []) + input.rest
    let whole = try readStream(stream[...], .whole, limits)
    let sliced = try readStream(stream[...], Slicing(max(choice, 1)), limits)
    try ensure(whole == sliced, "sliced \(choice): \(sliced) instead of \(whole)")
    for case .element(let element) in whole.parts {
        var elements = 0
        try check(element, limits, depth: 1, &elements)
    }
}

private let xmppHeader =
    "<?xml version='1.0'?><stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>"

private struct ReadStream: Equatable {
    var parts: [XMPPStreamReader.Part] = []
    var condition: String?
    var sentence: String?
}

private func readStream(
    _ bytes: ArraySlice<UInt8>,
    _ slicing: Slicing,
    _ limits: XMPPStreamReader.Limits
) throws -> ReadStream {
    var (read, slicing) = (ReadStream(), slicing)
    var input = ByteBuffer()
    var reader = XMPPStreamReader(limits)
    do throws(XMPPFault) {
        for slice in slicing.slices(of: bytes) {
            input.append(contentsOf: Array(slice))
            while let part = try reader.next(&input) { read.parts.append(part) }
            if reader.bufferedBytes > 2 * limits.stanza + 64 { break }
        }
    } catch {
        (read.condition, read.sentence) = (error.condition, error.sentence)
    }
    try ensure(reader.bufferedBytes <= 2 * limits.stanza + 64, "\(reader.bufferedBytes) bytes are buffered")
    if read.condition == nil { try ensure(input.isEmpty, "\(input.count) bytes are left unread") }
    return read
}

private func check(
    _ element: XMPPElement,
    _ limits: XMPPStreamReader.Limits,
    depth: Int,
    _ elements: inout Int
) throws {
    elements += 1
    try ensure(depth <= limits.depth, "\(depth) levels")
    try ensure(elements <= limits.elements, "\(elements) elements")
    try ensure(element.attributes.count <= limits.attributes, "\(element.attributes.count) attributes")
    for child in element.children { try check(child, limits, depth: depth + 1, &elements) }
}

/// Runs a client.
func fuzzXMPPClient(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    var configuration = XMPPConfiguration(domain: "h")
    if input.flag() { (configuration.user, configuration.password) = ("a", "b") }
    configuration.requestsManagement = input.flag()
    configuration.partner = input.choice(of: [nil, "b@h"])
    configuration.maximumInFlight = input.choice(of: [256, 1])
    configuration.maximumMessageSize = input.choice(of: [1000, 10])
    configuration.keepalive = input.choice(of: [nil, .seconds(1)])
    let slicing = input.choice()
    let isOpen = input.flag()
    let mechanisms = "<mechanism>PLAIN</mechanism><mechanism>ANONYMOUS</mechanism>"
    let opening =
        "\(xmppHeader)<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>\(mechanisms)</mechanisms>"
        + "</stream:features><success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>\(xmppHeader)<stream:features>"
        + "<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/><sm xmlns='urn:xmpp:sm:3'/></stream:features>"
        + "<iq type='result' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>a@h/r</jid></bind></iq>"
        + (configuration.requestsManagement ? "<enabled xmlns='urn:xmpp:sm:3'/>" : "")
    let steps = (isOpen ? [.feed(Array(opening.utf8)[...])] : []) + input.steps(topic: "t")
    try runSliced({ try XMPPClientCore(configuration) }, steps, slicing, inputLimit: 0) { core in
        try ensure(core.bufferedBytes <= 256 << 10, "\(core.bufferedBytes) bytes are buffered")
    }
}

/// Runs a server.
func fuzzXMPPServer(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    var configuration = XMPPServerConfiguration()
    configuration.offersManagement = input.flag()
    configuration.maximumInFlight = input.choice(of: [256, 1])
    configuration.maximumMessageSize = input.choice(of: [1000, 10])
    if input.flag() { configuration.authentication = { user, _ in user == nil || user == "a" } }
    let isLocal = input.flag()
    let slicing = input.choice()
    let isOpen = input.flag()
    let opening =
        "\(xmppHeader)<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='ANONYMOUS'/>\(xmppHeader)"
        + "<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq><enable xmlns='urn:xmpp:sm:3'/>"
    let steps = (isOpen ? [.feed(Array(opening.utf8)[...])] : []) + input.steps(topic: "t")
    let make = {
        var core = try XMPPServerCore(configuration)
        core.isPeerLocal = isLocal
        return core
    }
    try runSliced(make, steps, slicing, inputLimit: 0) { core in
        try ensure(core.bufferedBytes <= 256 << 10, "\(core.bufferedBytes) bytes are buffered")
    }
}
