import Protocols

/// The handshake of RFC 6455, section 1.2, as a client would send it.
package let sampleKey = "dGhlIHNhbXBsZSBub25jZQ=="
package let sampleAccept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

package typealias WebSocketHarness = CoreHarness<WebSocketCore>

/// A request with `lines` in addition to the usual ones, or in place of them.
package func request(
    _ first: String = "GET /chat HTTP/1.1",
    replacing name: String? = nil,
    with lines: [String] = []
) -> [UInt8] {
    let usual = [
        "Host: server.example.com", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: \(sampleKey)",
        "Sec-WebSocket-Version: 13",
    ]
    let kept = usual.filter { line in name.map { !line.hasPrefix($0 + ":") } ?? true }
    return Array(([first] + kept + lines + ["", ""]).joined(separator: "\r\n").utf8)
}

/// A response with `lines` in addition to the usual ones, or in place of them.
package func response(
    _ first: String = "HTTP/1.1 101 Switching Protocols",
    key: String,
    replacing name: String? = nil,
    with lines: [String] = []
) -> [UInt8] {
    let usual = [
        "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Accept: \(HandshakeKey.accept(for: key))",
    ]
    let kept = usual.filter { line in name.map { !line.hasPrefix($0 + ":") } ?? true }
    return Array(([first] + kept + lines + ["", ""]).joined(separator: "\r\n").utf8)
}

/// A frame with any bits, as the peer of `role` sends it: masked to a server, unmasked to a client.
package func frame(
    to role: CoreRole,
    _ first: UInt8,
    _ payload: [UInt8] = [],
    key: [UInt8] = [0x37, 0xfa, 0x21, 0x3d]
) -> [UInt8] {
    let maskBit: UInt8 = role == .server ? 0x80 : 0
    var bytes = [first]
    switch payload.count {
    case ...125: bytes.append(maskBit | UInt8(payload.count))
    case ...65535: bytes += [maskBit | 126, UInt8(payload.count >> 8), UInt8(payload.count & 255)]
    default: bytes += [maskBit | 127] + (0..<8).reversed().map { UInt8(payload.count >> ($0 * 8) & 255) }
    }
    guard role == .server else { return bytes + payload }
    return bytes + key + payload.enumerated().map { $1 ^ key[$0 % 4] }
}

package func text(_ string: String) -> [UInt8] { Array(string.utf8) }

/// The body of a close frame.
package func closeBody(_ code: UInt16, _ reason: String = "") -> [UInt8] {
    [UInt8(code >> 8), UInt8(code & 255)] + text(reason)
}

/// The frames in the output of a core, unmasked: first byte and payload.
package func frames(_ bytes: [UInt8]) -> [(first: UInt8, payload: [UInt8])] {
    var found: [(UInt8, [UInt8])] = []
    var rest = bytes[...]
    while rest.count >= 2 {
        let first = rest.removeFirst()
        let second = rest.removeFirst()
        var length = Int(second & 0x7f)
        if length >= 126 {
            let size = length == 126 ? 2 : 8
            length = rest.prefix(size).reduce(0) { $0 << 8 | Int($1) }
            rest = rest.dropFirst(size)
        }
        var key: [UInt8] = [0, 0, 0, 0]
        if second & 0x80 != 0 {
            key = Array(rest.prefix(4))
            rest = rest.dropFirst(4)
        }
        found.append((first, rest.prefix(length).enumerated().map { $1 ^ key[$0 % 4] }))
        rest = rest.dropFirst(length)
    }
    return found
}

/// A comparable description of an event.
package func describe(_ event: CoreEvent) -> String {
    switch event {
    case .message(let payload): "\(payload.kind) \(payload.bytes)"
    case .closed(let reason): "closed \(reason.initiator) \(reason.code ?? 0) \(reason.text)"
    default: "\(event)"
    }
}
