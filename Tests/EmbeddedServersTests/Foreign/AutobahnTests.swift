import Foundation
import SocketIO
import Testing
import TransportAPI

@testable import EmbeddedServers
@testable import Transports

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
        let counting = try await TransportRegistry.standard.connect(url("/getCaseCount", ""))
        let answer = try #require(try await counting.receive())
        let count = try #require(Int(String(decoding: answer.bytes, as: UTF8.self)))
        _ = await counting.closed()
        #expect(count > 0)
        for number in 1...max(count, 1) {
            try await echo(url("/runCase", "case=\(number)&\(Autobahn.agent)"))
        }
        // This alone writes the report.
        _ = await (try await TransportRegistry.standard.connect(url("/updateReports", Autobahn.agent))).closed()
    }

    private func url(_ path: String, _ query: String) throws -> String {
        let encoded = query.replacing("=", with: "%3D").replacing("&", with: "%26")
        return "\(try #require(Autobahn.url))\(path)?query=\(encoded)\(Autobahn.options)"
    }

    /// Sends everything back until the connection ends; many cases end it by an error, on purpose.
    ///
    /// By a handler on the loop, as servers do: the suite wants what came before a mistake answered even when both arrive at
    /// once, and the task of who waits in `receive` runs only after the mistake has ended the connection.
    private func echo(_ url: String) async throws {
        let endpoint = try Endpoint(url)
        let recipe = try #require(try TransportRegistry.standard.transport(for: endpoint) as? StreamTransport)
        let loop = recipe.loop
        let deadline = MonotonicClock.now() + 10_000_000_000
        let connection = try await withTaskExecutorPreference(loop) {
            let channel = try await recipe.openChannel(deadline: deadline)
            let driver = ConnectionDriver(recipe.makeCore(), over: channel, on: loop, limits: recipe.limits)
            driver.handler = MessageHandlerAdapter(Echo())
            return try await driver.openConnection(deadline: deadline)
        }
        _ = await connection.closed()
    }
}
