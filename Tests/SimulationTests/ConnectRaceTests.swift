import SocketIO
import Testing

@testable import Simulation

@Suite("A race of connections to several addresses")
struct ConnectRaceTests {
    private final class Result: @unchecked Sendable {
        // Unchecked, because only the simulating thread uses it.
        var starts: [Int64] = []
        var isConnected: Bool?
    }

    private static let millisecond: Int64 = 1_000_000

    /// The first addresses refuse a connection after 100 ms, and the others do not answer.
    @Test("An attempt starts at once after a failure, and otherwise 250 ms after the one before", arguments: [0, 1, 2])
    func stagger(refusing: Int) {
        let world = SimulatedWorld(seed: 3)
        let client = world.startProcess("client")
        let loop = world.makeLoop(in: client)
        let hosts: [UInt32] = [0x0a09_0001, 0x0a09_0002, 0x0a09_0003, 0x0a09_0004, 0x0a09_0005]
        for (index, host) in hosts.enumerated() {
            var path = world.kernel.path(client.host, host)
            path.latency = 50_000_000...50_000_000
            if index >= refusing { path.cutUntil = .max }
            world.kernel.setPath(client.host, host, path)
        }
        world.addresses["several"] = hosts.indices.map { "10.9.0.\($0 + 1)" }
        let result = Result()
        world.trace.print = { [unowned world] line in
            if line.contains(" connects ") { result.starts.append(world.now) }
        }
        world.run(in: client) {
            _ = Task(executorPreference: loop) {
                do throws(ConnectError) {
                    let deadline = world.now + 3000 * Self.millisecond
                    _ = try await StreamSocket.connect(to: "several", port: 9, on: loop, deadline: deadline)
                    result.isConnected = true
                } catch {
                    result.isConnected = false
                }
            }
        }
        let stop = world.run(until: world.now + 10_000 * Self.millisecond, steps: 100_000) { result.isConnected != nil }
        #expect(stop == .met && result.isConnected == false && world.kernel.openDescriptors == 0)
        let gaps = zip(result.starts, result.starts.dropFirst()).map {
            ($1 - $0 + Self.millisecond / 2) / Self.millisecond
        }
        #expect(gaps == hosts.indices.dropLast().map { $0 < refusing ? 100 : 250 })
    }
}
