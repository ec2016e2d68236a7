import TestSupport
import TransportAPI

@testable import Protocols
@testable import Transports

/// A client and a server of the reliable mode in virtual time, without sockets. The network between them loses, doubles and
/// delays datagrams by a seed.
struct ReliableWorld: ~Copyable {
    /// The properties of the network after the handshake.
    struct Network {
        /// The shares of datagrams that are lost, doubled, and late by up to ``longestLateness``.
        var (loss, doubling, lateness) = (0.0, 0.0, 0.0)
        var delay = Duration.milliseconds(20)
        var longestLateness = Duration.milliseconds(60)
        /// Longer datagrams are lost.
        var largest = Int.max
        /// The interval at which a NAT changes the client's address, ten times. After that the client pings at this interval,
        /// like a keepalive. Otherwise the server could not find a client that has nothing to send.
        var rebinding: Duration?
    }

    /// A deliberate fault that the checks must find.
    enum Flaw {
        case none
        /// The server forgets what it has received.
        case forgetsDoubles
        /// The client sends nothing again.
        case neverRepeats
    }

    private struct Flight {
        var at: Instant
        var toServer: Bool
        var address: [UInt8]
        var bytes: [UInt8]
    }

    var client: CoreHarness<UDPCore>
    var server: SimulatedServer
    let network: Network
    let flaw: Flaw
    /// A check that failed, if any.
    private(set) var failedCheck: String?
    /// The bytes that the client (`there`) and the server (`back`) have sent.
    private(set) var bytes = (there: 0, back: 0)
    private var path: PathValidator<[UInt8]>
    private var address: [UInt8] = [127, 0, 0, 1, 0, 80]
    private var rebindAt: Instant?
    private var rebindings = 0
    private var flights: [Flight] = []
    private var random: RandomSource
    private var sentPieces: Set<[UInt8]> = []

    init(_ configuration: UDPConfiguration, _ network: Network, flaw: Flaw = .none, seed: UInt64) throws {
        var client = try startedClient(configuration, seed: seed)
        var server = try SimulatedServer(configuration, seed: seed &+ 1)
        exchange(&client, &server, address: address)
        self.client = client
        self.server = server
        self.network = network
        self.flaw = flaw
        path = PathValidator(address)
        random = .seeded(seed &+ 2)
        rebindAt = network.rebinding.map { Instant.zero.advanced(by: $0) }
    }

    var now: Instant { client.context.now }
    var identifier: UInt64 { client.core.connectionID }
    var session: UDPCore? { server.sessions[identifier] }

    /// Sends a message from the server. Returns whether the session accepted it.
    mutating func serverSends(_ bytes: [UInt8]) -> Bool {
        var status: SendStatus?
        let answers = server.run(identifier) { core, context in status = try? core.send(Payload(bytes), id: 0, &context)
        }
        launch(answers)
        return status == .written
    }

    /// Advances to the next event. Returns `false` if there is none before `end`.
    mutating func step(until end: Instant) -> Bool {
        for datagram in client.takeDatagrams() { launch(datagram, toServer: true, address) }
        var session = session
        let deadlines = [client.failure == nil ? client.core.deadline : nil, session?.deadline, rebindAt]
        let next = (flights.map(\.at) + deadlines.compactMap(\.self)).min() ?? end
        guard next < end else { return false }
        client.advance(by: client.context.now.duration(to: max(now, next)))
        server.now = now
        if let rebindAt, rebindAt <= now, let rebinding = network.rebinding {
            rebindings += 1
            if rebindings <= 10 { address[5] &+= 1 } else { try? client.core.ping(&client.context) }
            self.rebindAt = rebindings == 50 ? nil : now.advanced(by: rebinding)
        }
        launch(server.run(identifier) { _, _ in })
        let present = now
        let due = flights.filter { $0.at <= present }
        flights.removeAll { $0.at <= present }
        for flight in due { arrive(flight) }
        checkBounds()
        return true
    }

    private mutating func arrive(_ flight: Flight) {
        guard flight.toServer else {
            if flight.address == address, client.failure == nil { client.feed(datagram: flight.bytes) }
            return
        }
        if flaw == .forgetsDoubles {
            server.sessions[identifier]?.reliable?.received = ReceivedPackets()
            server.sessions[identifier]?.reliable?.receiver.finished = NumberRanges()
        }
        var datagram = ByteBuffer()
        datagram.append(contentsOf: flight.bytes)
        if let token = path.heard(datagram, from: flight.address, now, &random) { sendPing(token) }
        launch(server.receive(flight.bytes, from: flight.address))
    }

    private mutating func sendPing(_ token: UInt64) {
        var ping = ByteBuffer()
        Datagram.append(.ping, identifier, token, to: &ping)
        path.sent(ping.count)
        launch(ping.bytes(at: 0, count: ping.count) ?? [], toServer: false, path.address)
    }

    /// Sends the session's datagrams to the address of its path.
    private mutating func launch(_ answers: [[UInt8]]) {
        if !answers.isEmpty, let token = path.question(now) { sendPing(token) }
        for answer in answers where path.maySend(answer.count, now) {
            path.sent(answer.count)
            launch(answer, toServer: false, path.address)
        }
    }

    private mutating func launch(_ bytes: [UInt8], toServer: Bool, _ address: [UInt8]) {
        if toServer { self.bytes.there += bytes.count } else { self.bytes.back += bytes.count }
        if flaw == .neverRepeats, toServer, repeatsPiece(bytes) { return }
        guard bytes.count <= network.largest, !chance(network.loss) else { return }
        for _ in 0..<(chance(network.doubling) ? 2 : 1) {
            let late =
                chance(network.lateness) ? network.longestLateness * Int.random(in: 0...8, using: &random) / 8 : .zero
            flights.append(
                Flight(at: now.advanced(by: network.delay + late), toServer: toServer, address: address, bytes: bytes)
            )
        }
    }

    private mutating func chance(_ share: Double) -> Bool { Double.random(in: 0..<1, using: &random) < share }

    /// Whether the first piece of a packet begins like one that was sent before.
    private mutating func repeatsPiece(_ bytes: [UInt8]) -> Bool {
        guard bytes.count > 46, bytes[3] == 12 else { return false }
        let piece = bytes.dropFirst(bytes[20] == 3 ? 46 + 8 * Int(bytes[41]) : 20).prefix(19)
        return piece.first.map { $0 < 3 } == true && !sentPieces.insert(Array(piece)).inserted
    }

    private mutating func checkBounds() {
        for core in [client.core, session].compactMap(\.self) {
            guard let reliable = core.reliable else { continue }
            let (receiver, sender) = (reliable.receiver, reliable.sender)
            if receiver.held > receiver.terms.window { failedCheck = "more is buffered than the window allows" }
            if sender.pieces.buffered > core.configuration.reliableBuffer
                + ReliableTerms.cost(reliable.maximumMessageSize)
            {
                failedCheck = "more is queued than the limit allows"
            }
            if sender.packets.waiting.count > SentPackets.maximum + 100 {
                failedCheck = "too many packets are remembered"
            }
            if sender.pieces.lost.count > 3000 { failedCheck = "too many pieces are queued to be sent again" }
            if sender.window.bytesInFlight < 0 { failedCheck = "a negative number of bytes is in flight" }
        }
    }
}
