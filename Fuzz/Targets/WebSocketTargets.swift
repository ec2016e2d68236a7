import TransportAPI

@testable import Protocols
@testable import Transports

extension FuzzInput {
    /// A small configuration of either role.
    mutating func webSocketConfiguration() -> WebSocketConfiguration {
        var configuration = WebSocketConfiguration()
        configuration.maximumMessageSize = choice(of: [125, 2000, 70_000])
        configuration.maximumHeaderBytes = 600
        configuration.fragmentSize = choice(of: [nil, 7, 1000])
        configuration.subprotocols = flag() ? ["chat", "b"] : []
        configuration.compression = webSocketCompression()
        return configuration
    }

    /// - Parameter mayRefuse: whether the limit on expansion may be so low that messages of a few bytes exceed it.
    mutating func webSocketCompression(mayRefuse: Bool = true) -> WebSocketCompression? {
        let bits = choice()
        guard bits & 1 == 1, let zlib = ZLib.shared else { return nil }
        var compression = WebSocketCompression(zlib)
        compression.keepsContext = bits & 2 == 0
        compression.peerKeepsContext = bits & 4 == 0
        compression.windowBits = bits & 8 == 0 ? 15 : 9
        compression.peerWindowBits = bits & 16 == 0 ? 15 : 10
        compression.threshold = bits & 32 == 0 ? 32 : 1
        if mayRefuse, bits & 64 != 0 { compression.expansion = ExpansionLimit(factor: 3, free: 300) }
        return compression
    }
}

func fuzzWebSocketClient(_ bytes: [UInt8]) throws {
    try fuzzWebSocket(.client, bytes)
}

func fuzzWebSocketServer(_ bytes: [UInt8]) throws {
    try fuzzWebSocket(.server, bytes)
}

private func fuzzWebSocket(_ role: CoreRole, _ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let configuration = input.webSocketConfiguration()
    let slicing = input.choice()
    let handshake = input.flag() ? try webSocketHandshake(to: role, configuration) : []
    let steps = [.feed(handshake[...])] + input.steps(topic: input.flag() ? "t" : nil)
    let most = configuration.maximumMessageSize
    var window = 15
    try runSliced(
        { try WebSocketCore(role, configuration) },
        steps,
        slicing,
        inputLimit: configuration.maximumHeaderBytes
    ) { core in
        window = min(window, core.reader.inflation?.windowBits ?? 15)
        let reserved = core.reader.message.capacity
        try ensure(reserved <= most + most / 4 + 4096, "\(reserved) bytes are reserved for at most \(most)")
        try ensure(core.bufferedBytes - reserved <= 320 << 10, "\(core.bufferedBytes) bytes are buffered")
    } mayDiffer: {
        // Slicing may decide whether a reference beyond the agreed window is detected.
        window < 15 && $0.reason == Inflation.malformed
    }
}

/// The bytes with which the peer of `role` opens the connection, compression included.
private func webSocketHandshake(to role: CoreRole, _ configuration: WebSocketConfiguration) throws -> [UInt8] {
    var client = CoreRun(try WebSocketCore(.client, configuration))
    let request = client.takeOutput()
    guard role == .client else { return request }
    var server = CoreRun(try WebSocketCore(.server, configuration))
    try server.feed(request)
    return server.takeOutput()
}

/// Reads frames in any slices, masked or not, compressed or not. Then writes them and reads them again.
func fuzzWebSocketFrames(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let choice = input.choice()
    let isMasked = input.flag()
    let most = input.choice(of: [125, 2000, 70_000])
    let compression = input.webSocketCompression()
    let discards = input.choice() == 1
    func reader() -> FrameReader {
        var reader = FrameReader(mustBeMasked: isMasked, maximumMessageSize: most)
        if let compression { reader.enable(Inflation(compression, DeflateAgreement.Direction())) }
        if discards { reader.discardMessages() }
        return reader
    }
    var (whole, sliced) = (reader(), reader())
    let first = readFrames(&whole, input.rest, .whole)
    let second = readFrames(&sliced, input.rest, Slicing(max(choice, 1)))
    try ensure(first == second, "sliced \(choice): \(second) instead of \(first)")
    let reserved = whole.message.capacity
    try ensure(reserved <= most + most / 4 + 4096, "\(reserved) bytes are reserved for at most \(most)")

    let key: UInt32? = isMasked ? 0x1234_5678 : nil
    var output = ByteBuffer()
    for case .message(let payload) in first.frames {
        try ensure(payload.bytes.count <= most, "a message of \(payload.bytes.count) bytes")
        payload.bytes.withUnsafeBytes {
            FrameWriter.write(payload.kind == .text ? .text : .binary, $0, maskKey: key, to: &output)
        }
    }
    var again = FrameReader(mustBeMasked: isMasked, maximumMessageSize: most)
    let written = output.bytes(at: 0, count: output.count) ?? []
    let messages = first.frames.filter { if case .message = $0 { true } else { false } }
    let read = readFrames(&again, written[...], Slicing(choice))
    try ensure(read.frames == messages && read.error == nil, "the written frames are read as \(read)")
}

private struct ReadFrames: Equatable {
    var frames: [FrameReader.Incoming] = []
    var error: TransportError?
}

private func readFrames(_ reader: inout FrameReader, _ bytes: ArraySlice<UInt8>, _ slicing: Slicing) -> ReadFrames {
    var (read, slicing) = (ReadFrames(), slicing)
    var input = ByteBuffer()
    do throws(TransportError) {
        for slice in slicing.slices(of: bytes) {
            input.append(contentsOf: Array(slice))
            while let frame = try reader.next(&input) {
                if frame != .part { read.frames.append(frame) }
            }
        }
    } catch {
        read.error = error
    }
    return read
}
