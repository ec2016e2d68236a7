import Testing
import TransportAPI

@testable import Transfers

/// Runs a window in virtual time over a link with a rate, a propagation delay, and a queue without an end.
private struct Link {
    let bytesPerSecond: Double
    let roundTrip: Duration
    var window: TransferWindow
    private(set) var now = Instant.zero
    private(set) var delivered = 0
    /// How long the chunks of the last part waited in the queue.
    private(set) var delays: [Duration] = []
    private var free = Instant.zero
    private var arrivals: [(at: Instant, sent: Instant, count: Int)] = []

    init(bytesPerSecond: Double, roundTrip: Duration, _ window: TransferWindow) {
        (self.bytesPerSecond, self.roundTrip, self.window) = (bytesPerSecond, roundTrip, window)
    }

    mutating func run(for time: Duration) {
        let end = now.advanced(by: time)
        delays = []
        delivered = 0
        while now < end {
            let count = window.chunkSize
            if window.hasRoom(for: count) {
                window.sent(count)
                let start = max(free, now)
                delays.append(now.duration(to: start))
                free = start.advanced(by: .seconds(Double(count + 60) / bytesPerSecond))
                arrivals.append((free.advanced(by: roundTrip), now, count))
            } else {
                let next = arrivals.removeFirst()
                now = max(now, next.at)
                delivered += next.count
                window.acknowledged(next.count, after: next.sent.duration(to: now), at: now)
            }
        }
    }

    /// The delay that this part of the chunks stays below.
    func delay(_ part: Double) -> Duration { delays.sorted()[Int(Double(delays.count - 1) * part)] }
    func share(of time: Duration) -> Double { Double(delivered) / (bytesPerSecond * (time / .seconds(1))) }
}

@Suite("The window of transfers") struct TransferWindowTests {
    @Test(
        "It uses most of a link, and chunks wait little",
        arguments: [
            (125_000.0, Duration.milliseconds(50)), (12_500, .milliseconds(100)), (1_250_000, .milliseconds(20)),
            (12_500_000, .milliseconds(5)), (125_000, .milliseconds(600)),
        ]
    )
    func uses(rate: Double, roundTrip: Duration) {
        var link = Link(
            bytesPerSecond: rate,
            roundTrip: roundTrip,
            TransferWindow(target: .milliseconds(25), largest: 1 << 20)
        )
        link.run(for: .seconds(20))
        let first = link.delay(0.99)
        link.run(for: .seconds(100))
        let chunk = Duration.seconds(Double(link.window.chunkSize) / rate)
        // A long round trip makes each step of the window late.
        let isLong = roundTrip > .milliseconds(200)
        #expect(link.share(of: .seconds(100)) > (isLong ? 0.6 : 0.7))
        #expect(link.delay(0.99) < .milliseconds(isLong ? 300 : 40) + chunk * 2)
        #expect(first < .milliseconds(60) + chunk * 8 + (isLong ? roundTrip : .zero))
    }

    @Test("It shrinks for another one who fills the queue, and grows again")
    func shares() {
        var window = TransferWindow(target: .milliseconds(25), largest: 1 << 20)
        var now = Instant.zero
        func acknowledge(_ time: Duration, _ count: Int) {
            for _ in 0..<count {
                while window.hasRoom(for: window.chunkSize) { window.sent(window.chunkSize) }
                now = now.advanced(by: .milliseconds(5))
                window.acknowledged(window.chunkSize, after: time, at: now)
            }
        }
        acknowledge(.milliseconds(50), 200)
        let large = window.size
        #expect(large > 100_000)
        acknowledge(.milliseconds(500), 1000)
        #expect(window.size <= 4096)
        acknowledge(.milliseconds(50), 1500)
        #expect(window.size > large / 4)
    }

    @Test("A chunk may always go, and nothing that arrives late makes it negative")
    func bounds() {
        var window = TransferWindow(target: .zero, largest: 0)
        #expect(window.hasRoom(for: 1 << 20))
        window.sent(1 << 20)
        #expect(!window.hasRoom(for: 1))
        window.acknowledged(2 << 20, after: .seconds(-1), at: .zero)
        #expect(window.inFlight == 0)
        window.forget(5)
        window.acknowledged(1, after: .seconds(1 << 40), at: .zero)
        #expect(window.inFlight == 0 && window.size >= 2048)
    }
}
