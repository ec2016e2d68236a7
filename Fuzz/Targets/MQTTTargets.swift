import TransportAPI

@testable import Protocols
@testable import Transports

/// Reads packets in any slices, then writes them and reads them again.
func fuzzMQTTPackets(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    let choice = input.choice()
    let most = input.choice(of: [1, 1000])
    let whole = try readPackets(input.rest, .whole, most)
    let sliced = try readPackets(input.rest, Slicing(max(choice, 1)), most)
    try ensure(whole == sliced, "sliced \(choice): \(sliced) instead of \(whole)")
    var output = ByteBuffer()
    for packet in whole.packets { MQTTPacketWriter.write(packet, into: &output) }
    let written = output.bytes(at: 0, count: output.count) ?? []
    let again = try readPackets(written[...], Slicing(choice), most)
    try ensure(again == ReadPackets(packets: whole.packets), "\(whole.packets) are read as \(again)")
}

private struct ReadPackets: Equatable {
    var packets: [MQTTPacket] = []
    var error: TransportError?
}

private func readPackets(_ bytes: ArraySlice<UInt8>, _ slicing: Slicing, _ most: Int) throws -> ReadPackets {
    var (read, slicing) = (ReadPackets(), slicing)
    var input = ByteBuffer()
    var reader = MQTTPacketReader(maximumMessageSize: most)
    do throws(TransportError) {
        for slice in slicing.slices(of: bytes) {
            input.append(contentsOf: Array(slice))
            repeat {
                while let packet = try reader.next(&input) { read.packets.append(packet) }
            } while reader.begun != nil
        }
    } catch {
        read.error = error
    }
    for case .publish(let publish) in read.packets {
        try ensure(publish.payload.count <= most, "a PUBLISH of \(publish.payload.count) bytes")
    }
    return read
}

/// The most bytes of an incomplete packet.
private let packetLimit = 5 + MQTTPacketReader.maximumConnectLength

/// Runs a client, over two connections of one session unless that is a clean session.
func fuzzMQTTClient(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    var configuration = MQTTConfiguration()
    configuration.clientID = "me"
    configuration.cleanSession = input.flag()
    configuration.qos = input.choice(of: [.exactlyOnce, .atLeastOnce, .atMostOnce])
    configuration.subscriptions = input.flag() ? [MQTTSubscription("in/#", qos: .exactlyOnce)] : []
    configuration.publishTopic = "out"
    configuration.maximumInFlight = input.choice(of: [64, 1])
    configuration.maximumMessageSize = input.choice(of: [1000, 10])
    configuration.keepAlive = input.choice(of: [60, 0, 1])
    // A choice that is there already decides this one, so that the files of the corpus keep their meaning.
    configuration.publishesEarly = configuration.cleanSession && configuration.keepAlive == 0
    let slicing = input.choice()
    let isOpen = input.flag()
    let opening: [UInt8] = configuration.subscriptions.isEmpty ? [0x20, 2, 0, 0] : [0x20, 2, 0, 0, 0x90, 3, 0, 1, 2]
    let steps = (isOpen ? [.feed(opening[...])] : []) + input.steps(topic: "t")
    try runSliced(
        { try MQTTClientCore(configuration, session: MQTTSession()) },
        steps,
        slicing,
        inputLimit: packetLimit,
        check: { try checkClient($0) }
    )
    let session = MQTTSession()
    for half in [steps.prefix(steps.count / 2), steps.suffix(steps.count - steps.count / 2)] {
        var connection = CoreRun(try MQTTClientCore(configuration, session: session), inputLimit: packetLimit)
        var cuts = Slicing(slicing)
        if isOpen { try connection.perform(.feed(opening[...]), &cuts) }
        for step in half {
            if case .ping = step {
                try? connection.core.subscribe([MQTTSubscription("a/+")], id: 1, &connection.context)
            }
            if case .confirm = step { try? connection.core.unsubscribe(["a/+", "b"], id: 2, &connection.context) }
            try connection.perform(step, &cuts)
        }
        try checkClient(connection.core)
    }
}

private func checkClient(_ core: borrowing MQTTClientCore) throws {
    let most = MQTTClientCore.maximumEarlyMessages + MQTTClientCore.maximumEarlyDiscarded + 1
    try ensure(core.deferred.count <= most, "\(core.deferred.count) early messages and reports")
    try ensure(core.flow.inFlight.count <= 65_535, "\(core.flow.inFlight.count) in flight")
}

