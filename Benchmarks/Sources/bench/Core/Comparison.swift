import CommandSupport

/// One row of the table: two contenders, and the limit on their ratio.
struct Comparison: Sendable {
    /// The limit on the ratio of our value to the peer's. A small ratio of times is good, and a large ratio of rates.
    enum Wanted: Sendable {
        case atMost(Double)
        case atLeast(Double)

        /// Whether a ratio is within the limit, rounded as in the table.
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
    /// The other contender; `nil` if the row shows our value alone.
    var peer: Recipe?
    /// The limit; `nil` if the row is for information only.
    var wanted: Wanted?

    init(_ ours: Recipe, _ peer: Recipe? = nil, _ wanted: Wanted? = nil) {
        (self.ours, self.peer, self.wanted) = (ours, peer, wanted)
    }

    /// The name of the row, in which `--only` searches.
    var name: String {
        let name = "\(ours.workload.name): \(ours.name)"
        guard let peer else { return name }
        return name + " / " + (peer.workload == ours.workload ? peer.name : "\(peer.name), \(peer.workload.name)")
    }
}
