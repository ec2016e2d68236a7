import Foundation
import Testing
import TransportAPI
import Transports

/// Our client under the Autobahn test suite; `scripts/autobahn client` starts the suite and judges its report.
///
/// The suite's server plays a case on each connection, and wants every message back in its kind.
@Suite("Autobahn", .enabled(if: AutobahnTests.url != nil))
struct AutobahnTests {
    private static let environment = ProcessInfo.processInfo.environment
    private static let url = environment["AUTOBAHN_URL"]
    private static let options = environment["AUTOBAHN_OPTIONS"].map { "&\($0)" } ?? ""
    private static let agent = "agent=im-transports"

    @Test("the client plays every case of the suite")
    func cases() async throws {
        let counting = try await connect("/getCaseCount", "")
        let answer = try #require(try await counting.receive())
        let count = try #require(Int(String(decoding: answer.bytes, as: UTF8.self)))
        _ = await counting.closed()
        #expect(count > 0)
        for number in 1...max(count, 1) {
            await echo(try await connect("/runCase", "case=\(number)&\(Self.agent)"))
        }
        // This alone writes the report.
        _ = await (try await connect("/updateReports", Self.agent)).closed()
    }

    private func connect(_ path: String, _ query: String) async throws -> any Link {
        let encoded = query.replacing("=", with: "%3D").replacing("&", with: "%26")
        let url = try #require(Self.url)
        return try await TransportRegistry.standard.connect("\(url)\(path)?query=\(encoded)\(Self.options)")
    }

    /// Sends everything back until the link ends; many cases end it by an error, on purpose.
    private func echo(_ link: any Link) async {
        while let message = try? await link.receive() {
            guard await link.send(message).isSuccess else { break }
        }
        _ = await link.closed()
    }
}
