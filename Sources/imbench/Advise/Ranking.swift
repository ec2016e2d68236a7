import CommandSupport
import TransportAPI
import Transports
import Workloads

/// The candidates in the order of their points. All numbers are rounded as they are printed, so the order follows from the
/// printed numbers.
struct Ranking: Sendable {
    /// One criterion of one candidate.
    struct Score: Sendable, Equatable {
        var criterion: Criterion
        var weight: Int
        var figure: Double
        var points: Double
    }

    struct Entry: Sendable {
        var candidate: Candidate
        var scores: [Score]
        /// The weighted mean of the points.
        var total: Double
    }

    /// The best candidate first.
    var entries: [Entry] = []
    /// The criteria that matter, with their weights.
    var weights: [(criterion: Criterion, weight: Int)]
    /// The candidates that are not excluded, but have no figures.
    var unmeasured: [(name: String, reason: String)] = []

    init(_ candidates: [Candidate], _ measured: AdviceFigures, _ options: AdviceOptions, _ answers: Answers) {
        weights = Criterion.allCases.map { ($0, $0.weight(answers)) }.filter { $0.1 > 0 }
        var known: [(candidate: Candidate, figures: [Double])] = []
        for candidate in candidates {
            let row = measured.row(of: candidate.name, for: answers)
            guard let own = row?.figures else {
                unmeasured.append((candidate.name, row?.reason ?? "no figures \(measured.origin)"))
                continue
            }
            known.append((candidate, weights.map { $0.criterion.figure(candidate, own, options, answers) }))
        }
        let sum = weights.reduce(0) { $0 + $1.weight }
        entries = known.map { candidate, figures in
            var scores: [Score] = []
            for (index, (criterion, weight)) in weights.enumerated() {
                let smallest = known.map { $0.figures[index] }.min() ?? 0
                let points = criterion.points(figures[index], smallest: smallest)
                scores.append(Score(criterion: criterion, weight: weight, figure: figures[index], points: points))
            }
            let total = scores.reduce(0) { $0 + Double($1.weight) * $1.points } / Double(max(1, sum))
            return Entry(candidate: candidate, scores: scores, total: rounded(total, 2))
        }
        // Equal points: the lower first figures win, in the order of the criteria, and then the name.
        entries.sort { one, other in
            if one.total != other.total { return one.total > other.total }
            for (mine, theirs) in zip(one.scores, other.scores) where mine.figure != theirs.figure {
                return mine.figure < theirs.figure
            }
            return one.candidate.name < other.candidate.name
        }
    }

    /// The difference below which two candidates fit equally well. The weights are not more exact than this.
    static let near = 0.5

    /// The result in words; `nil` without any entry.
    func verdict(_ answers: Answers) -> String? {
        guard let first = entries.first else { return nil }
        let subject = "\(first.candidate.name) comes first for '\(answers.workload.rawValue)'"
        guard entries.count > 1 else {
            return "\(subject), because " + (unmeasured.isEmpty ? "nothing else is left." : "no other has figures.")
        }
        let next = entries[1]
        let points =
            "with \(fixed(first.total, 2)) of 10 points, before \(next.candidate.name) with \(fixed(next.total, 2))"
        return "\(subject), \(points)" + (first.total - next.total < Self.near ? "; both fit about equally well." : ".")
    }
}
