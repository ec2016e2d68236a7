/// The longest steps of the handshakes of a server, in nanoseconds of the thread's processor time.
struct HandshakeSteps {
    /// Descending.
    private var longest: [Int64] = []
    private static let count = 10

    mutating func add(_ time: Int64) {
        let place = longest.firstIndex { $0 < time } ?? longest.endIndex
        guard place < Self.count else { return }
        longest.insert(time, at: place)
        if longest.count > Self.count { longest.removeLast() }
    }

    /// The longest step. A hypervisor that takes the processor away in a step makes it longer.
    var single: Int64 { longest.first ?? 0 }

    /// A time that ten steps took or exceeded. A peer that chooses an expensive step chooses it in each handshake, and an
    /// interruption makes one step longer. ``single`` if there were fewer steps.
    var repeated: Int64 { longest.count < Self.count ? single : longest[Self.count - 1] }
}
