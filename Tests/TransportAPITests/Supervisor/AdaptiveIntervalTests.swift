import Testing
import TransportAPI

@Suite("Adaptive keepalive interval")
struct AdaptiveIntervalTests {
    private static let configuration: AdaptiveKeepaliveConfiguration = {
        var configuration = AdaptiveKeepaliveConfiguration()
        configuration.maximum = .seconds(1500)
        return configuration
    }()

    /// Runs the trials of `interval` on a NAT that removes a mapping after `timeout`. `losses` is the share of trials
    /// that fail by chance. Returns the number of trials, or `nil` if the search does not end.
    private func search(
        _ interval: inout AdaptiveInterval,
        on network: String = "home",
        timeout: Duration,
        losses: Double = 0,
        random: inout RandomSource
    ) -> Int? {
        for trial in 0..<200 {
            guard let length = interval.nextTrial(on: network) else { return trial }
            let isLost = Double.random(in: 0..<1, using: &random) < losses
            if length < timeout, !isLost {
                interval.succeeded(length, on: network)
            } else {
                interval.failed(length, on: network)
            }
        }
        return nil
    }

    @Test(
        "The search ends below the NAT's timeout, within the resolution",
        arguments: [31, 45, 60, 61, 119, 120, 180, 299, 300, 600, 1200]
    )
    func search(seconds: Int) throws {
        var random = RandomSource.seeded(1)
        var interval = AdaptiveInterval(Self.configuration)
        let timeout = Duration.seconds(seconds)
        let trials = try #require(search(&interval, timeout: timeout, random: &random))
        let found = interval.current(on: "home")
        #expect(found < timeout && timeout - found <= Self.configuration.resolution)
        #expect(trials <= 20)
    }

    @Test("The search ends at the maximum if the path allows it, and at the minimum if the path allows no more")
    func ends() throws {
        var random = RandomSource.seeded(1)
        var lenient = AdaptiveInterval(Self.configuration)
        #expect(lenient.current(on: "home") == Self.configuration.minimum)
        try #require(search(&lenient, timeout: .seconds(7200), random: &random) != nil)
        #expect(lenient.current(on: "home") == Self.configuration.maximum)
        var strict = AdaptiveInterval(Self.configuration)
        try #require(search(&strict, timeout: .seconds(30), random: &random) != nil)
        #expect(strict.current(on: "home") == Self.configuration.minimum)
    }

    @Test("Chance losses of one trial in twenty seldom shorten the result much")
    func chance() throws {
        var isBelowHalf = 0
        for seed in 1...200 as ClosedRange<UInt64> {
            var random = RandomSource.seeded(seed)
            var interval = AdaptiveInterval(Self.configuration)
            let timeout = Duration.seconds(Int.random(in: 120...1200, using: &random))
            try #require(search(&interval, timeout: timeout, losses: 0.05, random: &random) != nil)
            let found = interval.current(on: "home")
            #expect(found < timeout && found > Self.configuration.minimum)
            if found < timeout / 2 { isBelowHalf += 1 }
        }
        // Two chance losses at the same length (one in 400 trials) may still end a search early.
        #expect(isBelowHalf <= 10)
    }

    @Test("A single failure leads to another trial at the same length")
    func singleFailure() {
        var interval = AdaptiveInterval(Self.configuration)
        #expect(interval.nextTrial(on: "home") == .seconds(60))
        interval.failed(.seconds(60), on: "home")
        #expect(interval.nextTrial(on: "home") == .seconds(60))
        interval.succeeded(.seconds(60), on: "home")
        #expect(interval.current(on: "home") == .seconds(60))
        #expect(interval.nextTrial(on: "home") == .seconds(120))
        interval.failed(.seconds(120), on: "home")
        interval.failed(.seconds(120), on: "home")
        #expect(interval.nextTrial(on: "home") == .seconds(90))
    }

    @Test("Failures at shorter lengths count against longer ones")
    func shorterFailures() {
        var interval = AdaptiveInterval(Self.configuration)
        interval.succeeded(.seconds(200), on: "home")
        interval.failed(.seconds(400), on: "home")
        interval.failed(.seconds(300), on: "home")
        // Two failures at 400 s or less rule out 400 s. One failure at 300 s leads to another trial there.
        #expect(interval.nextTrial(on: "home") == .seconds(300))
        interval.succeeded(.seconds(300), on: "home")
        #expect(interval.nextTrial(on: "home") == .seconds(400))
    }

