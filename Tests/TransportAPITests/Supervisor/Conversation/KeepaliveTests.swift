import Testing

@testable import TransportAPI

/// The signs of life that a keepalive accepts, with an interval of 30 s and a timeout of 8 s.
@Suite("The keepalive of a connection")
struct KeepaliveTests {
    /// A keepalive with a clock. It checks at each deadline, as a driver does.
    private struct Watch {
        var keepalive: Keepalive
        var now = Instant.zero
        /// When probes were sent, and when the connection was dead.
        var probes: [Instant] = []
        var deadAt: Instant?

        init() {
            var configuration = KeepaliveConfiguration()
            configuration.interval = .seconds(30)
            configuration.timeout = .seconds(8)
            keepalive = Keepalive(
                configuration,
                over: Capabilities(maximumMessageSize: 1 << 20),
                isAnswered: true,
                at: .zero
            )
        }

        mutating func look(_ signs: SignsOfLife) {
            switch keepalive.deadlineReached(signs, at: now) {
            case .wait: break
            case .probe: probes.append(now)
            case .dead: deadAt = now
            }
        }

        /// Runs until the connection is dead or `end` has come.
        mutating func run(until end: Int, _ signs: (Instant) -> SignsOfLife) {
            let end = Instant.zero.advanced(by: .seconds(end))
            while deadAt == nil, let deadline = keepalive.deadline, deadline <= end {
                now = max(now, deadline)
                look(signs(now))
            }
            if deadAt == nil { now = end }
        }
    }

    private static func seconds(_ count: Int) -> Instant { .zero.advanced(by: .seconds(count)) }

    @Test("While the output before a probe leaves, the peer is not dead, and one timeout later it must have answered")
    func slowOutput() {
        var watch = Watch()
        // A megabyte is written at the beginning, and 16 kB leave in each second. Nothing comes back.
        watch.run(until: 1000) { now in
            let taken = min(1_000_000, UInt64(now.nanoseconds / 1_000_000_000) * 16_000)
            return SignsOfLife(bytesTaken: taken, bytesLeft: 1_000_000 - taken)
        }
        // The last byte leaves after 62.5 s.
        #expect(watch.probes == [Self.seconds(30)])
        let deadAt = watch.deadAt ?? .zero
        #expect((Self.seconds(70)...Self.seconds(73)).contains(deadAt), "\(deadAt)")
    }

    @Test("A slow upload that is answered at its end survives")
    func answeredOutput() {
        var watch = Watch()
        watch.run(until: 68) { now in
            let taken = min(1_000_000, UInt64(now.nanoseconds / 1_000_000_000) * 16_000)
            return SignsOfLife(bytesTaken: taken, bytesLeft: 1_000_000 - taken)
        }
        #expect(watch.deadAt == nil)
        watch.keepalive.received(at: watch.now)
        let next = watch.keepalive.deadline
        #expect(next == Self.seconds(98))
    }

    @Test("Output that is written after the probe is no sign of life, even if the peer's system takes it")
    func smallOutput() {
        var watch = Watch()
        // A peer that has stopped reading, whose system acknowledges a small message in each second.
        watch.run(until: 100) { now in SignsOfLife(bytesTaken: UInt64(now.nanoseconds / 1_000_000_000) * 50) }
        #expect(watch.deadAt == Self.seconds(38))
    }

    @Test("Output that does not leave is no sign of life, even if there is more of it")
    func blackHole() {
        var watch = Watch()
        watch.run(until: 100) { now in
            SignsOfLife(bytesTaken: 5000, bytesLeft: UInt64(now.nanoseconds / 1_000_000_000) * 50)
        }
        #expect(watch.deadAt == Self.seconds(38))
    }

    @Test("A process that was stopped asks again at once, and the peer has the whole timeout to answer")
    func stoppedAfterProbe() {
        var watch = Watch()
        watch.run(until: 31) { _ in SignsOfLife() }
        watch.now = Self.seconds(600)
        watch.look(SignsOfLife())
        #expect(watch.deadAt == nil && watch.probes == [Self.seconds(30), Self.seconds(600)])
        watch.run(until: 700) { _ in SignsOfLife() }
        #expect(watch.deadAt == Self.seconds(608))
    }

    @Test("A process that was stopped before the probe sends it at once, and `timeout` counts from then")
    func stoppedBeforeProbe() {
        var watch = Watch()
        watch.run(until: 10) { _ in SignsOfLife() }
        watch.now = Self.seconds(600)
        watch.look(SignsOfLife())
        #expect(watch.probes == [Self.seconds(600)])
        watch.run(until: 700) { _ in SignsOfLife() }
        #expect(watch.deadAt == Self.seconds(608))
    }

    @Test("More time is given once, and again only after bytes have come")
    func givenOnce() {
        var watch = Watch()
        watch.run(until: 31) { _ in SignsOfLife() }
        // The process is late at each check.
        watch.now = Self.seconds(60)
        watch.look(SignsOfLife())
        watch.now = Self.seconds(90)
        watch.look(SignsOfLife())
        #expect(watch.deadAt == Self.seconds(90))

        watch = Watch()
        watch.run(until: 31) { _ in SignsOfLife() }
        watch.now = Self.seconds(60)
        watch.look(SignsOfLife())
        watch.keepalive.received(at: watch.now)
        watch.run(until: 91) { _ in SignsOfLife() }
        watch.now = Self.seconds(150)
        watch.look(SignsOfLife())
        #expect(watch.deadAt == nil)
    }
}
