import TransportAPI

@testable import Protocols
@testable import Transports

/// Connects two cores of the reliable mode over a network that loses, duplicates and reorders datagrams. When the
/// network is good again, each message must arrive once, and in order if that was agreed on.
func fuzzUDPNetwork(_ bytes: [UInt8]) throws {
    var input = FuzzInput(bytes)
    var configuration = UDPConfiguration(reliability: input.choice(of: [.ordered, .unordered]))
    configuration.maximumReliableSize = input.choice(of: [20_000, 1000])
    configuration.confirmsReceipt = input.flag()
    configuration.inboxMessages = input.choice(of: [1024, 2])
    configuration.reliableBuffer = input.choice(of: [1 << 20, 3000])
    var network = try FuzzedNetwork(configuration)
    while let what = input.next() { try network.act(what) }
    try network.settle()
}

private struct FuzzedNetwork: ~Copyable {
    private let configuration: UDPConfiguration
    private var client: CoreRun<UDPCore>
    private var server: CoreRun<UDPCore>
    /// The datagrams in flight to the client, and to the server.
    private var toClient: [[UInt8]] = []
    private var toServer: [[UInt8]] = []
    private var sentByClient: [[UInt8]] = []
    private var sentByServer: [[UInt8]] = []
    private var waited = Duration.zero
    private var (takenByClient, takenByServer) = (0, 0)

    init(_ configuration: UDPConfiguration) throws {
        var client = CoreRun(try UDPCore(client: configuration), inputLimit: 0)
        let request = configuration.terms(isOrdered: configuration.reliability == .ordered)
        let (session, nonce) = (FuzzedDatagram.session, client.core.nonce)
        var server = CoreRun(
            UDPCore(.server, configuration, connectionID: session, nonce: nonce, request: request),
            inputLimit: 0
        )
        try FuzzedDatagram.open(&client, request)
        try FuzzedDatagram.open(&server, request)
        _ = (try client.takeDatagrams(), try server.takeDatagrams())
        try ensure(client.events == [.opened] && server.events == [.opened], "the session does not open")
        self.configuration = configuration
        self.client = client
        self.server = server
    }

    mutating func act(_ what: UInt8) throws {
        let argument = Int(what >> 3)
        switch what & 7 {
        case 0: Self.send(argument, from: &client, &sentByClient)
        case 1: Self.send(argument, from: &server, &sentByServer)
        case 2: if !toServer.isEmpty { try server.feed(toServer.removeFirst()) }
        case 3: if !toClient.isEmpty { try client.feed(toClient.removeFirst()) }
        case 4: Self.disturb(&toServer, argument)
        case 5: Self.disturb(&toClient, argument)
        case 6: if waited < .seconds(20) { try wait(.milliseconds([1, 10, 30, 200, 1000][argument % 5])) }
        default: try deliverAll()
        }
        try pump()
    }

    /// Delivers everything, and advances the time as long as one of the cores has a deadline.
    mutating func settle() throws {
        for _ in 0..<5000 {
            try deliverAll()
            try pump()
            guard toClient.isEmpty, toServer.isEmpty else { continue }
            if takenByServer >= sentByClient.count, takenByClient >= sentByServer.count { break }
            guard let due = [client.core.deadline, server.core.deadline].compactMap({ $0 }).min() else { break }
            try wait(max(.zero, client.context.now.duration(to: due)))
            try pump()
        }
        try compare(server.events, sentByClient, client.failure ?? server.failure)
        try compare(client.events, sentByServer, client.failure ?? server.failure)
    }

    private static func send(_ argument: Int, from run: inout CoreRun<UDPCore>, _ sent: inout [[UInt8]]) {
        guard sent.count < 300 else { return }
        let size = [4, 1, 0, 200, 900, 1000, 1089, 1100, 1101, 5000, 19_999][argument % 11]
        let message = (0..<size).map { UInt8(truncatingIfNeeded: $0 < 2 ? sent.count >> ($0 * 8) : $0 / 256) }
        if let status = run.send(Payload(message)), status != .blocked { sent.append(message) }
    }

    /// Loses the oldest datagram, duplicates it, or moves it behind the others.
    private static func disturb(_ datagrams: inout [[UInt8]], _ argument: Int) {
        guard !datagrams.isEmpty else { return }
        switch argument % 3 {
        case 0: datagrams.removeFirst()
        case 1: datagrams.append(datagrams[0])
        default: datagrams.append(datagrams.removeFirst())
        }
    }

    private mutating func wait(_ duration: Duration) throws {
        waited += duration
        var slicing = Slicing.whole
        try client.perform(.wait(duration), &slicing)
        try server.perform(.wait(duration), &slicing)
    }

    private mutating func deliverAll() throws {
        let (first, second) = (toServer, toClient)
        (toServer, toClient) = ([], [])
        for datagram in first { try server.feed(datagram) }
        for datagram in second { try client.feed(datagram) }
    }

    /// Confirms all messages, and sends the datagrams of both cores as far as the network has room.
    private mutating func pump() throws {
        try Self.confirm(&client, &takenByClient)
        try Self.confirm(&server, &takenByServer)
        toServer += try client.takeDatagrams().prefix(1000 - min(1000, toServer.count))
        toClient += try server.takeDatagrams().prefix(1000 - min(1000, toClient.count))
    }

    private static func confirm(_ run: inout CoreRun<UDPCore>, _ taken: inout Int) throws {
        try run.drain()
        while taken < run.messageCount, !run.isOver {
            taken += 1
            run.core.confirmReceipt(&run.context)
            try run.drain()
        }
    }

    private func compare(_ events: [SeenEvent], _ sent: [[UInt8]], _ failure: TransportError?) throws {
        let received = events.compactMap { if case .message(let payload) = $0 { payload.bytes } else { nil } }
        let isOrdered = configuration.reliability == .ordered
        func sorted(_ messages: [[UInt8]]) -> [[UInt8]] { messages.sorted { $0.lexicographicallyPrecedes($1) } }
        let isSame = isOrdered ? received == sent : sorted(received) == sorted(sent)
        try ensure(isSame, "\(received.count) of \(sent.count) messages arrived; \(failure as Any)")
    }
}
