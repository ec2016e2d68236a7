import TestSupport
import Testing
import TransportAPI

@testable import Protocols

/// Which session a full server closes for a new one.
@Suite("UDP: a full server")
struct SessionTableTests {
    private static func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    /// A client after its handshake, which the server has accepted or refused.
    private static func connect(
        _ seed: UInt64,
        to server: inout SimulatedServer,
        at milliseconds: Int64,
        network: Int = 0
    ) throws -> UDPCore {
        var client = CoreHarness(try UDPCore(client: UDPConfiguration()), seed: seed, now: at(milliseconds))
        client.start()
        exchange(&client, &server, address: [UInt8(seed & 255), UInt8(seed >> 8)], network: network)
        return client.core
    }

    private static func sendPing(_ client: UDPCore, to server: inout SimulatedServer, at milliseconds: Int64) {
        server.now = at(milliseconds)
        let id = withUnsafeBytes(of: client.connectionID.bigEndian, Array.init)
        _ = server.receive([0x49, 0x4d, 1, 6] + id + [0, 0, 0, 0, 0, 0, 0, 1])
    }

    @Test(
        "A new client replaces a session that sent nothing, then the longest silent one, but not before 1 s"
    )
    func places() throws {
        var server = try SimulatedServer(UDPConfiguration(maximumSessions: 3))
        let speaker = try Self.connect(1, to: &server, at: 0)
        Self.sendPing(speaker, to: &server, at: 10)
        let mute = try Self.connect(2, to: &server, at: 20)
        let other = try Self.connect(3, to: &server, at: 30)
        let tooEarly = try Self.connect(4, to: &server, at: 1019)
        #expect(tooEarly.phase == .done && server.displaced.isEmpty && server.refusals.last == .full)
        let fourth = try Self.connect(5, to: &server, at: 1020)
        #expect(fourth.phase == .open && server.displaced == [mute.connectionID])
        let fifth = try Self.connect(6, to: &server, at: 1100)
        #expect(fifth.phase == .open && server.displaced.last == other.connectionID)
        for client in [fourth, fifth] { Self.sendPing(client, to: &server, at: 1200) }
        Self.sendPing(speaker, to: &server, at: 1500)
        Self.sendPing(fourth, to: &server, at: 1600)
        let sixth = try Self.connect(7, to: &server, at: 2550)
        #expect(sixth.phase == .open && server.displaced.last == fifth.connectionID)
        #expect(server.listener.sessionCount == 3)
    }

    @Test("Clients of a network that fills a server replace each other, whatever they have sent")
    func crowd() throws {
        var server = try SimulatedServer(UDPConfiguration(maximumSessions: 64))
        let honest = try Self.connect(1, to: &server, at: 0, network: 1)
        Self.sendPing(honest, to: &server, at: 1)
        for seed in 2...64 as ClosedRange<UInt64> {
            Self.sendPing(try Self.connect(seed, to: &server, at: 5000, network: 2), to: &server, at: 5001)
        }
        for seed in 100..<160 as Range<UInt64> {
            let client = try Self.connect(seed, to: &server, at: 7000, network: 2)
            #expect(client.phase == .open)
            Self.sendPing(client, to: &server, at: 7000)
        }
        #expect(server.displaced.count == 60 && !server.displaced.contains(honest.connectionID))
    }

    @Test("Forged addresses replace each other, but no plain session that has sent more than once")
    func plain() throws {
        var server = try SimulatedServer(UDPConfiguration(isPlain: true, maximumSessions: 4))
        for address in [1, 1, 2, 2] as [UInt8] { _ = server.receive([1], from: [address]) }
        for number in 0..<200 {
            server.now = Self.at(Int64(number) * 600)
            _ = server.receive([1], from: [9, UInt8(number)])
        }
        #expect(server.displaced.count > 90 && server.listener.sessionCount == 4)
        for address in [1, 2] as [UInt8] { _ = server.receive([2], from: [address]) }
        #expect(server.messages.suffix(2) == [[2], [2]] && server.drops.allSatisfy { $0 == .full })
        let before = server.opened
        _ = server.receive([3], from: [1])
        #expect(server.opened == before)
    }

    @Test("One network has a limited number of sessions, until one of them ends")
    func perAddress() throws {
        var server = try SimulatedServer(UDPConfiguration(maximumPerAddress: 2))
        let first = try Self.connect(1, to: &server, at: 0, network: 1)
        _ = try Self.connect(2, to: &server, at: 0, network: 1)
        let third = try Self.connect(3, to: &server, at: 5000, network: 1)
        #expect(third.phase == .done && server.refusals.last == .crowded && server.displaced.isEmpty)
        let outsider = try Self.connect(4, to: &server, at: 5000, network: 2)
        #expect(outsider.phase == .open)
        server.listener.remove(first.connectionID, now: server.now)
        let next = try Self.connect(5, to: &server, at: 5000, network: 1)
        #expect(next.phase == .open)
        #expect(refusedKey { try UDPCore(client: UDPConfiguration(maximumPerAddress: 0)) } == "maximumPerAddress")
    }

    @Test(
        "The session table agrees with a plain list through random arrivals, messages and departures",
        arguments: 0..<8 as Range<UInt64>
    )
    func model(seed: UInt64) {
        var random = RandomSource.seeded(seed)
        var table = SessionTable(limit: 128)
        var model: [(id: UInt64, rank: Int, heard: Int64, isOfCrowd: Bool)] = []
        var networks = [Int](repeating: 0, count: 3)
        var home: [UInt64: Int] = [:]
        for step in 0..<500 as Range<Int64> {
            let now = Self.at(step * 150)
            switch Int.random(in: 0..<5, using: &random) {
            case 0, 1:
                let network = Int.random(in: 0..<3, using: &random)
                let id = UInt64(step)
                model.append((id, 0, step, networks[network] >= 2))
                networks[network] += 1
                home[id] = network
                table.insert(id, attempt: id + 1, network: network, now)
            case 2, 3:
                guard let index = model.indices.randomElement(using: &random) else { break }
                let known = model.remove(at: index)
                model.append((known.id, known.isOfCrowd ? 1 : 2, step, known.isOfCrowd))
                let isKnown = table.heard(known.id, now)
                #expect(isKnown)
            default:
                guard let index = model.indices.randomElement(using: &random) else { break }
                let id = model.remove(at: index).id
                networks[home[id] ?? 0] -= 1
                let (attempt, again, isKnown) = (table.remove(id), table.remove(id), table.heard(id, now))
                #expect(attempt == id + 1 && again == nil && !isKnown && !table.contains(id))
            }
            var (expected, rank): (UInt64?, Int) = (nil, 0)
            while expected == nil, rank < 3 {
                let line = model.filter { $0.rank == rank }
                if let first = line.min(by: { $0.heard < $1.heard }), step - first.heard >= 7 {
                    expected = first.id
                } else {
                    rank = line.count >= 2 ? 3 : rank + 1
                }
            }
            #expect(table.mostSilent(now, onlyMute: false) == expected)
            #expect(table.mostSilent(now, onlyMute: true) == (rank == 0 ? expected : nil))
            #expect(table.count == model.count && (0..<3).allSatisfy { table.count(of: $0) == networks[$0] })
        }
    }
}
