import Testing

@testable import SocketIO

@Suite("Adaptive polling")
struct PollingHabitTests {
    private static let soon: Int64 = 8_000
    private static let asleep: Int64 = 60_000
    private static let late: Int64 = 5_000_000

    private var habit = PollingHabit()

    private mutating func wait(_ time: Int64, times: Int) {
        for _ in 0..<times { habit.waited(time) }
    }

    /// How many waits of this time it takes until polling begins; at most 10,000.
    private mutating func waitsUntilPolling(_ time: Int64) -> Int {
        var waits = 0
        while habit.pollingTime == 0, waits < 10_000 {
            habit.waited(time)
            waits += 1
        }
        return waits
    }

    @Test("Polling begins after a few short waits in a row, and a long one begins the row again")
    mutating func begins() {
        var fresh = self
        let row = fresh.waitsUntilPolling(Self.asleep)
        #expect((2...100).contains(row))
        wait(Self.asleep, times: row - 1)
        habit.waited(Self.late)
        #expect(habit.pollingTime == 0)
        let again = waitsUntilPolling(Self.asleep)
        #expect(again == row)
    }

    @Test("Polling does not begin if answers take a millisecond")
    mutating func distantPeer() {
        for _ in 0..<100_000 {
            habit.waited(1_000_000)
            #expect(habit.pollingTime == 0)
        }
    }

    @Test("Polling continues while events come soon, also after one poll without an event")
    mutating func continues() {
        _ = waitsUntilPolling(Self.asleep)
        wait(Self.soon, times: 1000)
        habit.waited(Self.late)
        #expect(habit.pollingTime > 0)
        wait(Self.soon, times: 20)
        #expect(habit.pollingTime > 0)
    }

    @Test("Polling stops after a few polls without an event")
    mutating func stops() {
        _ = waitsUntilPolling(Self.asleep)
        wait(Self.soon, times: 1000)
        wait(Self.late, times: 10)
        #expect(habit.pollingTime == 0)
    }

    @Test("Polling is tried less and less often if it does not help, and soon again if it helped")
    mutating func retries() {
        var trials: [Int] = []
        for _ in 0..<9 {
            trials.append(waitsUntilPolling(Self.asleep))
            while habit.pollingTime > 0 { habit.waited(Self.asleep) }
        }
        #expect(trials == trials.sorted() && trials[8] >= 10 * trials[0], "\(trials)")
        _ = waitsUntilPolling(Self.asleep)
        wait(Self.soon, times: 1000)
        wait(Self.late, times: 10)
        let again = waitsUntilPolling(Self.asleep)
        #expect(again == trials[0])
    }

    @Test("Polling takes less than a tenth of the time between regular events that are too far apart for it")
    mutating func costOfTrying() {
        var polled: Int64 = 0
        let events = 100_000
        for _ in 0..<events {
            polled += min(habit.pollingTime, Self.asleep)
            habit.waited(Self.asleep)
        }
        #expect(polled * 10 < Int64(events) * Self.asleep)
    }
}

@Suite("Polling")
struct PollingTests {
    @Test("Polling is off by default and limited to an hour")
    func bounds() throws {
        let loop = try EventLoop(name: "polling")
        #expect(loop.polling == .never)
        loop.polling = .always(for: .seconds(7200))
        #expect(loop.polling == .always(for: .seconds(3600)))
        for none in [Polling.never, .always(for: .zero), .always(for: .seconds(-1))] {
            loop.polling = none
            #expect(loop.polling == .never)
        }
        loop.polling = .adaptive
        #expect(loop.polling == .adaptive)
    }

    @Test(
        "Both sides of a conversation run with every kind of polling",
        arguments: [Polling.adaptive, .never, .always(for: .milliseconds(1))]
    )
    func conversation(polling: Polling) async throws {
        let (near, far) = (try EventLoop(name: "near"), try EventLoop(name: "far"))
        for loop in [near, far] { loop.polling = polling }
        let count = await Task(executorPreference: near) {
            var count = 0
            for _ in 0..<2_000 { count += await Task(executorPreference: far) { 1 }.value }
            return count
        }.value
        #expect(count == 2_000)
    }
}
