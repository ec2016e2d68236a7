@testable import Protocols
@testable import Transports

/// A handshake that is fed with a proxy's bytes in slices.
struct ProxyHandshakeRun {
    private(set) var isOpen = false
    /// The bytes that were sent to the proxy.
    private(set) var sent: [UInt8] = []
    /// The bytes behind the proxy's answer, which belong to the tunnel.
    private(set) var rest: [UInt8]

    init(_ handshake: any ProxyHandshake, _ bytes: [UInt8], slice: Int = .max) throws {
        var handshake = handshake
        var input = ByteBuffer()
        var output = ByteBuffer()
        var unread = bytes[...]
        handshake.start(&output, unixTime: nil)
        while !isOpen, !unread.isEmpty {
            input.append(contentsOf: Array(unread.prefix(slice)))
            unread = unread.dropFirst(slice)
            isOpen = try handshake.next(&input, &output)
        }
        sent = output.bytes(at: 0, count: output.count) ?? []
        rest = (input.bytes(at: 0, count: input.count) ?? []) + unread
    }
}
