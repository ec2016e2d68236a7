/// One row: what is compared with what, and how it should come out.
struct Comparison: Sendable {
    /// Which ratio of ours to the peer is wanted. Of times a small one is good, of rates a large one.
    enum Wanted: Sendable {
        case atMost(Double)
        case atLeast(Double)

        /// Whether a ratio, as the table shows it, is what is wanted.
        func isMet(by ratio: Double) -> Bool {
            let shown = (ratio * 100).rounded() / 100
            return switch self {
            case .atMost(let bound): shown <= bound
            case .atLeast(let bound): shown >= bound
            }
        }

        var text: String {
            switch self {
            case .atMost(let bound): "≤ " + shown(bound)
            case .atLeast(let bound): "≥ " + shown(bound)
            }
        }
    }

    var ours: Recipe
    /// `nil` where a number stands for itself.
    var peer: Recipe?
    /// `nil` where nothing is wanted, and the row is there to be known.
    var wanted: Wanted?

    init(_ ours: Recipe, _ peer: Recipe? = nil, _ wanted: Wanted? = nil) {
        (self.ours, self.peer, self.wanted) = (ours, peer, wanted)
    }

    /// What the row is called, and what `--only` looks for.
    var name: String {
        let workload = ours.workload.name
        return peer.map { "\(workload): \(ours.name) / \($0.name)" } ?? "\(workload): \(ours.name)"
    }
}
