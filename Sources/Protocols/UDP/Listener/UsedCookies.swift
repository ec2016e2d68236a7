import TransportAPI

/// The attempts whose session has ended while their cookie is still valid. With them a confirm that arrives late or is
/// replayed opens no second session. The number is limited. The oldest are removed first.
struct UsedCookies {
    private var members: Set<UInt64> = []
    private var queue: [(attempt: UInt64, until: Instant)] = []
    private var first = 0
    private let limit: Int

    init(limit: Int) {
        self.limit = limit
    }

    func contains(_ attempt: UInt64) -> Bool { members.contains(attempt) }

    mutating func insert(_ attempt: UInt64, now: Instant) {
        guard members.insert(attempt).inserted else { return }
        if members.count > limit { forgetFirst() }
        queue.append((attempt, now.advanced(by: UDPCookies.lifetime)))
    }

    mutating func forgetExpired(now: Instant) {
        while first < queue.count, queue[first].until <= now { forgetFirst() }
    }

    private mutating func forgetFirst() {
        guard first < queue.count else { return }
        members.remove(queue[first].attempt)
        first += 1
        // The rest moves to the front when half of the queue is expired. So each member is moved once on average.
        guard first * 2 >= queue.count else { return }
        queue.removeFirst(first)
        first = 0
    }
}
