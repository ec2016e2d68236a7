import TransportAPI

@testable import Protocols
@testable import Transports

func fuzzMQTTWebSocketClient(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    var configuration = MQTTConfiguration()
    configuration.clientID = "me"
    configuration.cleanSession = input.flag()
    configuration.qos = input.choice(of: [.exactlyOnce, .atLeastOnce, .atMostOnce])
    configuration.publishTopic = "out"
    configuration.maximumMessageSize = input.choice(of: [1000, 10])
    configuration.keepAlive = input.choice(of: [60, 0, 1])
    // A choice that is there already decides this one, so that the files of the corpus keep their meaning.
    configuration.publishesEarly = configuration.cleanSession && configuration.keepAlive == 0
    let client = configuration
    try fuzzMQTTWebSocket(&input, opening: [0x20, 2, 0, 0]) {
        try MQTTClientCore(client, session: MQTTSession())
    }
}

func fuzzMQTTWebSocketServer(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    var configuration = MQTTServerConfiguration()
    configuration.routesSignals = input.flag()
    configuration.qos = input.choice(of: [.exactlyOnce, .atLeastOnce, .atMostOnce])
    configuration.maximumMessageSize = input.choice(of: [1000, 10])
    configuration.maximumSubscriptions = 4
    let server = configuration
    let opening: [UInt8] = [0x10, 13, 0, 4, 0x4d, 0x51, 0x54, 0x54, 4, 2, 0, 60, 0, 1, 0x61]
    try fuzzMQTTWebSocket(&input, opening: opening) { try MQTTServerCore(server) }
}

/// Feeds a stream of bytes to the outer core, or one to the inner core in WebSocket messages of any size.
private func fuzzMQTTWebSocket<Inner: MQTTCore>(
    _ input: inout FuzzInput,
    opening: [UInt8],
    _ inner: () throws -> Inner
) throws {
    let role = Inner.role
    var configuration = WebSocketConfiguration()
    configuration.maximumHeaderBytes = 600
    configuration.fragmentSize = input.choice(of: [nil, 7])
    configuration.compression = input.webSocketCompression()
    let slicing = input.choice()
    let isOpen = input.flag()
    let frameSize = Int(input.choice())
    var steps = input.steps(topic: "t")
    if frameSize > 0 {
        steps = steps.map { step in
            guard case .feed(let bytes) = step else { return step }
            return .feed(framed(bytes, frameSize, to: role))
        }
    }
    if isOpen {
        let handshake = try mqttWebSocketHandshake(to: role, configuration)
        steps = [.feed(handshake[...]), .feed(framed(opening[...], 255, to: role))] + steps
    }
    let limit = configuration.maximumHeaderBytes
    try runSliced({ try WebSocketCarrier(inner(), over: configuration) }, steps, slicing, inputLimit: limit) { core in
        // An input has some 4 KiB. A declared length, decompression and zlib take more.
        try ensure(core.bufferedBytes <= 2 << 20, "\(core.bufferedBytes) bytes are buffered")
    }
}

private func framed(_ bytes: ArraySlice<UInt8>, _ size: Int, to role: CoreRole) -> ArraySlice<UInt8> {
    var rest = bytes
    var output = ByteBuffer()
    while !rest.isEmpty {
        rest.prefix(size).withUnsafeBytes {
            FrameWriter.write(.binary, $0, maskKey: role == .server ? 0x0102_0304 : nil, to: &output)
        }
        rest = rest.dropFirst(size)
    }
    return (output.bytes(at: 0, count: output.count) ?? [])[...]
}

/// The bytes with which the peer of `role` opens the WebSocket.
private func mqttWebSocketHandshake(
    to role: CoreRole,
    _ configuration: WebSocketConfiguration
) throws -> [UInt8] {
    var client = MQTTConfiguration()
    client.clientID = "me"
    var caller = CoreRun(try WebSocketCarrier(try MQTTClientCore(client), over: configuration))
    let request = caller.takeOutput()
    guard role == .client else { return request }
    let server = try MQTTServerCore(MQTTServerConfiguration())
    var answerer = CoreRun(try WebSocketCarrier(server, over: configuration))
    try answerer.feed(request)
    return answerer.takeOutput()
}
