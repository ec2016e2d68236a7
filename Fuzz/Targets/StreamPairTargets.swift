import TransportAPI

@testable import Protocols
@testable import Transports

/// Connects two of our own cores over a byte stream that is cut anywhere. Each must receive the other's messages.
func fuzzStreamPairs(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let slicing = Slicing(input.choice())
    let kind = input.choice()
    switch kind % 4 {
    case 0:
        var (client, server) = (WebSocketConfiguration(), WebSocketConfiguration())
        client.compression = input.webSocketCompression(mayRefuse: false)
        server.compression = input.webSocketCompression(mayRefuse: false)
        client.fragmentSize = input.choice(of: [nil, 1, 100])
        server.fragmentSize = client.fragmentSize
        try converse(
            CoreRun(try WebSocketCore(.client, client)),
            CoreRun(try WebSocketCore(.server, server)),
            &input,
            slicing
        )
    case 1:
        let configuration = TCPConfiguration(framing: input.tcpFraming())
        try converse(
            CoreRun(try FramedTCPCore(configuration)),
            CoreRun(try FramedTCPCore(configuration)),
            &input,
            slicing
        )
    default:
        var (client, server) = (MQTTConfiguration(), MQTTServerConfiguration())
        client.clientID = "me"
        client.cleanSession = input.flag()
        client.qos = input.choice(of: [.exactlyOnce, .atLeastOnce, .atMostOnce])
        client.publishTopic = "t"
        client.subscriptions = [MQTTSubscription("t", qos: client.qos)]
        client.maximumInFlight = input.choice(of: [64, 1])
        server.qos = client.qos
        let (caller, broker) = (try MQTTClientCore(client, session: MQTTSession()), try MQTTServerCore(server))
        guard kind % 4 == 3 else { return try converse(CoreRun(caller), CoreRun(broker), &input, slicing) }
        var outer = WebSocketConfiguration()
        outer.fragmentSize = input.choice(of: [nil, 1, 100])
        try converse(
            CoreRun(try WebSocketCarrier(caller, over: outer)),
            CoreRun(try WebSocketCarrier(broker, over: outer)),
            &input,
            slicing
        )
    }
}

/// Sends the messages of the input's records in both directions and compares the received ones.
private func converse<Client: ProtocolCore, Server: ProtocolCore>(
    _ client: consuming CoreRun<Client>,
    _ server: consuming CoreRun<Server>,
    _ input: inout FuzzInput,
    _ slicing: Slicing
) throws {
    var slicing = slicing
    try client.drain()
    try server.drain()
    try exchange(&client, &server, &slicing)
    try ensure(client.events == [.opened] && server.events == [.opened], "the connection does not open")
    var (toServer, toClient): ([Payload], [Payload]) = ([], [])
    while let kind = input.next() {
        var payload = Payload(input.record())
        let asText = kind & 4 == 4 && client.core.capabilities.distinguishesText
        if asText, String(validating: payload.bytes, as: UTF8.self) != nil { payload.kind = .text }
        if kind & 1 == 0 {
            if let status = client.send(payload), status != .blocked { toServer.append(payload) }
        } else if let status = server.send(payload), status != .blocked {
            toClient.append(payload)
        }
        if kind & 2 == 0 { try exchange(&client, &server, &slicing) }
    }
    try exchange(&client, &server, &slicing)
    try ensure(client.failure == nil && server.failure == nil, "\(client.failure as Any), \(server.failure as Any)")
    try compare(server.events, toServer)
    try compare(client.events, toClient)
}

private func compare(_ events: [SeenEvent], _ sent: [Payload]) throws {
    let received = events.compactMap { if case .message(let payload) = $0 { payload } else { nil } }
    let areSame = zip(received, sent).allSatisfy { $0.bytes == $1.bytes && $0.kind == $1.kind }
    try ensure(received.count == sent.count && areSame, "\(received.count) of \(sent.count) messages arrived")
}

/// Passes the output of each core to the other until both are silent. Messages are confirmed at once.
private func exchange<Client: ProtocolCore, Server: ProtocolCore>(
    _ client: inout CoreRun<Client>,
    _ server: inout CoreRun<Server>,
    _ slicing: inout Slicing
) throws {
    while true {
        let (toServer, toClient) = (client.takeOutput(), server.takeOutput())
        if toServer.isEmpty && toClient.isEmpty { return }
        for slice in slicing.slices(of: toServer[...]) { try server.feed(Array(slice)) }
        for slice in slicing.slices(of: toClient[...]) { try client.feed(Array(slice)) }
        client.core.confirmReceipt(&client.context)
        server.core.confirmReceipt(&server.context)
    }
}
