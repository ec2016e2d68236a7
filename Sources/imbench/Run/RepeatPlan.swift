import CommandSupport

/// How the extent of a row is divided into repeats.
struct RepeatPlan: Sendable {
    /// The longest time of a repeat.
    var duration: Duration
    /// The messages of each repeat, over all connections; `Int.max` if the duration ends it.
    var messages: [Int]
    /// The sentence for the report if the repeats are not those of the options.
    var remark: String?

    /// The messages are spread evenly. Each connection sends at least one of them in a repeat, so few messages have fewer
    /// repeats.
    init(_ load: EchoLoad) {
        switch load.extent {
        case .duration(let whole):
            duration = whole / load.repeats
            messages = [Int](repeating: .max, count: load.repeats)
        case .messages(let wanted):
            duration = .seconds(3600)
            let total = max(wanted, load.connections)
            let repeats = min(load.repeats, total / load.connections)
            messages = Self.shares(of: total, among: repeats)
            guard repeats < load.repeats || total > wanted else { return }
            remark =
                "--messages \(wanted): each row has \(counted(total, "message")) in \(counted(repeats, "repeat")), "
                + "because each connection sends at least one in a repeat"
        }
    }

    /// `count` numbers that differ by 1 at most, and whose sum is `total`.
    static func shares(of total: Int, among count: Int) -> [Int] {
        (0..<count).map { total / count + ($0 < total % count ? 1 : 0) }
    }
}
