import Foundation
import TestSupport
import Testing
import Transports

@testable import OutboxStores

/// Kills an app with SIGKILL while it submits messages, and starts it again. `IM_APP_KILLS` sets how often; the default is 4.
@Suite("An app that is killed", .serialized, .timeLimit(.minutes(10)), .ownThread)
struct KilledAppTests {
    private static let kills = ProcessInfo.processInfo.environment["IM_APP_KILLS"].flatMap(Int.init) ?? 4

    /// Receives the numbers of all sessions.
    private final class Receiver: Sendable {
        let numbers: AsyncStream<Int>
        private let server: SessionServer

        init() {
            let (numbers, arrived) = AsyncStream.makeStream(of: Int.self)
            self.numbers = numbers
            // Each process has a session of its own. On the loop, their messages are handled in the order of their arrival.
            server = SessionServer(on: EventLoop.shared) { session in
                let messages = session.messages
                Task(executorPreference: EventLoop.shared) {
                    for await message in messages {
                        arrived.yield(Int(String(decoding: message.bytes, as: UTF8.self)) ?? -1)
                    }
                }
            }
        }

        /// Listens, and returns the URL.
        func start(_ transport: String) async throws -> String {
            let listener = try await TransportRegistry.standard.listen("\(transport)://127.0.0.1:0")
            Task(executorPreference: EventLoop.shared) { [server] in try await server.serve(listener) }
            return "\(listener.endpoint)"
        }

        func stop() async { await server.close() }
    }

    @Test(
        "Every message that the app has accepted arrives once, in the order in which it was accepted",
        arguments: StoreLocation.Kind.allCases.filter { $0 == .file || SQLiteLibrary.shared != nil },
        ["tcp", "ws", "http"]
    )
    func killed(kind: StoreLocation.Kind, transport: String) async throws {
        let program = try #require(Peers.submitUntilKilled)
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("killed-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let receiver = Receiver()
        let url = try await receiver.start(transport)
        let store = "\(kind.rawValue):\(folder.path)/outbox"

        var accepted = 0
        // With these a process began. The one before it may have submitted them too, and was killed before it could say so.
        var firsts: Set<Int> = []
        for _ in 0..<Self.kills {
            // The moment does not matter for the outcome, and a failure shows it by the numbers.
            let count = Int.random(in: 0...300)
            let first = accepted + 1
            firsts.insert(first)
            accepted = try await aside {
                let app = try Peer(program, [url, store, "\(first)"])
                var last = first - 1
                for _ in 0..<count { if let number = app.line().flatMap({ Int($0) }) { last = number } }
                app.signal(SIGKILL)
                // What it had accepted before it was killed.
                while let line = app.line() { if let number = Int(line) { last = number } }
                _ = try app.finish()
                return last
            }
        }
        // The next process sends what is left.
        let first = accepted + 1
        firsts.insert(first)
        let app = try await aside { try Peer(program, [url, store, "\(first)"]) }
        var (seen, highest, repeated, overtaken) = (Set<Int>(), 0, 0, 0)
        for await number in receiver.numbers {
            if !seen.insert(number).inserted {
                if !firsts.contains(number) { repeated += 1 }
            } else if number < highest {
                overtaken += 1
            }
            highest = max(highest, number)
            if highest > accepted { break }
        }
        try await aside {
            app.signal(SIGKILL)
            _ = try app.finish()
        }
        await receiver.stop()
        print("\(kind.rawValue) over \(transport): \(accepted) accepted, \(repeated) repeated, \(Self.kills) kills")
        let lost = (1...max(1, accepted)).filter { accepted > 0 && !seen.contains($0) }
        #expect(lost == [] && repeated == 0 && overtaken == 0)
    }
}
