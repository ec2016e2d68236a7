import CommandTestSupport
import Foundation
import TestSupport
import Testing
import TransportAPI
import Transports

@testable import CommandSupport
@testable import imbench

/// The memory of a session server under hostile clients, measured from outside its process.
@Suite("A session server", .timeLimit(.minutes(5)), .ownThread)
struct HoardingTests {
    #if os(Linux)
    /// The peak memory of the process, in bytes.
    private func peak(_ process: Int32) throws -> Int {
        let status = try String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)
        let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") })
        return try #require(Int(line.filter(\.isNumber))) << 10
    }

    @Test(
        "Early messages of all sessions need no more memory than max-buffered and 64 MiB",
        .disabled(if: ProcessInfo.processInfo.environment["IM_SANITIZED"] != nil, "a sanitizer's memory would count"),
        arguments: ["tcp", "ws"]
    )
    func hoarding(transport: String) async throws {
        let program = try #require(BuiltProgram.imbench.path)
        let limit = 32 << 20
        let url = "\(transport)://127.0.0.1:0/?max-buffered=\(limit)"
        nonisolated(unsafe) let server = try ChildProcess([program, "serve", "--listen", url, "--chat"])
        let port = try await apart { () -> Substring? in
            while case .line(let line) = server.next(timeout: 20_000) {
                guard line.contains("\(transport)://") else { continue }
                return line.split(separator: ":").last?.prefix { $0.isNumber }
            }
            return nil
        }
        let address = "\(transport)://127.0.0.1:\(try #require(port))"
        let content = Payload([UInt8](repeating: 65, count: 60_000))
        // Together they send eight times as much as the server may buffer.
        try await withThrowingTaskGroup(of: Void.self) { group in
            for client in 1...16 as ClosedRange<UInt64> {
                group.addTask {
                    let connection = try await TransportRegistry.standard.connect(address)
                    let id = SessionID(high: client, low: 1)
                    _ = await connection.send(SessionFrame.hello(id, ClientHello(incarnation: 0, received: 0)).payload)
                    for number in 2...280 as ClosedRange<UInt64> {
                        guard await connection.send(SessionFrame.message(number, content).payload).isSuccess else {
                            break
                        }
                    }
                    await connection.close()
                }
            }
            try await group.waitForAll()
        }
        // It still serves, and has received all that was sent before.
        let connection = try await TransportRegistry.standard.connect(address)
        let hello = SessionFrame.hello(SessionID(high: 99, low: 1), ClientHello(incarnation: 0, received: 0))
        #expect(await connection.send(hello.payload).isSuccess)
        #expect(try await connection.receive() != nil)
        await connection.close()
        #expect(try peak(server.identifier) <= limit + 64 << 20)
    }
    #endif
}
