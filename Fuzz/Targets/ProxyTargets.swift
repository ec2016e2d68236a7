import TransportAPI

@testable import Protocols
@testable import Transports

/// Reads the URL of a proxy and the name of a server behind it, then the proxy's answer in any slices.
func fuzzProxy(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let choice = input.choice()
    let (before, after) = (text(input.record()), text(input.record()))
    try checkProxy("http://\(before)S3cretS3cret\(after)", to: text(input.record()))
    let proxy = try HTTPProxy("http://ann:secret@proxy:3128", to: "server.example", port: 443)
    let whole = try tunnel(proxy, input.rest, .whole)
    let sliced = try tunnel(proxy, input.rest, Slicing(max(choice, 1)))
    try ensure(whole == sliced, "sliced \(choice): \(sliced) instead of \(whole)")
    guard case .success(let through?) = whole else { return }
    // The bytes before the tunnel's are heads. The last of them must open the tunnel.
    let heads = text(Array(input.rest.dropLast(through.count)))
    let last = heads.utf8.split(separator: UInt8(ascii: "\n")).last { $0.starts(with: "HTTP/1.".utf8) }
    try ensure(last?.dropFirst(9).first == UInt8(ascii: "2"), "no tunnel is open after \(heads)")
}

private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

/// Checks that the request is one head into which neither URL nor name can inject anything, and that no error has a
/// secret.
private func checkProxy(_ url: String, to server: String) throws {
    let proxy: HTTPProxy
    do throws(TransportError) {
        proxy = try HTTPProxy(url, to: server, port: 443)
    } catch {
        try ensure(error.code == .invalidConfiguration, "\(error)")
        return try ensure(!error.description.contains("S3cret"), "\(error)")
    }
    var output = ByteBuffer()
    output.append(utf8: proxy.request)
    var reader = HTTPHeadReader(maximumBytes: 1 << 20)
    guard let head = try reader.next(&output) else { throw FuzzFailure(description: "half a head: \(proxy.request)") }
    let target = HTTPSyntax.authority(host: server, port: 443)
    try ensure(output.isEmpty && head.startLine == "CONNECT \(target) HTTP/1.1", "\(proxy.request)")
    let names = head.headers.map(\.name)
    try ensure(names == ["Host"] || names == ["Host", "Proxy-Authorization"], "\(names)")
    try ensure(head.headers.first?.value == target, "\(head.headers)")
}

/// The bytes that have come through the tunnel since it is open; `nil` before that.
private func tunnel(
    _ proxy: HTTPProxy,
    _ bytes: ArraySlice<UInt8>,
    _ slicing: Slicing
) throws -> Result<[UInt8]?, TransportError> {
    var (handshake, slicing, rest) = (ProxyHandshake(proxy), slicing, bytes)
    var input = ByteBuffer()
    for slice in slicing.slices(of: bytes) {
        input.append(contentsOf: Array(slice))
        rest = rest.dropFirst(slice.count)
        do throws(TransportError) {
            if try handshake.next(&input) { return .success((input.bytes(at: 0, count: input.count) ?? []) + rest) }
        } catch {
            try ensure(error.phase == .connect && !error.reason.isEmpty, "\(error)")
            return .failure(error)
        }
    }
    return .success(nil)
}
