import TransportAPI

@testable import Protocols
@testable import Transports

/// Reads the URL of an HTTP proxy and the name of a server behind it, then the proxy's answer in any slices.
func fuzzProxy(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let choice = input.choice()
    let (before, after) = (text(input.record()), text(input.record()))
    let server = text(input.record())
    if let request = try request(of: "http://\(before)S3cretS3cret\(after)", to: server) {
        try checkHead(request, server)
    }
    let handshake = try Proxy("http://ann:secret@proxy:3128", key: "proxy").makeHandshake(
        to: "server.example",
        port: 443
    )
    guard case .success(let through?) = try result(handshake, input.rest, choice) else { return }
    // The bytes before the tunnel's are heads. The last of them must open the tunnel.
    let heads = text(Array(input.rest.dropLast(through.count)))
    let last = heads.utf8.split(separator: UInt8(ascii: "\n")).last { $0.starts(with: "HTTP/1.".utf8) }
    try ensure(last?.dropFirst(9).first == UInt8(ascii: "2"), "no tunnel is open after \(heads)")
}

/// Reads the URL of a SOCKS proxy and the name of a server behind it, then the proxy's answer in any slices.
func fuzzSOCKS(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let choice = input.choice()
    let (before, after) = (text(input.record()), text(input.record()))
    let server = text(input.record())
    if let greeting = try request(of: "socks5://\(before)S3cretS3cret\(after)", to: server) {
        try ensure(greeting == [5, 1, 0] || greeting == [5, 2, 0, 2], "\(greeting)")
    }
    let hasCredentials = choice & 1 == 1
    let proxy = try Proxy("socks5://\(hasCredentials ? "ann:secret@" : "")proxy", key: "proxy")
    let handshake = try proxy.makeHandshake(to: "server.example", port: 443)
    guard case .success(let through?) = try result(handshake, input.rest, choice) else { return }
    let answer = Array(input.rest.dropLast(through.count))
    let chosen = answer.starts(with: [5, 0, 5, 0, 0]) || hasCredentials && answer.starts(with: [5, 2, 1, 0, 5, 0, 0])
    try ensure(chosen && answer.count <= 4 + 262, "a tunnel is open after \(answer)")
}

/// Reads the variables of an environment that name a proxy, and the host of a server.
func fuzzProxyEnvironment(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let isEncrypted = input.flag()
    let (url, host, list) = ("\(text(input.record()))S3cretS3cret", text(input.record()), text(Array(input.rest)))
    for exceptions in [list, "\(list),*"] {
        let environment = ProxyEnvironment { ["all_proxy": url, "NO_PROXY": exceptions][$0] }
        let proxy: Proxy?
        do throws(TransportError) {
            proxy = try environment.proxy(to: host, port: 443, isEncrypted: isEncrypted)
        } catch {
            try ensure(error.code == .invalidConfiguration && !error.description.contains("S3cret"), "\(error)")
            continue
        }
        try ensure(proxy == nil || exceptions == list, "\(exceptions) does not contain \(host)")
    }
}

private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

/// Returns the first bytes that are sent to a proxy. Returns `nil` if its URL or the server is refused, whose error must
/// have no secret.
private func request(of url: String, to server: String) throws -> [UInt8]? {
    var output = ByteBuffer()
    do throws(TransportError) {
        var handshake = try Proxy(url, key: "proxy").makeHandshake(to: server, port: 443)
        handshake.start(&output, unixTime: nil)
    } catch {
        try ensure(error.code == .invalidConfiguration, "\(error)")
        try ensure(!error.description.contains("S3cret"), "\(error)")
        return nil
    }
    return output.bytes(at: 0, count: output.count)
}

/// Checks that a request is one head into which neither URL nor name can inject anything.
private func checkHead(_ request: [UInt8], _ server: String) throws {
    var output = ByteBuffer()
    output.append(contentsOf: request)
    var reader = HTTPHeadReader(maximumBytes: 1 << 20)
    guard let head = try reader.next(&output) else { throw FuzzFailure(description: "half a head: \(text(request))") }
    let target = HTTPSyntax.authority(host: server, port: 443)
    try ensure(output.isEmpty && head.startLine == "CONNECT \(target) HTTP/1.1", text(request))
    let names = head.headers.map(\.name)
    try ensure(names == ["Host"] || names == ["Host", "Proxy-Authorization"], "\(names)")
    try ensure(head.headers.first?.value == target, "\(head.headers)")
}

/// The bytes that have come through the tunnel since it is open; `nil` before that. Slices must not change them.
private func result(
    _ handshake: any ProxyHandshake,
    _ bytes: ArraySlice<UInt8>,
    _ choice: UInt8
) throws -> Result<[UInt8]?, TransportError> {
    let whole = try tunnel(handshake, bytes, .whole)
    let sliced = try tunnel(handshake, bytes, Slicing(max(choice, 1)))
    try ensure(whole == sliced, "sliced \(choice): \(sliced) instead of \(whole)")
    return whole
}

private func tunnel(
    _ handshake: any ProxyHandshake,
    _ bytes: ArraySlice<UInt8>,
    _ slicing: Slicing
) throws -> Result<[UInt8]?, TransportError> {
    var (handshake, slicing, rest) = (handshake, slicing, bytes)
    var input = ByteBuffer()
    var output = ByteBuffer()
    for slice in slicing.slices(of: bytes) {
        input.append(contentsOf: Array(slice))
        rest = rest.dropFirst(slice.count)
        do throws(TransportError) {
            if try handshake.next(&input, &output) {
                return .success((input.bytes(at: 0, count: input.count) ?? []) + rest)
            }
        } catch {
            try ensure(error.phase == .connect && !error.reason.isEmpty, "\(error)")
            return .failure(error)
        }
    }
    return .success(nil)
}
