import SocketIO
import Testing

@testable import imbench

@Suite("Schedules of the whole stack")
struct StackTests {
    /// Runs schedules on a separate thread.
    private func run(_ seeds: ClosedRange<UInt64>, defect: StackDefect? = nil) throws -> SimulationResult {
        let result = Locked(SimulationResult())
        let worker = try WorkerThread {
            let found = StackSeeds.run(seeds, comparesTraces: false, defect: defect)
            result.withLock { $0 = found }
        }
        worker.join()
        return result.withLock { $0 }
    }

    @Test("The first schedules break no rule")
    func promises() throws {
        let result = try run(1...30)
        #expect(result.seeds == 30)
        #expect(result.failures.isEmpty)
    }

    /// 1416: a client without an answer to its TLS handshake never gave up. 9: a broker closed without close_notify.
    @Test(
        "A schedule that showed a defect passes now that the defect is fixed",
        arguments: [1737, 1897, 2435, 1416, 9]
    )
    func regressions(_ seed: UInt64) throws {
        #expect(try run(seed...seed).failures.isEmpty)
    }

    @Test(
        "A known defect is found by a schedule that passes without it",
        arguments: StackDefect.allCases
    )
    func defects(_ defect: StackDefect) throws {
        let first = try #require(Self.near[defect])
        let result = try run(first...first + 199, defect: defect)
        let found = try #require(result.failures.first, "no schedule of \(result.seeds) has shown \(defect)")
        // The schedule fails because of the defect.
        #expect(try run(found.seed...found.seed).failures.isEmpty)
    }

    /// The seeds near which each defect is found, because few schedules run here. `imbench simulate --stack --defect` starts
    /// at 1.
    private static let near: [StackDefect: UInt64] = [
        .endlessTick: 50, .earlyClose: 15, .oversizedDropped: 20, .unboundedEarly: 90, .squatting: 870,
        .keptForgotten: 570, .earlyReceipt: 815, .unboundedRoom: 10, .unboundedSum: 50,
        .acceptedTruncation: 550, .anyAuthority: 20, .silentEnd: 1, .unrepeatedFlight: 225,
    ]
}
