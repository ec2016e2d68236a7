import SocketIO
import Testing

@testable import CommandSupport
@testable import Measuring
@testable import imlab

@Suite("Schedules of the whole stack")
struct StackTests {
    /// Runs schedules on a separate thread.
    private func run(_ seeds: ClosedRange<UInt64>) throws -> SimulationResult {
        let result = Locked(SimulationResult())
        let worker = try WorkerThread {
            let found = StackSeeds.run(seeds, comparesTraces: false)
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

    /// 1416: a client without an answer to its TLS handshake never gave up. 9: a broker closed without close_notify. 141131,
    /// 151204: a session over UDP repeated a message once a minute after some losses. 163352: the wait for a repetition
    /// counted as a round trip. 274: a small write-buffer cut requests over HTTP into single bytes. 4263, 5957, 7051: a slow
    /// upload or download over HTTP was taken for a dead connection.
    @Test(
        "A schedule that showed a defect passes now that the defect is fixed",
        arguments: [1737, 1897, 2435, 1416, 9, 141_131, 151_204, 163_352, 274, 4263, 5957, 7051]
    )
    func regressions(_ seed: UInt64) throws {
        #expect(try run(seed...seed).failures.isEmpty)
    }
}
