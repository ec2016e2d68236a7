import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import TransportAPI

@Suite("Faults of datagrams", .timeLimit(.minutes(5)), .ownThread)
struct DatagramFaultTests {
    private let plain = "udp://127.0.0.1:0?plain=on"

    /// Sends `count` datagrams. Returns the numbers that arrive at the server, and the statistics of the proxy.
    private func passing(
        _ count: UInt8,
        _ faults: PathFaults,
        seed: UInt64
    ) async throws -> (seen: [UInt8], statistics: FaultStatistics) {
        let pair = try await ProxiedPair(plain, seed: seed)
        await pair.proxy.set(faults)
        for number in 0..<count { #expect(await pair.client.send(Payload([number])).isSuccess) }
        let statistics = await pair.proxy.wait {
            $0.datagramsToServer + $0.lost == UInt64(count) + 1 + $0.duplicated && $0.bufferedBytes == 0
        }
        var seen: [UInt8] = []
        for _ in 1..<statistics.datagramsToServer { seen += try #require(try await pair.server.receive()).bytes }
        await pair.stop()
        return (seen, statistics)
    }

    @Test("The same seed loses the same datagrams, and another seed loses others")
    func loss() async throws {
        let faults = PathFaults(loss: 0.3)
        let (first, statistics) = try await passing(200, faults, seed: 5)
        #expect(try await passing(200, faults, seed: 5).seen == first)
        #expect(try await passing(200, faults, seed: 6).seen != first)
        #expect(first.count + Int(statistics.lost) == 200 && (100..<180).contains(first.count))
        #expect(first == first.sorted())
    }

    @Test("Duplicates arrive twice, and reordered datagrams arrive behind the next one")
    func duplicationAndReordering() async throws {
        let (twice, duplicates) = try await passing(100, PathFaults(duplication: 1), seed: 1)
        #expect(twice == (0..<100).flatMap { [$0, $0] } && duplicates.duplicated == 100)
        let (swapped, reordering) = try await passing(100, PathFaults(reordering: 1), seed: 1)
        // Each datagram lets one pass, if that comes before its hold time ends.
        #expect(swapped.sorted() == Array(0..<100) && swapped != Array(0..<100) && reordering.reordered >= 50)
        #expect(swapped.enumerated().allSatisfy { abs(Int($1) - $0) <= 1 })
        // The last datagram has no other to wait for.
        #expect(try await passing(1, PathFaults(reordering: 1), seed: 1).seen == [0])
    }

    @Test("A flood of datagrams leaves the loop of the proxy to others")
    func flood() async throws {
        let proxy = try await FaultProxy.start(to: Endpoint("udp://127.0.0.1:9?plain=on"), on: EventLoop(), seed: 1)
        let flood = Flood(to: try #require(proxy.endpoint.port))
        let finished = Task { try await aside { flood.run() } }
        // The proxy has received some, and answers while more come.
        var statistics = await proxy.statistics()
        while statistics.connections == 0, !flood.hasEnded { statistics = await proxy.statistics() }
        for _ in 0..<5 { _ = await proxy.statistics() }
        #expect(!flood.hasEnded)
        flood.stop()
        try await finished.value
        await proxy.stop()
    }

    @Test("Jitter loses nothing")
    func jitter() async throws {
        let (seen, _) = try await passing(100, PathFaults(jitter: .milliseconds(5)), seed: 1)
        #expect(seen.sorted() == Array(0..<100))
    }

    @Test("A throttle passes on the datagrams in its line")
    func throttle() async throws {
        #expect(try await passing(50, PathFaults(bytesPerSecond: 500), seed: 1).seen == Array(0..<50))
    }

    @Test("A black hole drops datagrams in one direction or both, and a connection survives it")
    func blackHole() async throws {
        let proxied = try await ProxiedServer("udp")
        let connection = try await proxied.connect()
        for faults in [PathFaults(blackHoleToServer: true), PathFaults(blackHoleToClient: true), .dead] {
            await proxied.proxy.set(faults)
            let before = await proxied.proxy.statistics().swallowed
            #expect(await connection.send(Payload(text: "lost")).isSuccess)
            await proxied.proxy.wait { $0.swallowed == before + 1 }
            await proxied.proxy.set(.none)
            #expect(await connection.send(Payload(text: "found")).isSuccess)
            #expect(try await connection.receive()?.bytes == Array("found".utf8))
        }
        await proxied.stop(connection)
    }

    @Test("The datagrams in flight are limited, and those beyond the limit are dropped and counted")
    func bounded() async throws {
        let pair = try await ProxiedPair(plain)
        await pair.proxy.set(PathFaults(delay: .seconds(3600)))
        let bytes = [UInt8](repeating: 1, count: 1200)
        for number in 0..<400 {
            #expect(await pair.client.send(Payload(bytes)).isSuccess)
            let taken = await pair.proxy.wait { $0.bufferedBytes / 1200 + Int($0.overflowed) == number + 1 }
            #expect(taken.bufferedBytes <= FaultProxy.maximumBufferedBytes)
        }
        #expect(await pair.proxy.statistics().overflowed > 0)
        await pair.stop()
    }

    @Test("After a rebinding, the server sees another address, and a session continues")
    func rebind() async throws {
        // For a server of plain datagrams, each address is a client.
        let pair = try await ProxiedPair(plain)
        await pair.proxy.rebindClients()
        #expect(await pair.client.send(Payload(text: "again")).isSuccess)
        let second = try #require(try await pair.listener.accept())
        #expect(try await second.receive()?.bytes == Array("again".utf8))
        #expect(await second.send(Payload(text: "answer")).isSuccess)
        #expect(try await pair.client.receive()?.bytes == Array("answer".utf8))
        await second.close()
        await pair.stop()

        let proxied = try await ProxiedServer("udp")
        let connection = try await proxied.connect()
        for number in 0..<5 {
            await proxied.proxy.rebindClients()
            #expect(await connection.send(Payload([UInt8(number)])).isSuccess)
            #expect(try await connection.receive()?.bytes == [UInt8(number)])
        }
        await proxied.proxy.cut(.reset)
        #expect(await connection.send(Payload(text: "after a cut")).isSuccess)
        #expect(try await connection.receive()?.bytes == Array("after a cut".utf8))
        await proxied.stop(connection)
    }

    @Test("An open connection that is refused ends with that error")
    func refusedOpen() async throws {
        let proxied = try await ProxiedServer("udp")
        let connection = try await proxied.connect()
        try await proxied.proxy.refuse(true)
        #expect(await connection.send(Payload([1])).isSuccess)
        // Not every undeliverable datagram causes an ICMP error (icmp(7)).
        while await connection.send(Payload([1])).isSuccess {}
        #expect(await connection.closed().error?.code == .refused)
        await proxied.stop()
    }
}

/// Sends datagrams as fast as the system takes them, until it is stopped, and four million at most.
private final class Flood: Sendable {
    private let port: UInt16
    private let state = Locked((isStopped: false, hasEnded: false))

    init(to port: UInt16) {
        self.port = port
    }

    var hasEnded: Bool { state.withLock { $0.hasEnded } }

    func stop() {
        state.withLock { $0.isStopped = true }
    }

    func run() {
        let socket = Foundation.socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
        defer { Foundation.close(socket) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
        withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                for _ in 0..<4_000_000 where !state.withLock({ $0.isStopped }) {
                    _ = sendto(socket, "x", 1, 0, address, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
        }
        state.withLock { $0.hasEnded = true }
    }
}
