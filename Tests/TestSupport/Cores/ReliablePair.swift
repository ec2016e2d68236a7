import Protocols
import TransportAPI

/// A client and a server of the reliable mode, and a network between them with faults that a test sets.
package struct ReliablePair: ~Copyable {
    /// The duration of one step of the network. A datagram takes one or two steps each way.
    package static let step = Duration.milliseconds(10)

    package var client: CoreHarness<UDPCore>
    package var server: SimulatedServer
    package var there = UnreliableConnection(loss: 0, doubling: 0, delay: 0, seed: 0)
    package var back = UnreliableConnection(loss: 0, doubling: 0, delay: 0, seed: 0)
    private var toClient: [[UInt8]] = []

    package init(_ configuration: UDPConfiguration = .ordered, server other: UDPConfiguration? = nil, seed: UInt64 = 1)
        throws
    {
        var client = try startedClient(configuration, seed: seed)
        var server = try SimulatedServer(other ?? configuration)
        exchange(&client, &server)
        self.client = client
        self.server = server
    }

    /// Sets the shares of the datagrams that the network loses, duplicates and delays from now on.
    package mutating func spoil(loss: Double, doubling: Double = 0.1, delay: Double = 0.2, seed: UInt64) {
        there = UnreliableConnection(loss: loss, doubling: doubling, delay: delay, seed: seed)
        back = UnreliableConnection(loss: loss, doubling: doubling, delay: delay, seed: seed &+ 1)
    }

    package var identifier: UInt64 { client.core.connectionID }
    package var wireIdentifier: [UInt8] { withUnsafeBytes(of: identifier.bigEndian, Array.init) }

    /// A packet of this session with these frames.
    package func packet(_ number: UInt8, _ frames: [UInt8]) -> [UInt8] {
        [0x49, 0x4d, 1, 12] + wireIdentifier + [0, 0, 0, 0, 0, 0, 0, number] + frames
    }

    /// The session's core at the server.
    package var session: UDPCore? { server.sessions[identifier] }

    /// Sends a message from the server.
    package mutating func serverSends(_ bytes: [UInt8]) -> SendStatus? {
        var status: SendStatus?
        let datagrams = server.run(identifier) { core, context in
            status = try? core.send(Payload(bytes), id: 0, &context)
        }
        toClient += datagrams
        return status
    }

    /// Carries the sent datagrams one step further, and moves the time.
    package mutating func run() {
        for datagram in there.carry(client.takeDatagrams()) { toClient += server.receive(datagram) }
        let arriving = back.carry(toClient)
        toClient = []
        for datagram in arriving { client.feed(datagram: datagram) }
        client.advance(by: Self.step)
        server.now = client.context.now
        toClient += server.run(identifier) { _, _ in }
    }

    /// Runs until `isDone`, for a limited number of steps, and calls a closure before each step.
    package mutating func run(
        atMost steps: Int,
        until isDone: (borrowing ReliablePair) -> Bool,
        before: (inout ReliablePair) throws -> Void = { _ in }
    ) throws {
        for _ in 0..<steps {
            if isDone(self) { return }
            try before(&self)
            run()
        }
    }
}

extension UDPConfiguration {
    package static var ordered: UDPConfiguration { reliable(.ordered) }

    /// A reliable mode whose receivers finish each message at once, unless the test says otherwise.
    package static func reliable(_ reliability: UDPReliability, confirms: Bool = false) -> UDPConfiguration {
        var configuration = UDPConfiguration(reliability: reliability)
        configuration.confirmsReceipt = confirms
        return configuration
    }
}
