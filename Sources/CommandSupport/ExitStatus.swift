/// The status with which the program ends, if no signal interrupts it (``Interruption/status``).
package enum ExitStatus {
    package static let good: Int32 = 0
    /// A run failed, or its accounts do not close.
    package static let failed: Int32 = 1
    /// Wrong usage.
    package static let usage: Int32 = 64
    /// An `--assert` did not hold.
    package static let assertion: Int32 = 99
}
