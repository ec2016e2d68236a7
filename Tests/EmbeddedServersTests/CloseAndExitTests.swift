import EmbeddedServers
import Foundation
import TestSupport
import Testing
import TransportAPI
import Transports

/// Starts processes that send 4 MB to a slow reader, close, and exit at once. `IM_CLOSE_RUNS` sets the number of runs.
/// The default is 1.
@Suite("A process that exits after it has closed its connection", .timeLimit(.minutes(15)), .ownThread)
struct CloseAndExitTests {
    private static let bytes = 4_000_000
    private static let runs = ProcessInfo.processInfo.environment["IM_CLOSE_RUNS"].flatMap(Int.init) ?? 1
    /// A reader that takes 4 MB in two seconds.
    private static let slow = PathFaults(bytesPerSecond: 2_000_000)

    /// Runs the process to its end. Returns its first line of output and its exit status.
    private func send(to url: String) async throws -> (line: String?, status: Int32) {
        let program = try #require(Peers.closeAndExit)
        return try await aside {
            let process = try Peer(program, [url, "\(Self.bytes)"])
            return (process.line(), try process.finish())
        }
    }

    @Test("A slow reader receives every byte of a process that closes and exits", arguments: ["tcp", "ws"])
    func streams(transport: String) async throws {
        for _ in 0..<Self.runs {
            let listener = try await TransportRegistry.standard.listen("\(transport)://127.0.0.1:0")
            let proxy = try await FaultProxy.start(to: listener.endpoint, seed: 1)
            await proxy.set(Self.slow)
            async let sent = send(to: proxy.endpoint.description)
            let connection = try #require(try await listener.accept())
            var received = 0
            while let message = try await connection.receive() { received += message.bytes.count }
            let (line, status) = try await sent
            #expect(received == Self.bytes && status == 0 && line == "0")
            await listener.close()
            await proxy.stop()
        }
    }

    @Test(
        "A slow broker receives every byte of a process that closes and exits, and publishes no will",
        arguments: ["mqtt", "mqtt+ws"]
    )
    func broker(transport: String) async throws {
        for _ in 0..<Self.runs {
            let server = try await EmbeddedServer.start("\(transport)://127.0.0.1:0")
            let proxy = try await FaultProxy.start(to: server.endpoint, seed: 1)
            await proxy.set(Self.slow)
            let registry = TransportRegistry.standard
            let port = try #require(server.endpoint.port)
            let reader = try await registry.connect("\(transport)://127.0.0.1:\(port)/?subscribe=data")
            let heir = try await registry.connect("\(transport)://127.0.0.1:\(port)/?subscribe=will&publish=will")
            let address = "\(transport)://127.0.0.1:\(try #require(proxy.endpoint.port))/"
            let reading = Task {
                var received = 0
                while received < Self.bytes, let message = try? await reader.receive() {
                    received += message.bytes.count
                }
                return received
            }
            let (line, status) = try await send(to: address + "?publish=data&will-topic=will&will-message=gone")
            // Otherwise, the reader would wait for bytes that never come.
            if status != 0 || line != "0" { reading.cancel() }
            let received = await reading.value
            #expect(received == Self.bytes && status == 0 && line == "0", "\(received) bytes, \(status), \(line ?? "")")
            // When the broker has seen the end of the connection, it would publish a will before this message.
            try await Task.yield(while: await proxy.statistics().openConnections > 0)
            #expect(await heir.send(Payload(text: "no will")) == .written)
            #expect(try await heir.receive()?.bytes.elementsEqual("no will".utf8) == true)
            for connection in [reader, heir] { await connection.close() }
            await proxy.stop()
            await server.stop()
        }
    }
}
