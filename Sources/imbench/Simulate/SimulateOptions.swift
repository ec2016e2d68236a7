/// Which worlds `imbench simulate` runs.
struct SimulateOptions: Sendable, Equatable {
    /// How many, and the seed of the first.
    var count = 10_000
    var first: UInt64 = 1
    var threads = 2
    var isVerbose = false
}
