import CommandSupport

/// Whether the numbers of a report can be trusted. Every report says it before its first number.
package enum Trust: Sendable, Hashable {
    /// They are counted or computed, so they are the same on a busy machine.
    case exact
    /// They are those of a model with random events, which are drawn from the seed. They are the same on a busy machine, and
    /// others with another seed.
    case simulated(seed: UInt64)
    /// They are times, which other programs make longer. The doubts are parts of a sentence that say why they did. The gaps
    /// are sentences about what could not be checked.
    case timed(MachineLoad?, doubts: [String] = [], gaps: [String] = [])
    /// They are computed from the times of recorded runs, which have said themselves whether they can be trusted. The doubts
    /// are parts of a sentence that say which of them cannot, or do not say so.
    case recorded(doubts: [String])

    /// Why not, as parts of a sentence; empty if they can.
    private var reasons: [String] {
        switch self {
        case .exact, .simulated: []
        case .timed(let load, let doubts, _): (load?.disturbances ?? []) + doubts
        case .recorded(let doubts): doubts
        }
    }

    package var isGiven: Bool { reasons.isEmpty }

    package var sentence: String {
        switch self {
        case .exact: return "Exact: the numbers are counted or computed, so other programs do not change them."
        case .simulated(let seed):
            return "Simulated: a model with random clients, seed \(seed); another --seed changes the numbers a little."
        case .timed(let load, _, let gaps):
            guard isGiven else {
                let figures = load.map { $0.sentence.isEmpty ? "" : " (\($0.sentence))" } ?? ""
                return
                    "Not trustworthy, because \(reasons.joined(separator: ", and "))\(figures). Repeat it on a quiet machine."
            }
            return ([judgement(load)] + gaps).joined(separator: " ")
        case .recorded(let doubts):
            guard isGiven else { return "Not trustworthy, because \(doubts.joined(separator: ", and "))." }
            return "Trustworthy: no run was disturbed."
        }
    }

    private func judgement(_ load: MachineLoad?) -> String {
        guard let load else { return "Too short to tell whether other programs disturbed it." }
        guard load.others != nil else {
            let unknown = "This system does not tell what other programs did"
            return load.sentence.isEmpty ? unknown + "." : "\(unknown): \(load.sentence)."
        }
        return "Trustworthy: \(load.sentence)."
    }

    /// For the JSON.
    var data: ReportValue {
        var members: [(String, ReportValue)] = [("given", .bool(isGiven)), ("sentence", .string(sentence))]
        if case .timed(let load?, _, _) = self {
            members += [
                ("others_percent_of_core", .rounded(load.others.map { $0 * 100 })),
                ("stolen_percent_of_core", .rounded(load.stolen.map { $0 * 100 })),
                ("load_average", .rounded(load.average)),
                ("involuntary_switches_per_s", .rounded(load.involuntarySwitches)),
            ]
        }
        return .object(members)
    }
}