/// Runs a server by itself, then two connections of a broker that routes their messages.
func fuzzMQTTBroker(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    var configuration = MQTTServerConfiguration()
    configuration.routesSignals = input.flag()
    configuration.qos = input.choice(of: [.exactlyOnce, .atLeastOnce, .atMostOnce])
    configuration.maximumSubscriptions = 4
    configuration.maximumInFlight = input.choice(of: [64, 1])
    configuration.maximumMessageSize = input.choice(of: [1000, 10])
    let hasSessions = input.flag()
    let slicing = input.choice()
    let isOpen = input.flag()
    let cleanFlag: UInt8 = input.flag() ? 2 : 0
    let opening: [UInt8] = [0x10, 13, 0, 4, 0x4d, 0x51, 0x54, 0x54, 4, cleanFlag, 0, 60, 0, 1, 0x61]
    var steps = input.steps(topic: "t")
    if isOpen { steps.insert(.feed(opening[...]), at: 0) }
    try runSliced(
        {
            var configuration = configuration
            if hasSessions { configuration.sessions = MQTTSessions(maximumKept: 2) }
            return try MQTTServerCore(configuration)
        },
        steps,
        slicing,
        inputLimit: packetLimit
    ) { core in
        try ensure(core.filters?.subscriptions.count ?? 0 <= 4, "\(String(describing: core.filters))")
    }
    configuration.routesSignals = true
    if hasSessions { configuration.sessions = MQTTSessions(maximumKept: 2) }
    var first = CoreRun(try MQTTServerCore(configuration), inputLimit: packetLimit)
    var second = CoreRun(try MQTTServerCore(configuration), inputLimit: packetLimit)
    var broker = FuzzedBroker()
    for (index, step) in steps.enumerated() {
        var cuts = Slicing(slicing)
        if index == 0 || index % 3 != 0 { try first.perform(step, &cuts) }
        if index == 0 || index % 3 == 0 { try second.perform(step, &cuts) }
        try broker.look(at: first.events, of: 0)
        try broker.look(at: second.events, of: 1)
        try broker.deliver(to: 0, &first)
        try broker.deliver(to: 1, &second)
    }
}

/// A broker with routing only.
private struct FuzzedBroker {
    private var core = BrokerCore()
    private var seen = [0, 0]
    private var waiting: [[(MQTTPublish, MQTTQoS)]] = [[], []]
    private var grants: [[(UInt16, [MQTTQoS?])]] = [[], []]
    private var deliveries: [BrokerCore.Delivery] = []

    mutating func look(at events: [SeenEvent], of connection: Int) throws {
        for event in events.dropFirst(seen[connection]) {
            switch event {
            case .signal(.connected): _ = try? core.connect(UInt64(connection), clientID: [])
            case .signal(.subscribed(let packetID, let filters)):
                let granted = filters.map { core.subscribe(UInt64(connection), to: $0.filter, qos: $0.qos) }
                grants[connection].append((packetID, granted))
            case .signal(.unsubscribed(_, let filters)):
                for filter in filters { core.unsubscribe(UInt64(connection), from: filter) }
            case .signal(.published(let publish)):
                core.route(topic: publish.topic, qos: publish.qos, into: &deliveries)
                try ensure(Set(deliveries.map(\.session)).count == deliveries.count, "a session gets it twice")
                for delivery in deliveries { waiting[Int(delivery.session)].append((publish, delivery.qos)) }
            case .closed: core.disconnect(UInt64(connection))
            default: break
            }
        }
        seen[connection] = events.count
    }

    mutating func deliver(to connection: Int, _ run: inout CoreRun<MQTTServerCore>) throws {
        for (packetID, granted) in grants[connection] where !run.isOver {
            run.core.grant(packetID, granted, &run.context)
        }
        grants[connection] = []
        for (publish, qos) in waiting[connection] where !run.isOver {
            _ = try? run.core.publish(
                topic: publish.topic,
                payload: publish.payload,
                qos: qos,
                retain: publish.retain,
                id: .max,
                &run.context
            )
        }
        waiting[connection] = []
        try run.drain()
    }
}
