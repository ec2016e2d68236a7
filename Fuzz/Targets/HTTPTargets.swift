import TransportAPI

@testable import Protocols
@testable import Transports

/// Reads the head of a request and of an answer, in any slices, and passes it to both sides of the handshake.
func fuzzHTTP(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let choice = input.choice()
    let configuration = input.webSocketConfiguration()
    let whole = readHead(input.rest, .whole)
    let sliced = readHead(input.rest, Slicing(max(choice, 1)))
    try ensure(whole == sliced, "sliced \(choice): \(sliced) instead of \(whole)")
    guard case .success(let head) = whole, let head else { return }
    try ensure(head.headers.count <= 100, "\(head.headers.count) headers")
    do throws(TransportError) {
        _ = try ClientHandshake.verify(head, key: "dGhlIHNhbXBsZSBub25jZQ==", configuration)
    } catch {
        try ensure(error.phase == .handshake && !error.reason.isEmpty, "\(error)")
    }
    try serve(head, configuration, isPeerLocal: choice & 2 == 2)
}

/// Checks that the server's answer is one head, into which the client cannot inject anything.
private func serve(_ head: HTTPHead, _ configuration: WebSocketConfiguration, isPeerLocal: Bool) throws {
    var output = ByteBuffer()
    do throws(ServerHandshake.Refusal) {
        let accepted = try ServerHandshake.evaluate(head, configuration, isPeerLocal: isPeerLocal)
        ServerHandshake.write(accepted, to: &output)
        let answer = try answer(&output, headers: 3...5, body: "")
        var client = configuration
        client.subprotocols = accepted.subprotocol.map { [$0] } ?? []
        if accepted.compression == nil || configuration.compression == nil {
            try verify(answer, accepted.key, client)
        }
    } catch {
        try ensure((300...599).contains(error.status) && !error.reason.isEmpty, "\(error)")
        ServerHandshake.write(error, to: &output, unixTime: 784_111_777)
        try ensure(error.body.utf8.count < 1000, "a body of \(error.body.utf8.count) bytes")
        _ = try answer(&output, headers: 3...5, body: error.body)
    }
    try servePage(head, configuration, isPeerLocal: isPeerLocal)
}

/// Checks that a page answers only GET and HEAD, the latter without its body.
private func servePage(_ head: HTTPHead, _ configuration: WebSocketConfiguration, isPeerLocal: Bool) throws {
    var configuration = configuration
    configuration.pages = [try WebPage(body: Array("page".utf8))]
    var output = ByteBuffer()
    do throws(ServerHandshake.Refusal) {
        let found = try ServerHandshake.page(for: head, configuration, isPeerLocal: isPeerLocal)
        guard let found else { return }
        let isHead = ServerHandshake.isHead(head.startLine)
        found.write(to: &output, withBody: !isHead, unixTime: 784_111_777)
        _ = try answer(&output, headers: 5...5, body: isHead ? "" : "page")
    } catch {
        try ensure((400...599).contains(error.status), "\(error)")
        try ensure(error.body.isEmpty || !ServerHandshake.isHead(head.startLine), "a body for HEAD: \(error)")
    }
}

private func verify(
    _ answer: HTTPHead,
    _ key: String,
    _ client: WebSocketConfiguration
) throws(ServerHandshake.Refusal) {
    do throws(TransportError) {
        _ = try ClientHandshake.verify(answer, key: key, client)
    } catch {
        throw ServerHandshake.Refusal(status: 0, reason: "our client refuses our server's answer: \(error)")
    }
}

private func answer(
    _ output: inout ByteBuffer,
    headers: ClosedRange<Int>,
    body: String
) throws(ServerHandshake.Refusal) -> HTTPHead {
    var reader = HTTPHeadReader(maximumBytes: 4096)
    guard let head = try? reader.next(&output), output.count == body.utf8.count, headers.contains(head.headers.count)
    else {
        throw ServerHandshake.Refusal(status: 0, reason: "our server's answer is not one head")
    }
    return head
}

private func readHead(_ bytes: ArraySlice<UInt8>, _ slicing: Slicing) -> Result<HTTPHead?, HTTPHeadError> {
    var (slicing, reader) = (slicing, HTTPHeadReader(maximumBytes: 600, skipsEmptyLines: true))
    var input = ByteBuffer()
    do throws(HTTPHeadError) {
        for slice in slicing.slices(of: bytes) {
            input.append(contentsOf: Array(slice))
            if let head = try reader.next(&input) { return .success(head) }
        }
        return .success(nil)
    } catch {
        return .failure(error)
    }
}

/// Reads offers and answers of compression: arbitrary text, and the agreement of our own two sides.
func fuzzDeflateAgreement(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    guard let mine = input.webSocketCompression(), let theirs = input.webSocketCompression() else { return }
    let own = try extensions(DeflateAgreement.offer(mine))
    let members = WebSocketExtension.list([String(decoding: input.rest, as: UTF8.self)]) ?? []
    do throws(TransportError) {
        _ = try DeflateAgreement.read(members, offered: mine)
    } catch {
        try ensure(error.code == .handshakeFailed, "\(error)")
    }
    for offers in [members, own] {
        guard let accepted = DeflateAgreement.accept(offers, theirs) else { continue }
        let answer = try extensions(accepted.answer)
        guard answer.count == 1, DeflateParameters(answer[0], isOffer: false) != nil else {
            throw FuzzFailure(description: "our server's answer is malformed: \(accepted.answer)")
        }
        guard offers != members else { continue }
        let read = try DeflateAgreement.read(answer, offered: mine)
        let server = accepted.agreement
        guard let client = read else { throw FuzzFailure(description: "no compression: \(accepted.answer)") }
        try ensure(fits(client.client, server.client) && fits(server.server, client.server), "\(client), \(server)")
    }
}

/// Reads the header that one of our sides has written.
private func extensions(_ header: String) throws -> [WebSocketExtension] {
    guard let list = WebSocketExtension.list([header]) else { throw FuzzFailure(description: "malformed: \(header)") }
    return list
}

/// Whether the receiver can read everything that the sender may send.
private func fits(_ sender: DeflateAgreement.Direction, _ receiver: DeflateAgreement.Direction) -> Bool {
    sender.windowBits <= receiver.windowBits && (!sender.keepsContext || receiver.keepsContext)
}
