import Foundation
import Testing
import TransportAPI
import Transports

/// How the tests are told that the suite's server runs, and how to talk to it.
private enum Autobahn {
    private static let environment = ProcessInfo.processInfo.environment
    static let url = environment["AUTOBAHN_URL"]
    static let options = environment["AUTOBAHN_OPTIONS"].map { "&\($0)" } ?? ""
    static let agent = "agent=im-transports"
}

/// Our client under the Autobahn test suite; `scripts/autobahn client` starts the suite and judges its report.
///
/// The suite's server plays a case on each connection, and wants every message back in its kind.
@Suite("Autobahn", .enabled(if: Autobahn.url != nil))
struct AutobahnTests {
    @Test("the client plays every case of the suite")
    func cases() async throws {
        let counting = try await connect("/getCaseCount", "")
        let answer = try #require(try await counting.receive())
        let count = try #require(Int(String(decoding: answer.bytes, as: UTF8.self)))
        _ = await counting.closed()
        #expect(count > 0)
        for number in 1...max(count, 1) {
            await echo(try await connect("/runCase", "case=\(number)&\(Autobahn.agent)"))
        }
        // This alone writes the report.
        _ = await (try await connect("/updateReports", Autobahn.agent)).closed()
    }

    private func connect(_ path: String, _ query: String) async throws -> any Link {
        let encoded = query.replacing("=", with: "%3D").replacing("&", with: "%26")
        let url = try #require(Autobahn.url)
        return try await TransportRegistry.standard.connect("\(url)\(path)?query=\(encoded)\(Autobahn.options)")
    }

    /// Sends everything back until the link ends; many cases end it by an error, on purpose.
    private func echo(_ link: any Link) async {
        while let message = try? await link.receive() {
            guard await link.send(message).isSuccess else { break }
        }
        _ = await link.closed()
    }
}