    @Test("Each network has its own interval")
    func networks() throws {
        var random = RandomSource.seeded(1)
        var interval = AdaptiveInterval(Self.configuration)
        try #require(search(&interval, on: "home", timeout: .seconds(600), random: &random) != nil)
        let home = interval.current(on: "home")
        #expect(interval.current(on: "train") == Self.configuration.minimum)
        try #require(search(&interval, on: "train", timeout: .seconds(90), random: &random) != nil)
        #expect(interval.current(on: "train") < .seconds(90))
        #expect(interval.current(on: "home") == home)
        #expect(interval.nextTrial(on: "home") == nil)
    }

    @Test("A lost connection resets the interval to the minimum, and the search finds the NAT's new limit")
    func lost() throws {
        var random = RandomSource.seeded(1)
        var interval = AdaptiveInterval(Self.configuration)
        try #require(search(&interval, timeout: .seconds(600), random: &random) != nil)
        interval.lost(on: "home")
        #expect(interval.current(on: "home") == Self.configuration.minimum)
        // The search starts from below again and does not return at once to the length of the loss.
        #expect(interval.nextTrial(on: "home") == .seconds(60))
        try #require(search(&interval, timeout: .seconds(100), random: &random) != nil)
        let found = interval.current(on: "home")
        #expect(found < .seconds(100) && found >= .seconds(85))
    }

    @Test("The search returns to its former result if the loss was chance")
    func lostByChance() throws {
        var random = RandomSource.seeded(1)
        var interval = AdaptiveInterval(Self.configuration)
        try #require(search(&interval, timeout: .seconds(600), random: &random) != nil)
        interval.lost(on: "home")
        try #require(search(&interval, timeout: .seconds(600), random: &random) != nil)
        let found = interval.current(on: "home")
        #expect(found < .seconds(600) && found >= .seconds(585))
    }

    @Test("A loss at the minimum changes nothing")
    func lostAtMinimum() {
        var interval = AdaptiveInterval(Self.configuration)
        for _ in 0..<3 { interval.lost(on: "home") }
        interval.failed(.seconds(30), on: "home")
        #expect(interval.nextTrial(on: "home") == .seconds(60))
    }

    @Test("A good length that fails twice is given up")
    func goodTurnsBad() {
        var interval = AdaptiveInterval(Self.configuration)
        interval.succeeded(.seconds(480), on: "home")
        interval.failed(.seconds(400), on: "home")
        #expect(interval.current(on: "home") == .seconds(480))
        interval.failed(.seconds(400), on: "home")
        #expect(interval.current(on: "home") == Self.configuration.minimum)
    }

    @Test("An adaptive interval remembers sixteen networks and forgets the least recently used one")
    func bound() {
        var interval = AdaptiveInterval(Self.configuration)
        for index in 0..<16 { interval.succeeded(.seconds(100 + index), on: "net \(index)") }
        #expect(interval.current(on: "net 0") == .seconds(100))
        interval.succeeded(.seconds(60), on: "one more")
        #expect(interval.networks.count == AdaptiveInterval.networkLimit)
        #expect(interval.current(on: "net 0") == .seconds(100))
        #expect(interval.current(on: "net 1") == Self.configuration.minimum)
        for index in 0..<100 { _ = interval.current(on: "unknown \(index)") }
        #expect(interval.networks.count == AdaptiveInterval.networkLimit)
    }

    @Test("An interval stays within its bounds for any input and any configuration")
    func nonsense() {
        var random = RandomSource.seeded(7)
        var odd = AdaptiveKeepaliveConfiguration()
        (odd.minimum, odd.maximum, odd.resolution) = (.seconds(-5), .seconds(Int64.max), .zero)
        for configuration in [Self.configuration, odd] {
            var interval = AdaptiveInterval(configuration)
            let bounds = interval.configuration
            for _ in 0..<20_000 {
                let network = "net \(Int.random(in: 0..<20, using: &random))"
                let length = Duration.seconds(Int64.random(in: -10...100_000, using: &random))
                switch Int.random(in: 0..<4, using: &random) {
                case 0: interval.succeeded(length, on: network)
                case 1: interval.failed(length, on: network)
                case 2: interval.lost(on: network)
                default: interval.nextTrial(on: network).map { interval.succeeded($0, on: network) }
                }
                let current = interval.current(on: network)
                #expect(current >= bounds.minimum && current <= bounds.maximum)
                if let next = interval.nextTrial(on: network) {
                    #expect(next > current && next <= bounds.maximum && next <= current * 2)
                }
            }
        }
    }
}
