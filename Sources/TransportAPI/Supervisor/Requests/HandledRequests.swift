import Primitives

/// The requests of the peer that are being handled or wait for that, by number. A value that does no I/O. Requests are
/// handled in the order in which they came, a limited number of them at a time.
package struct HandledRequests<Work> {
    /// What to do with a request.
    package enum Verdict: Sendable, Hashable {
        /// Handle it now.
        case handle
        /// It is handled when others have ended.
        case wait
        /// A request of this number has not ended, so this is the same one again.
        case repeated
    }

    private var works: [UInt64: Work] = [:]
    private var waiting = Deque<UInt64>()
    private var handledCount = 0
    private let limit: Int

    /// - Parameter limit: How many requests are handled at a time.
    package init(limit: Int) {
        self.limit = limit
    }

    /// The number of requests that have not ended.
    package var count: Int { works.count }
    /// How many of them are being handled.
    package var current: Int { handledCount }

    /// The work of a request that has not ended.
    package subscript(_ number: UInt64) -> Work? { works[number] }

    /// Adds a request.
    package mutating func add(_ number: UInt64, _ work: Work) -> Verdict {
        guard works[number] == nil else { return .repeated }
        works[number] = work
        guard handledCount < limit else {
            waiting.append(number)
            return .wait
        }
        handledCount += 1
        return .handle
    }

    /// A request that was handled has ended. Returns the next one to handle.
    package mutating func ended(_ number: UInt64) -> Work? {
        guard works.removeValue(forKey: number) != nil else { return nil }
        guard let next = waiting.popFirst() else {
            handledCount -= 1
            return nil
        }
        return works[next]
    }

    /// Removes the requests that are not being handled, the oldest first.
    package mutating func removeWaiting() -> [Work] {
        var all: [Work] = []
        while let number = waiting.popFirst() { if let work = works.removeValue(forKey: number) { all.append(work) } }
        return all
    }

    /// Removes all requests.
    package mutating func removeAll() -> [Work] {
        let all = Array(works.values)
        (works, waiting, handledCount) = ([:], Deque(), 0)
        return all
    }
}
