import TransportAPI

/// When something last went in each direction, for a core that keeps its connection alive itself.
struct PathTimes: Sendable {
    var lastSent = Instant.zero
    var lastReceived = Instant.zero
    /// ``CoreContext/unreadUntil`` and ``CoreContext/outputMoved`` at the last deadline.
    private(set) var unreadUntil = Instant.zero
    private(set) var outputMoved = Instant.zero

    /// Stores the driver's times of the path, when a deadline is reached.
    mutating func look(at context: borrowing CoreContext) {
        unreadUntil = context.unreadUntil
        outputMoved = context.outputMoved
    }
}

extension Instant {
    /// This instant plus a number of nanoseconds. The sum saturates.
    func advanced(byNanoseconds amount: Int64) -> Instant {
        let (sum, overflow) = nanoseconds.addingReportingOverflow(amount)
        return Instant(nanoseconds: overflow ? .max : sum)
    }
}
