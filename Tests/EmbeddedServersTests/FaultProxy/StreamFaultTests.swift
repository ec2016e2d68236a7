import EmbeddedServers
import SocketIO
import TestSupport
import Testing
import TransportAPI

@Suite("Faults of streams", .timeLimit(.minutes(5)), .ownThread)
struct StreamFaultTests {
    private let url = "tcp://127.0.0.1:0"

    @Test("A black hole holds the bytes to the server and delivers them in order when it ends")
    func blackHoleToServer() async throws {
        let pair = try await ProxiedPair(url)
        await pair.proxy.set(PathFaults(blackHoleToServer: true))
        for number in 0..<20 { #expect(await pair.client.send(Payload([UInt8(number)])).isSuccess) }
        await pair.proxy.wait { $0.bufferedBytes >= 40 }
        // The other direction still works.
        #expect(await pair.server.send(Payload(text: "this way")).isSuccess)
        #expect(try await pair.client.receive()?.bytes == Array("this way".utf8))
        let before = await pair.proxy.statistics().bytesToServer
        await pair.proxy.set(.none)
        for number in 0..<20 { #expect(try await pair.server.receive()?.bytes == [UInt8(number)]) }
        #expect(await pair.proxy.statistics().bytesToServer > before)
        await pair.stop()
    }

    @Test("A black hole holds the bytes to the client and delivers them when it ends")
    func blackHoleToClient() async throws {
        let pair = try await ProxiedPair(url)
        await pair.proxy.set(PathFaults(blackHoleToClient: true))
        #expect(await pair.server.send(Payload([1])).isSuccess)
        await pair.proxy.wait { $0.bufferedBytes > 0 }
        #expect(await pair.client.send(Payload([2])).isSuccess)
        #expect(try await pair.server.receive()?.bytes == [2])
        #expect(await pair.proxy.statistics().bytesToClient == 0)
        await pair.proxy.set(.none)
        #expect(try await pair.client.receive()?.bytes == [1])
        await pair.stop()
    }

    @Test("A close frame waits in a dead path")
    func deadHidesClose() async throws {
        let pair = try await ProxiedPair(url)
        await pair.proxy.set(.dead)
        let closing = Task { await pair.client.close() }
        await pair.proxy.wait { $0.bufferedBytes > 0 }
        #expect(await pair.proxy.statistics().openConnections == 1)
        #expect(await pair.server.send(Payload([2])).isSuccess)
        await pair.proxy.set(.none)
        #expect(await pair.server.closed().initiator == .peer)
        _ = await closing.value
        await pair.stop()
    }

    @Test("A dead path hides a reset until it heals")
    func deadHidesReset() async throws {
        let pair = try await ProxiedPair(url)
        let before = try await FaultProxy.start(to: pair.proxy.endpoint, seed: 1)
        async let accepted = pair.listener.accept()
        let client = try await ProxiedServer.registry.transport(for: before.endpoint).connect(timeout: .seconds(20))
        let server = try #require(try await accepted)
        await pair.proxy.set(.dead)
        await before.cut(.reset)
        #expect(await client.closed().error?.code == .connectionReset)
        for _ in 0..<3 { #expect(await server.send(Payload([1])).isSuccess) }
        #expect(await pair.proxy.statistics().openConnections == 2)
        // One open direction is enough for the reset to pass.
        await pair.proxy.set(PathFaults(blackHoleToClient: true))
        #expect(await server.closed().error?.code == .connectionReset)
        await before.stop()
        await pair.stop()
    }

    @Test("Memory is limited while a path is dead, and nothing is lost", arguments: [false, true])
    func bounded(toClient: Bool) async throws {
        let pair = try await ProxiedPair(url)
        let (sender, receiver) = toClient ? (pair.server, pair.client) : (pair.client, pair.server)
        await pair.proxy.set(.dead)
        let bytes = longBytes(300_000)
        let sending = Task { for _ in 0..<30 { #expect(await sender.send(Payload(bytes)).isSuccess) } }
        await pair.proxy.wait { $0.bufferedBytes == FaultProxy.maximumBufferedBytes }
        for _ in 0..<100 {
            #expect(await pair.proxy.statistics().bufferedBytes == FaultProxy.maximumBufferedBytes)
            await Task.yield()
        }
        await pair.proxy.set(.none)
        for _ in 0..<30 { #expect(try await receiver.receive()?.bytes == bytes) }
        await sending.value
        await pair.stop()
    }

    @Test("Memory is limited while one side does not read, and nothing is lost")
    func neverReading() async throws {
        let pair = try await ProxiedPair(url + "?inbox=1")
        let bytes = [UInt8](repeating: 3, count: 1_000_000)
        let sending = Task { for _ in 0..<40 { #expect(await pair.client.send(Payload(bytes)).isSuccess) } }
        await pair.proxy.wait { $0.bufferedBytes == FaultProxy.maximumBufferedBytes }
        for _ in 0..<40 {
            #expect(await pair.proxy.statistics().bufferedBytes <= 2 * FaultProxy.maximumBufferedBytes)
            #expect(try await pair.server.receive()?.bytes.count == bytes.count)
        }
        await sending.value
        await pair.stop()
    }

    @Test(
        "Delay, jitter and throttle change neither bytes nor order",
        arguments: [
            PathFaults(delay: .milliseconds(2)), PathFaults(delay: .milliseconds(1), jitter: .milliseconds(8)),
            PathFaults(bytesPerSecond: 400_000),
            PathFaults(delay: .milliseconds(1), jitter: .milliseconds(3), bytesPerSecond: 300_000),
        ]
    )
    func ordered(faults: PathFaults) async throws {
        let pair = try await ProxiedPair(url)
        await pair.proxy.set(faults)
        let tail = [UInt8](repeating: 9, count: 1500)
        for number in 0..<40 { #expect(await pair.client.send(Payload([UInt8(number)] + tail)).isSuccess) }
        for number in 0..<40 { #expect(try await pair.server.receive()?.bytes == [UInt8(number)] + tail) }
        await pair.stop()
    }

    @Test("A proxy works with the portable poller too")
    func portablePoller() async throws {
        let loop = try EventLoop(poller: .portable)
        let server = try await EmbeddedServer.start(url)
        let proxy = try await FaultProxy.start(to: server.endpoint, on: loop, seed: 1)
        let transport = try ProxiedServer.registry.transport(for: proxy.endpoint)
        for how in FaultProxy.Cut.allCases {
            let connection = try await transport.connect(timeout: .seconds(20))
            let bytes = [UInt8](repeating: 5, count: 3_000_000)
            await proxy.set(.dead)
            async let outcome = connection.send(Payload(bytes))
            await proxy.wait { $0.bufferedBytes == FaultProxy.maximumBufferedBytes }
            await proxy.set(.none)
            #expect(try await connection.receive()?.bytes == bytes)
            #expect(await outcome.isSuccess)
            await proxy.cut(how)
            #expect(await connection.closed().initiator == .network)
        }
        await proxy.wait { $0.openConnections == 0 }
        await proxy.stop()
        await server.stop()
    }

    @Test("Bytes wait for a delay or a throttle, and its removal takes effect at once")
    func changes() async throws {
        for faults in [PathFaults(delay: .seconds(3600)), PathFaults(bytesPerSecond: 1)] {
            let pair = try await ProxiedPair(url)
            await pair.proxy.set(faults)
            #expect(await pair.client.send(Payload([UInt8](repeating: 1, count: 1000))).isSuccess)
            await pair.proxy.wait { $0.bufferedBytes > 900 }
            await pair.proxy.set(.none)
            #expect(try await pair.server.receive()?.bytes.count == 1000)
            #expect(await pair.proxy.statistics().bufferedBytes == 0)
            await pair.stop()
        }
    }
}
