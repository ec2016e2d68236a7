/// Whether cores slept while it was measured. Waking a sleeping core can cost more than all the code that is compared, so
/// every report says in which regime its numbers were made.
struct WakeUpRegime: Sendable, Hashable {
    /// Median of a round trip between two threads over a pair of eventfds, which is two wake-ups, in microseconds.
    var roundTrip: Double

    /// Above this, two wake-ups cost more than switching threads ever does: a core had to be woken.
    static let sleepingAbove = 40.0

    /// `nil` if the wake-up floor was not measured.
    init?(_ floors: [FloorResult]) {
        guard let median = floors.first(where: { $0.kind == .wakeUp })?.rtt.p50 else { return nil }
        roundTrip = median
    }

    var coresSlept: Bool { roundTrip > Self.sleepingAbove }

    /// For the JSON.
    var name: String { coresSlept ? "sleeping" : "awake" }

    var sentence: String {
        let cost = "\(shown(roundTrip)) µs for two wake-ups"
        return coresSlept
            ? "\(cost): cores slept between messages, as on an idle device; --awake compares the code alone"
            : "\(cost): cores were awake, so the times compare code"
    }
}
