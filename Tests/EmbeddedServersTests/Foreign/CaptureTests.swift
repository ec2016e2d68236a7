#if os(Linux)
import EmbeddedServers
import Foundation
import SocketIO
import TestSupport
import Testing
import Transports
import TrialCertificates

/// Compares the bytes that connections count, and imbench reports, with captured packets.
@Suite(
    "A packet capture",
    .enabled(if: geteuid() == 0 && Peers.python != nil, "a capture needs root, and Python"),
    .timeLimit(.minutes(5)),
    .ownThread
)
struct CaptureTests {
    /// All transports with a port, and the modes that send more than the messages. The encrypted ones need OpenSSL.
    static let transports =
        ["tcp", "ws", "mqtt", "mqtt qos=1", "mqtt qos=2", "mqtt+ws", "udp", "udp reliable=ordered"]
        + (hasOpenSSL ? ["tls", "wss", "mqtts", "mqtt+wss", "dtls", "dtls reliable=ordered"] : [])

    @Test("The bytes of a connection with all headers are those of the captured packets", arguments: transports)
    func bytes(transport: String) async throws {
        let words = transport.split(whereSeparator: { " =".contains($0) }).map(String.init)
        let option = words.count == 3 ? Endpoint.Option(name: words[1], value: words[2]) : nil
        var counts = (counted: 0, captured: -1)
        // On a busy machine, TCP may repeat segments. The capture alone has their content.
        for _ in 0..<5 where counts.counted != counts.captured { counts = try await count(words[0], option) }
        #expect(counts.counted == counts.captured)
    }

    /// Exchanges messages over one connection. Returns the bytes that it has counted, and those that were captured.
    private func count(
        _ transport: String,
        _ option: Endpoint.Option?
    ) async throws -> (counted: Int, captured: Int) {
        let server = try await EmbeddedServer.start("\(transport)://127.0.0.1:0", .echo, registry: .trial)
        let port = try #require(server.endpoint.port)
        let python = try #require(Peers.python)
        let capture = try await aside {
            let capture = try Peer(python, ["\(Foreign.support)/capture.py", "\(port)"])
            try #require(capture.wait(for: "ready"))
            return capture
        }
        var endpoint = server.endpoint
        if transport.hasPrefix("mqtt") {
            endpoint.options += [.init(name: "subscribe", value: "t"), .init(name: "publish", value: "t")]
        }
        endpoint.options += [option].compactMap { $0 }
        let connection = try await TransportRegistry.trial.transport(for: endpoint).connect(timeout: .seconds(20))
        for number in 0..<20 {
            let outcome = await connection.send(Payload([UInt8](repeating: 7, count: 1 + number * 50)))
            #expect(outcome == (option?.name == "qos" ? .acknowledged : .written))
            #expect(try await connection.receive()?.bytes.count == 1 + number * 50)
        }
        // The two SYN of TCP have 8 bytes of options more than the segments after them.
        let more = ["udp", "dtls"].contains(transport) ? 0 : 16
        // An acknowledgement of TCP can be late, so both are read until they agree.
        var counts = (counted: 0, captured: -1)
        for _ in 0..<2000 where counts.counted != counts.captured {
            let statistics = await connection.statistics()
            counts.counted =
                Int(statistics.bytesSent + statistics.bytesReceived + (statistics.headerBytes ?? 0)) + more
            counts.captured = try await aside {
                try capture.write("\n")
                return capture.line().flatMap { Int($0) } ?? -1
            }
        }
        await connection.close()
        await server.stop()
        return counts
    }
}
#endif
