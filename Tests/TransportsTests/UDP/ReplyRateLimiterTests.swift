import Testing

@testable import Transports

@Suite("UDP, answers to strangers")
struct ReplyRateLimiterTests {
    @Test("Strangers get so many answers a second, however often they ask")
    func answers() {
        var meter = ReplyRateLimiter()
        // Ten seconds, with a hundred questions in each millisecond.
        var count = 0
        for time in 0..<10_000 as Range<Int64> {
            for _ in 0..<100 where meter.take(5_000_000_000 + time * 1_000_000) { count += 1 }
        }
        #expect(count == 9_999 + Int(ReplyRateLimiter.burst))
        // Who asks seldom is always answered.
        for time in 20..<40 as Range<Int64> {
            let isAnswered = meter.take(time * 1_000_000_000)
            #expect(isAnswered)
        }
    }
}
