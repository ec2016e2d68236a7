import Foundation
import TestSupport
import Testing
import TransportAPI
import Transports

/// Kills the process of a server with SIGKILL while a client makes requests. `IM_REQUESTS` sets how many; the default is 1,000.
@Suite("A server that is killed", .serialized, .timeLimit(.minutes(10)), .ownThread)
struct KilledServerTests {
    private static let total = ProcessInfo.processInfo.environment["IM_REQUESTS"].flatMap(Int.init) ?? 1000

    @Test(
        "Each request ends in its own answer, or in an error that says that it may have been handled",
        arguments: ["tcp", "ws", "udp"]
    )
    func requests(scheme: String) async throws {
        let program = try #require(Peers.receiveUntilKilled)
        let folder = try ScratchFolder()
        let log = "\(folder.path)/log"
        // The server, where it listens, and when it is killed next.
        let server = Locked<Peer?>(nil)
        func start(_ url: String) async throws -> String {
            let (line, process) = try await aside { () -> (String?, Peer) in
                let process = try Peer(program, [url, log])
                return (process.line(), process)
            }
            server.withLock { $0 = process }
            return try #require(line)
        }
        let url = try await start("\(scheme)://127.0.0.1:0")
        var configuration = TransportConfiguration(endpoints: [try Endpoint(url)])
        configuration.supervisor.delivery.mode = .session
        configuration.supervisor.backoff = .fixed(.milliseconds(20))
        let supervisor = try Supervisor(configuration)
        supervisor.connect()

        let (ends, end) = AsyncStream.makeStream(of: (Int, Result<Payload, RequestError>).self)
        let next = Locked(0)
        let asking = Task {
            await withTaskGroup { group in
                for _ in 0..<50 {
                    group.addTask {
                        while true {
                            let number = next.withLock { next in
                                next += 1
                                return next
                            }
                            guard number <= Self.total else { return }
                            do throws(RequestError) {
                                let answer = try await supervisor.request(bytes("\(number)"), timeout: .seconds(240))
                                end.yield((number, .success(answer)))
                            } catch {
                                end.yield((number, .failure(error)))
                            }
                        }
                    }
                }
            }
            end.finish()
        }
        var random = RandomSource.seeded(3)
        var (seen, answers, unknown, kills, kill) = (Set<Int>(), 0, 0, 0, 50)
        for await (number, answer) in ends {
            #expect(seen.insert(number).inserted, "request \(number) ended twice")
            switch answer {
            case .success(let payload):
                answers += 1
                #expect(payload == bytes("\(number)"))
            // The server that had it is dead, and with it the answer.
            case .failure(.unknown): unknown += 1
            case .failure(let error): Issue.record("request \(number): \(error)")
            }
            if seen.count >= kill {
                kills += 1
                kill += 100 + Int(random.next() % 200)
                let process = server.withLock { $0.take() }
                try await aside {
                    process?.signal(SIGKILL)
                    _ = try process?.finish()
                }
                _ = try await start(url)
            }
        }
        await asking.value
        print("\(Self.total) requests over \(scheme), \(kills) kills: \(answers) answers, \(unknown) unknown")
        #expect(seen.count == Self.total)
        await supervisor.close()
        let process = server.withLock { $0.take() }
        try await aside {
            process?.signal(SIGKILL)
            _ = try process?.finish()
        }
        withExtendedLifetime(folder) {}
    }
}
