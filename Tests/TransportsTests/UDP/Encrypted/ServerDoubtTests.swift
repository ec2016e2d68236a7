import Testing

@testable import Transports

@Suite("The doubt about a server of DTLS")
struct ServerDoubtTests {
    private var doubt = ServerDoubt()

    @Test("An alert causes pings, and the connection ends 3 s after it")
    mutating func pings() throws {
        let first = doubt.begin(now: 100)
        var time = try #require(first)
        var pings = 0
        while case .ping(let next) = doubt.step(now: time) {
            #expect(next > time)
            time = next
            pings += 1
        }
        #expect(doubt.step(now: time) == .giveUp)
        #expect(pings == 6)
        #expect(
            time >= 100 + ServerDoubt.answerTimeout && time < 100 + ServerDoubt.answerTimeout + ServerDoubt.pingPause
        )
    }

    @Test("An answer ends the doubt")
    mutating func answer() {
        #expect(doubt.begin(now: 100) != nil)
        let (first, second) = (doubt.end(), doubt.end())
        #expect(first && !second)
        #expect(doubt.step(now: 200) == nil)
    }

    @Test("Further alerts change nothing, and cause no pings within a second after the first")
    mutating func furtherAlerts() {
        #expect(doubt.begin(now: 100) != nil)
        #expect(doubt.begin(now: 200) == nil)
        _ = doubt.end()
        #expect(doubt.begin(now: 100 + ServerDoubt.pause - 1) == nil)
        #expect(doubt.begin(now: 100 + ServerDoubt.pause) != nil)
    }
}
