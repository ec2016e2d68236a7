import Foundation

/// What else the machine did during a measurement, which the times of the measurement include.
package struct MachineLoad: Sendable, Hashable {
    /// The threads that wanted to run, on average over the minute before the measurement.
    package var average: Double?
    /// How much of one core other programs used: 1 is a whole core. `nil` where the system does not tell.
    package var others: Double?
    /// How much of one core the hypervisor gave to other machines.
    package var stolen: Double?
    /// How often a second this process had to give up a core although it had work to do.
    package var involuntarySwitches: Double
    /// The length of the measurement; `nil` if it is not known.
    package var seconds: Double?

    /// The most of one core that others may use before times are called disturbed.
    package static let quiet = 0.1
    /// The processor time that is counted differently for the machine and for its processes, as a share of one core. The
    /// kernel samples the former by a clock, and measures the latter.
    private static let unexplained = 0.25

    package init(
        average: Double?,
        others: Double?,
        stolen: Double?,
        involuntarySwitches: Double,
        seconds: Double? = nil
    ) {
        (self.average, self.others, self.stolen, self.seconds) = (average, others, stolen, seconds)
        self.involuntarySwitches = involuntarySwitches
    }

    /// The load between two samples; `nil` if they are less than a fifth of a second apart, because the system counts in
    /// hundredths.
    package init?(from start: ProcessorUse, to end: ProcessorUse, average: Double?) {
        let seconds = Double(end.time - start.time) / 1e9
        guard seconds >= 0.2 else { return nil }
        (self.average, self.seconds) = (average, seconds)
        involuntarySwitches = Double(max(0, end.involuntarySwitches - start.involuntarySwitches)) / seconds
        guard let before = start.machine, let after = end.machine else { return }
        func share(_ value: (ProcessorUse.Machine) -> Double) -> Double {
            max(0, value(after) - value(before)) / seconds
        }
        let seen = share(\.others)
        let hidden = share(\.all) - share(\.own) - seen
        others = seen + (hidden > Self.unexplained ? hidden : 0)
        stolen = share(\.stolen)
    }

    /// The load of the minute before, as the system tells it.
    package static func average() -> Double? {
        var average = 0.0
        return getloadavg(&average, 1) == 1 ? average : nil
    }

    /// Why times of this measurement are not to be trusted, as parts of a sentence.
    package var disturbances: [String] {
        func reason(_ share: Double?, _ who: String) -> String? {
            guard let share, share > Self.quiet else { return nil }
            return "\(who) \(percent(share)) of a core"
        }
        return [reason(others, "other programs used"), reason(stolen, "the hypervisor took")].compactMap { $0 }
    }

    /// The figures that are no disturbance, for people. The load of the minute before is only told where the system does not
    /// tell what others used.
    package var sentence: String {
        func share(_ share: Double?, _ text: (String) -> String) -> String? {
            share.flatMap { $0 > Self.quiet ? nil : text(percent($0)) }
        }
        let parts = [
            share(others) { "other programs used \($0) of a core" },
            share(stolen) { "the hypervisor took \($0)" },
            others == nil
                ? average.map {
                    "the load of the minute before was \(fixed($0, 1)), and an idle machine has less than 1"
                } : nil,
            others == nil ? nil : seconds.map { "over \(fixed($0, $0 < 9.95 ? 1 : 0)) s" },
        ]
        return parts.compactMap { $0 }.joined(separator: ", ")
    }

    private func percent(_ share: Double) -> String { "\(fixed(share * 100, 0)) %" }
}
