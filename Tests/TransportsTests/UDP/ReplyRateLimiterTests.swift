import Testing

@testable import Transports

@Suite("UDP: replies to unknown addresses")
struct ReplyRateLimiterTests {
    @Test("The number of replies per second is limited however many requests come")
    func answers() {
        var meter = ReplyRateLimiter()
        // Ten seconds with a hundred requests in each millisecond.
        var count = 0
        for time in 0..<10_000 as Range<Int64> {
            for _ in 0..<100 where meter.take(5_000_000_000 + time * 1_000_000) { count += 1 }
        }
        #expect(count == 9_999 + Int(ReplyRateLimiter.burst))
        // Requests at a low rate are always answered.
        for time in 20..<40 as Range<Int64> {
            let isAnswered = meter.take(time * 1_000_000_000)
            #expect(isAnswered)
        }
    }
}
