import Testing
import TransportAPI

@Suite("Round-trip time")
struct RoundTripTimeTests {
    @Test("The estimate follows the equations of RFC 6298, section 2")
    func equations() {
        var time = RoundTripTime()
        #expect(time.smoothed == nil && time.timeout == .seconds(1))
        time.measured(.milliseconds(200))
        #expect(time.smoothed == .milliseconds(200) && time.variation == .milliseconds(100))
        #expect(time.timeout == .milliseconds(600))
        // RTTVAR = 3/4 * 100 + 1/4 * |200 - 300|, SRTT = 7/8 * 200 + 1/8 * 300, RTO = SRTT + 4 * RTTVAR.
        time.measured(.milliseconds(300))
        #expect(time.smoothed == .microseconds(212_500) && time.variation == .milliseconds(100))
        #expect(time.timeout == .microseconds(612_500))
        // RTTVAR = 3/4 * 100 + 1/4 * |212.5 - 100|, SRTT = 7/8 * 212.5 + 1/8 * 100.
        time.measured(.milliseconds(100))
        #expect(time.smoothed == .nanoseconds(198_437_500) && time.variation == .microseconds(103_125))
        #expect(time.timeout == .nanoseconds(610_937_500))
    }

    @Test("The timeout doubles up to one minute while there is no answer, and an answer ends that")
    func backoff() {
        var time = RoundTripTime()
        for seconds in [2, 4, 8, 16, 32, 60, 60] {
            time.timedOut()
            #expect(time.timeout == .seconds(seconds))
        }
        time.measured(.milliseconds(400))
        #expect(time.timeout == .milliseconds(1200))
        time.timedOut()
        time.answered()
        #expect(time.timeout == .milliseconds(1200))
    }

    @Test("The timeout of a steady path stays above the granularity and the minimum")
    func floor() {
        var bounds = RoundTripTime.Bounds()
        var time = RoundTripTime(bounds)
        for _ in 0..<100 { time.measured(.milliseconds(1)) }
        #expect(time.timeout == bounds.minimum)
        bounds.granularity = .milliseconds(10)
        time = RoundTripTime(bounds)
        for _ in 0..<100 { time.measured(.milliseconds(200)) }
        #expect(time.timeout == .milliseconds(210))
    }

    @Test("Negative and very large round-trip times do no harm")
    func nonsense() {
        var time = RoundTripTime()
        time.measured(.seconds(-3))
        #expect(time.smoothed == .zero && time.timeout == time.bounds.minimum)
        time.measured(.seconds(Int64.max))
        #expect(time.timeout == time.bounds.maximum)
    }
}
