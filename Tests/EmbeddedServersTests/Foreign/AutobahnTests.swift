import Foundation
import SocketIO
import Testing
import TransportAPI

@testable import EmbeddedServers
@testable import Transports

/// The URL of the suite's server, if it runs, and the options for the client.
private enum Autobahn {
    private static let environment = ProcessInfo.processInfo.environment
    static let url = environment["AUTOBAHN_URL"]
    static let options = environment["AUTOBAHN_OPTIONS"].map { "&\($0)" } ?? ""
    static let agent = "agent=im-transports"
}

/// Tests our client with the Autobahn test suite. `scripts/checks/autobahn client` starts the suite and evaluates its report.
///
/// The suite's server runs one case on each connection, and expects every message back with its type.
@Suite("Autobahn", .enabled(if: Autobahn.url != nil))
struct AutobahnTests {
    @Test("Our client runs every case of the suite")
    func cases() async throws {
        let counting = try await TransportRegistry.standard.connect(url("/getCaseCount", ""))
        let answer = try #require(try await counting.receive())
        let count = try #require(Int(String(decoding: answer.bytes, as: UTF8.self)))
        _ = await counting.closed()
        #expect(count > 0)
        for number in 1...max(count, 1) {
            try await echo(url("/runCase", "case=\(number)&\(Autobahn.agent)"))
        }
        // This request makes the suite write its report.
        _ = await (try await TransportRegistry.standard.connect(url("/updateReports", Autobahn.agent))).closed()
    }

    private func url(_ path: String, _ query: String) throws -> String {
        let encoded = query.replacing("=", with: "%3D").replacing("&", with: "%26")
        return "\(try #require(Autobahn.url))\(path)?query=\(encoded)\(Autobahn.options)"
    }

    /// Returns every message until the connection ends. Many cases end it with an error on purpose.
    ///
    /// A handler on the loop does this, as in a server. The suite expects an answer to the bytes before an error even
    /// if both arrive at once. A task that waits in `receive` would run only after the error has ended the connection.
    private func echo(_ url: String) async throws {
        let endpoint = try Endpoint(url)
        let recipe = try #require(try TransportRegistry.standard.transport(for: endpoint) as? StreamTransport)
        let loop = recipe.dialer.loop
        let deadline = MonotonicClock.now() + 10_000_000_000
        let connection = try await withTaskExecutorPreference(loop) {
            let stream = try await recipe.addresses(deadline: deadline).next()
            let channel = try await recipe.dialer.openChannel(over: stream, deadline: deadline)
            let driver = ConnectionDriver(recipe.makeCore(), over: channel, on: loop, limits: recipe.limits)
            driver.handler = MessageHandlerAdapter(Echo())
            return try await driver.openConnection(deadline: deadline)
        }
        _ = await connection.closed()
    }
}
