import TransportAPI

/// The outcome of one policy.
package struct StormOutcome: Sendable, Hashable {
    /// One second of the timeline.
    package struct Second: Sendable, Hashable {
        /// How many connection attempts reached the server in this second.
        package var attempts = 0
        /// How many clients are connected at its end.
        package var back = 0
    }

    /// A tenth of a second, in nanoseconds: the resolution of peaks.
    private static let tick: Int64 = 100_000_000

    package let clients: Int
    /// Attempts answered by a refusal.
    package var refused = 0
    /// Attempts that the client gave up after its connect timeout.
    package var timedOut = 0
    /// Handshakes for clients that had left.
    package var wasted = 0
    /// Attempts in flight at the limit.
    package var inFlight = 0
    /// Clients that wait for their next attempt at the limit.
    package var waiting = 0
    /// Clients whose policy has ended.
    package var gaveUp = 0
    /// When each client was connected again, in nanoseconds after the loss, in ascending order once the outcome is finished.
    package var backTimes: [Int64] = []
    private var whileDown: [Int]
    private var whileUp: [Int]

    /// An empty outcome with room for the time up to the model's limit.
    package init(_ model: StormModel) {
        clients = model.clients
        let ticks = Int(max(0, model.limit.wholeNanoseconds) / Self.tick) + 1
        whileDown = Array(repeating: 0, count: ticks)
        whileUp = whileDown
        backTimes.reserveCapacity(model.clients)
    }

    mutating func countAttempt(at time: Int64, isUp: Bool) {
        let tick = Int(time / Self.tick)
        if isUp { whileUp[tick] += 1 } else { whileDown[tick] += 1 }
    }

    package mutating func finish() {
        backTimes.sort()
    }

    package var back: Int { backTimes.count }
    /// Clients that are not connected and have not given up at the limit.
    package var stillTrying: Int { waiting + inFlight }
    package var attempts: Int { whileDown.reduce(0, +) + whileUp.reduce(0, +) }

    /// The most attempts that reached the server within any second.
    package var peak: Int { Self.peak(zip(whileDown, whileUp).map(+)) }

    /// The same, of attempts after the outage only.
    package var peakOnceUp: Int { Self.peak(whileUp) }

    /// The largest sum of ten neighbouring ticks.
    private static func peak(_ ticks: [Int]) -> Int {
        var (sum, largest) = (0, 0)
        for index in ticks.indices {
            sum += ticks[index] - (index >= 10 ? ticks[index - 10] : 0)
            largest = max(largest, sum)
        }
        return largest
    }

    /// Seconds until `percent` of all clients were connected again; `nil` if that did not happen before the limit.
    package func secondsUntilBack(percent: Int) -> Double? {
        let needed = (clients * percent + 99) / 100
        guard needed > 0, needed <= backTimes.count else { return nil }
        return Double(backTimes[needed - 1]) / 1e9
    }

    /// Whether `percent` cannot be reached, because too many clients have given up.
    package func isOutOfReach(percent: Int) -> Bool { clients - gaveUp < (clients * percent + 99) / 100 }

    /// The seconds up to the last one with an attempt or a change.
    package var timeline: [Second] {
        var seconds: [Second] = []
        var back = 0
        for start in stride(from: 0, to: whileUp.count, by: 10) {
            let ticks = start..<min(start + 10, whileUp.count)
            let end = Int64(start + 10) * Self.tick
            while back < backTimes.count, backTimes[back] < end { back += 1 }
            let attempts = ticks.reduce(0) { $0 + whileDown[$1] + whileUp[$1] }
            seconds.append(Second(attempts: attempts, back: back))
        }
        while let last = seconds.last, last.attempts == 0, last.back == (seconds.dropLast().last?.back ?? 0) {
            seconds.removeLast()
        }
        return seconds
    }
}
