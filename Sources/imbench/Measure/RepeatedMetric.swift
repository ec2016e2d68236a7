/// A number that each repeat of a row gives anew, by its name in `--assert`. Two runs are compared by these: the repeats tell
/// what chance alone does.
enum RepeatedMetric: String, Sendable, Hashable, CaseIterable {
    case p50 = "rtt.p50_us"
    case p99 = "rtt.p99_us"
    case ratioToFloor = "ratio_to_floor_p50"
    case throughput = "throughput_msgs_per_s"
    case cpu = "cpu_us_per_msg"

    /// The name of its values in JSON.
    var key: String { rawValue.split(separator: ".").joined(separator: "_") }

    /// The head of its column in tables.
    var title: String {
        switch self {
        case .p50: "p50 µs"
        case .p99: "p99 µs"
        case .ratioToFloor: "×floor"
        case .throughput: "msgs/s"
        case .cpu: "CPU µs/msg"
        }
    }

    /// Whether more of it is what one wants.
    var isBetterWhenLarger: Bool { self == .throughput }
}

/// What every repeat has given, in the order of the repeats; `nil` where it gave nothing, or too few samples support it.
typealias RepeatedValues = [RepeatedMetric: [Double?]]

extension RepeatedValues {
    /// The values of those repeats that gave any.
    func known(_ metric: RepeatedMetric) -> [Double] { (self[metric] ?? []).compactMap { $0 } }
}
