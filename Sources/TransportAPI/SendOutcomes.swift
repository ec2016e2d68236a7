/// How the messages of a batch ended, one outcome for each, in their order.
public struct SendOutcomes: Sendable, Hashable, RandomAccessCollection {
    // Mostly one and the same for all, so neighbours that are equal are kept once.
    private var runs: [Run] = []

    private struct Run: Sendable, Hashable {
        var end: Int
        var outcome: SendOutcome
    }

    /// No outcomes.
    public init() {}

    /// Whether all messages are on their way or have arrived.
    public var isSuccess: Bool { runs.allSatisfy(\.outcome.isSuccess) }

    /// Appends the same outcome for each of `count` messages.
    public mutating func append(_ outcome: SendOutcome, count: Int = 1) {
        guard count > 0 else { return }
        if let last = runs.indices.last, runs[last].outcome == outcome {
            runs[last].end += count
        } else {
            runs.append(Run(end: endIndex + count, outcome: outcome))
        }
    }

    /// 0: the first message of the batch.
    public var startIndex: Int { 0 }
    /// How many outcomes there are.
    public var endIndex: Int { runs.last?.end ?? 0 }

    /// The outcome of the message at `index` of the batch.
    public subscript(index: Int) -> SendOutcome {
        precondition(indices.contains(index), "the batch has no such message")
        var (low, high) = (0, runs.count - 1)
        while low < high {
            let middle = (low + high) / 2
            if index < runs[middle].end { high = middle } else { low = middle + 1 }
        }
        return runs[low].outcome
    }
}
