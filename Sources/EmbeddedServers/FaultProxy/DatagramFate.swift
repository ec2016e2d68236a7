import TransportAPI

/// What happens to one datagram on its way.
///
/// Each datagram takes as many random numbers, whatever the faults are: with the same seed the fate of the hundredth one
/// depends on the faults at that time only, and not on what came before.
struct DatagramFate: Hashable {
    let isLost: Bool
    let isDuplicated: Bool
    let isReordered: Bool
    /// Its part of the jitter, from 0 to 1.
    let spread: Double

    init(_ faults: PathFaults, _ random: inout RandomSource) {
        isLost = Double.random(in: 0..<1, using: &random) < faults.loss
        isDuplicated = Double.random(in: 0..<1, using: &random) < faults.duplication
        isReordered = Double.random(in: 0..<1, using: &random) < faults.reordering
        spread = Double.random(in: 0..<1, using: &random)
    }
}
