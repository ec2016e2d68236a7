import Testing
import TransportAPI
import Transports

@testable import EmbeddedServers
@testable import Simulation

@Suite("Simulated world")
struct SimulatedWorldTests {
    /// The result of echoing some messages.
    private struct Echoed: Equatable {
        var sent: [[UInt8]] = []
        var returned: [[UInt8]] = []
        var error: String?
        var stop: SimulatedWorld.Stop
        var descriptors: Int
        /// How long the client's close took, in nanoseconds.
        var closeTook: Int64
        var digest: UInt64
    }

    private final class Shared: @unchecked Sendable {
        var sent: [[UInt8]] = []
        var returned: [[UInt8]] = []
        var error: String?
        var closeTook: Int64 = 0
        var isDone = false
    }

    /// Sends messages to an echo server, all in virtual time, and closes both.
    private func echo(_ scheme: String, seed: UInt64, onLoop: Bool = true, hasEdges: Bool = true) -> Echoed {
        let world = SimulatedWorld(seed: seed)
        let (server, client) = (world.startProcess("server"), world.startProcess("client"))
        let serverLoop = world.makeLoop(in: server, hasEdges: hasEdges)
        let clientLoop = world.makeLoop(in: client, hasEdges: hasEdges)
        let shared = Shared()
        let registry = TransportRegistry.encrypted(by: TLSContexts(ToyTLS(seed: seed)))
        let work: @Sendable () async -> Void = {
            do {
                let echo = try await EmbeddedServer.start(
                    "\(scheme)://\(server.hostName):0",
                    on: serverLoop,
                    registry: registry
                )
                let connection = try await registry.connect(echo.endpoint.description, on: clientLoop)
                for length in [0, 1, 100, 1000] {
                    let bytes = [UInt8](repeating: UInt8(length & 255), count: length)
                    shared.sent.append(bytes)
                    _ = await connection.send(Payload(bytes))
                    if let back = try await connection.receive() { shared.returned.append(back.bytes) }
                }
                let began = world.now
                await connection.close()
                shared.closeTook = world.now - began
                await echo.stop()
            } catch {
                shared.error = "\(error)"
            }
            shared.isDone = true
        }
        world.run(in: client) {
            _ = Task(executorPreference: onLoop ? clientLoop : nil) { await work() }
        }
        let stop = world.run(until: world.now + 60_000_000_000, steps: 100_000) { shared.isDone }
        _ = world.run(until: world.now + 600_000_000_000, steps: 100_000)
        return Echoed(
            sent: shared.sent,
            returned: shared.returned,
            error: shared.error,
            stop: stop,
            descriptors: world.kernel.openDescriptors,
            closeTook: shared.closeTook,
            digest: world.trace.digest
        )
    }

    @Test(
        "An echo server answers over each transport in virtual time and leaves no descriptor open",
        arguments: ["tcp", "ws", "udp", "tls", "wss"]
    )
    func echoes(_ scheme: String) {
        for (onLoop, hasEdges) in [(true, true), (true, false), (false, true)] {
            let result = echo(scheme, seed: 7, onLoop: onLoop, hasEdges: hasEdges)
            #expect(result.error == nil)
            #expect(result.stop == .met)
            #expect(result.returned == result.sent && result.sent.count == 4)
            #expect(result.descriptors == 0)
        }
    }

    /// The answer may arrive together with the end of the stream. The poller behaves as epoll(7) or as poll(2).
    @Test(
        "A connection closes as soon as its peer has answered, with either kind of poller",
        arguments: [true, false]
    )
    func closes(hasEdges: Bool) {
        for seed: UInt64 in 1...20 {
            for scheme in ["tcp", "ws", "tls", "wss"] {
                let result = echo(scheme, seed: seed, hasEdges: hasEdges)
                #expect(result.closeTook > 0 && result.closeTook < 1_000_000_000)
            }
        }
    }

    @Test("The same seed gives the same trace, and another seed gives another trace", arguments: ["tcp", "udp", "tls"])
    func isDeterministic(_ scheme: String) {
        let first = echo(scheme, seed: 11)
        #expect(echo(scheme, seed: 11) == first)
        #expect(echo(scheme, seed: 12).digest != first.digest)
        let elsewhere = echo(scheme, seed: 11, onLoop: false)
        #expect(echo(scheme, seed: 11, onLoop: false) == elsewhere)
    }

    @Test("A server ends a client without a TLS handshake after its limit", arguments: [false, true])
    func silentClient(beginsRecord: Bool) {
        let world = SimulatedWorld(seed: 5)
        let (server, client) = (world.startProcess("server"), world.startProcess("client"))
        let (serverLoop, clientLoop) = (world.makeLoop(in: server), world.makeLoop(in: client))
        let registry = TransportRegistry.encrypted(by: TLSContexts(ToyTLS(seed: 5)))
        let shared = Shared()
        world.run(in: client) {
            _ = Task(executorPreference: clientLoop) {
                do {
                    let echo = try await EmbeddedServer.start(
                        "tls://\(server.hostName):0?tls-timeout=3s",
                        on: serverLoop,
                        registry: registry
                    )
                    let url = "tcp://\(server.hostName):\(echo.endpoint.port ?? 0)?framing=u16"
                    let began = world.now
                    let connection = try await registry.connect(url, on: clientLoop)
                    // The header of a record, of which the rest does not come.
                    if beginsRecord {
                        _ = await connection.send(Payload([3, 0x40, 0] + [UInt8](repeating: 7, count: 0x1600)))
                    }
                    _ = await connection.closed()
                    shared.closeTook = world.now - began
                    await echo.stop()
                } catch {
                    shared.error = "\(error)"
                }
                shared.isDone = true
            }
        }
        let stop = world.run(until: world.now + 60_000_000_000, steps: 100_000) { shared.isDone }
        #expect(stop == .met && shared.error == nil)
        #expect((3_000_000_000..<3_100_000_000).contains(shared.closeTook))
        #expect(world.kernel.openDescriptors == 0)
    }

    @Test("A client gives up when the server does not answer its TLS handshake")
    func silentServer() {
        let world = SimulatedWorld(seed: 5)
        let (server, client) = (world.startProcess("server"), world.startProcess("client"))
        let (serverLoop, clientLoop) = (world.makeLoop(in: server), world.makeLoop(in: client))
        let registry = TransportRegistry.encrypted(by: TLSContexts(ToyTLS(seed: 5)))
        let shared = Shared()
        world.run(in: client) {
            _ = Task(executorPreference: clientLoop) {
                var began = world.now
                do {
                    let echo = try await EmbeddedServer.start(
                        "tls://\(server.hostName):0",
                        on: serverLoop,
                        registry: registry
                    )
                    server.pausedUntil = .max
                    began = world.now
                    _ = try await registry.connect(echo.endpoint.description, on: clientLoop, timeout: .seconds(4))
                } catch let error as TransportError {
                    shared.error = "\(error.phase) \(error.code)"
                } catch {
                    shared.error = "\(error)"
                }
                shared.closeTook = world.now - began
                shared.isDone = true
            }
        }
        let stop = world.run(until: world.now + 60_000_000_000, steps: 100_000) { shared.isDone }
        #expect(stop == .met && shared.error == "secure timedOut")
        #expect((4_000_000_000..<4_100_000_000).contains(shared.closeTook))
    }
}
