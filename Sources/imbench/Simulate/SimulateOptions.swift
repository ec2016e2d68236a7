/// Which worlds `imbench simulate` runs.
struct SimulateOptions: Sendable, Equatable {
    /// How many, and the seed of the first.
    var count = 10_000
    var first: UInt64 = 1
    var threads = 2
    var isVerbose = false
    /// Whether the whole stack is simulated, and not the supervisor's machine alone.
    var isStack = false
    /// A defect that the whole stack is simulated with.
    var defect: StackDefect?
}
