import Primitives
import TransportAPI

/// The attempts whose session has ended while their cookie is still valid. With them a confirm that arrives late or is
/// replayed opens no second session. The number is limited. The oldest are removed first.
struct UsedCookies {
    private var members: Set<UInt64> = []
    private var queue = Deque<(attempt: UInt64, until: Instant)>()
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
        while let first = queue.first, first.until <= now { forgetFirst() }
    }

    private mutating func forgetFirst() {
        if let first = queue.popFirst() { members.remove(first.attempt) }
    }
}
