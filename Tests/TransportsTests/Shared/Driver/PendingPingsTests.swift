import Testing
import TransportAPI

@testable import Transports

@Suite("Pings that wait for their answers")
struct PendingPingsTests {
    private typealias Answer = Result<Duration, TransportError>

    private static func answer(_ pings: inout PendingPings, _ number: UInt64, _ now: Int64) -> Bool {
        pings.answered(number, now: now)
    }

    /// Adds a ping in a task, runs `body`, and returns the ping's result.
    private func ping(_ pings: inout PendingPings, _ body: (inout PendingPings) -> Void) async -> Answer {
        await withUnsafeContinuation { continuation in
            pings.append(1, of: 1, now: 100, continuation)
            body(&pings)
        }
    }

    @Test("An answer completes its ping with the time since it was sent, and is counted once")
    func answer() async throws {
        var pings = PendingPings()
        let answer = await ping(&pings) { pings in
            pings.append(2, of: 2, now: 200, nil)
            #expect(Self.answer(&pings, 1, 350) == true)
        }
        #expect(try answer.get() == .nanoseconds(250))
        #expect(pings.all.map(\.id) == [2])
        #expect(Self.answer(&pings, 1, 400) == false)
        #expect(pings.all.map(\.id) == [2])
        // The core has sent a ping by itself, after both.
        #expect(Self.answer(&pings, 3, 500) == true)
        #expect(pings.all.isEmpty)
    }

    @Test("The answer to a cancelled ping completes no other")
    func cancelled() async {
        var pings = PendingPings()
        let answer = await ping(&pings) { $0.cancel(1) }
        #expect(throws: TransportError.cancelled(.open)) { try answer.get() }
        pings.append(2, of: 2, now: 200, nil)
        #expect(Self.answer(&pings, 1, 300) == true)
        #expect(pings.all.map(\.id) == [2])
    }

    @Test("Beyond 16 pings, the oldest may be replaced after a second, and its late answer counts for none")
    func replaced() async {
        var pings = PendingPings()
        let answer = await ping(&pings) { pings in
            for id in 2...16 as ClosedRange<UInt64> {
                #expect(pings.hasRoom(now: 200, mayReplace: false))
                pings.append(id, of: id, now: 200, nil)
            }
            #expect(!pings.hasRoom(now: 99 + PendingPings.replacementAge, mayReplace: true))
            #expect(!pings.hasRoom(now: 100 + PendingPings.replacementAge, mayReplace: false))
            #expect(pings.hasRoom(now: 100 + PendingPings.replacementAge, mayReplace: true))
            pings.append(17, of: 17, now: 300, nil)
        }
        #expect { try answer.get() } throws: { ($0 as? TransportError)?.code == .timedOut }
        #expect(Self.answer(&pings, 1, 400) == true)
        #expect(pings.all.map(\.id) == Array(2...17))
        #expect(Self.answer(&pings, 2, 400) == true)
        #expect(pings.all.map(\.id) == Array(3...17))
    }

    @Test("The end of the connection is the answer to all pings")
    func end() async {
        var pings = PendingPings()
        let error = TransportError(.connectionLost, .open, "gone")
        let answer = await ping(&pings) { $0.end(error) }
        #expect(throws: error) { try answer.get() }
        #expect(pings.all.isEmpty)
    }
}
