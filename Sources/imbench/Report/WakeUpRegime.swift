/// Whether cores may have slept while it was measured. Waking a sleeping core can cost more than all the code that is compared, so
/// every report says in which regime its numbers were made. Only a run with `--awake` knows it: a short wake-up shows as well that
/// both threads shared a core, or that the processor sleeps lightly.
struct WakeUpRegime: Sendable, Hashable {
    /// Median of a round trip between two threads over a pair of eventfds, which is two wake-ups, in microseconds.
    var roundTrip: Double
    /// Whether spinning threads kept the cores from sleeping.
    var isAwake: Bool

    /// `nil` if the wake-up floor was not measured.
    init?(_ results: RunResults) {
        guard let median = results.floors.first(where: { $0.kind == .wakeUp })?.rtt.p50 else { return nil }
        roundTrip = median
        isAwake = results.wereCoresAwake
    }

    /// For the JSON.
    var name: String { isAwake ? "awake" : "sleeping" }

    var sentence: String {
        let cost = "\(shown(roundTrip)) µs for two wake-ups"
        return isAwake
            ? "\(cost): cores were kept awake, so the times compare code"
            : "\(cost): cores may sleep between messages, as on an idle device; --awake compares the code alone"
    }
}
