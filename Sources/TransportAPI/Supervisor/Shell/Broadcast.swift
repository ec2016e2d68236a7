/// Gives each element to all who listen, each with a bounded buffer of its own. Lives on a runtime.
package final class Broadcast<Element: Sendable> {
    /// What happens to an element that finds a listener's buffer full.
    package enum Bound {
        /// ``hasRoom`` turns false: the source is to pause until ``onRoom``.
        case pause
        /// The listener's oldest element is dropped.
        case dropOldest
    }

    /// One who listens.
    final class Listener {
        // Unchecked exclusivity, because nobody is called while these change.
        @exclusivity(unchecked) private var buffer: [Element] = []
        @exclusivity(unchecked) private var head = 0
        @exclusivity(unchecked) fileprivate var waiter: (id: UInt64, continuation: UnsafeContinuation<Element?, Never>)?
        @exclusivity(unchecked) fileprivate var isFinished = false
        private let limit: Int

        init(limit: Int) {
            self.limit = limit
        }

        var count: Int { buffer.count - head }
        var isFull: Bool { count >= limit }

        func give(_ element: Element, _ bound: Bound) {
            if let waiter {
                self.waiter = nil
                return waiter.continuation.resume(returning: element)
            }
            if bound == .dropOldest, isFull { _ = take() }
            buffer.append(element)
        }

        func take() -> Element? {
            guard head < buffer.count else { return nil }
            let element = buffer[head]
            head += 1
            if head == buffer.count {
                buffer.removeAll(keepingCapacity: true)
                head = 0
            } else if head >= 64, head * 2 >= buffer.count {
                buffer.removeFirst(head)
                head = 0
            }
            return element
        }
    }

    private let bound: Bound
    let limit: Int
    // Unchecked exclusivity, for the same reason as a listener's.
    @exclusivity(unchecked) private var listeners: [Listener] = []
    @exclusivity(unchecked) private var lastWaitID: UInt64 = 0
    /// What arrived while nobody listened, for the first who will.
    private let backlog: Listener?
    private(set) var isFinished = false
    /// Called once every buffer is half empty, until it is taken away.
    package var onRoom: (() -> Void)?

    /// - Parameters:
    ///   - limit: how many elements a listener's buffer holds.
    ///   - keepsBacklog: whether elements that nobody listens to are kept, as many, for the next listener.
    package init(limit: Int, _ bound: Bound, keepsBacklog: Bool) {
        self.limit = max(1, limit)
        self.bound = bound
        backlog = keepsBacklog ? Listener(limit: self.limit) : nil
    }

    /// Whether every buffer takes another element.
    package var hasRoom: Bool {
        if listeners.isEmpty { return backlog?.isFull != true }
        return !listeners.contains { $0.isFull }
    }

    /// Whether some buffer holds so much more than it should.
    func isFull(beyond excess: Int) -> Bool {
        if listeners.isEmpty { return backlog.map { $0.count >= limit + excess } ?? false }
        return listeners.contains { $0.count >= limit + excess }
    }

    /// Tells the source when to go on: not for each element taken, but for half a buffer of them.
    private func taken() {
        guard let onRoom, !listeners.isEmpty, listeners.allSatisfy({ $0.count <= limit / 2 }) else { return }
        onRoom()
    }

    package func send(_ element: Element) {
        guard !isFinished else { return }
        if listeners.isEmpty { backlog?.give(element, bound) }
        for listener in listeners { listener.give(element, bound) }
    }

    /// Ends every listener's sequence, after what it still holds.
    package func finish() {
        isFinished = true
        onRoom = nil
        for listener in listeners { end(listener) }
    }

    private func end(_ listener: Listener) {
        listener.isFinished = true
        listener.waiter?.continuation.resume(returning: nil)
        listener.waiter = nil
    }

    /// Somebody listens from now on, and is given `first` before all else.
    func add(first: Element?) -> Listener {
        let listener = Listener(limit: limit)
        if let first { listener.give(first, bound) }
        if listeners.isEmpty, let backlog {
            while let element = backlog.take() { listener.give(element, bound) }
        }
        if isFinished { listener.isFinished = true }
        listeners.append(listener)
        return listener
    }

    func remove(_ listener: Listener) {
        listeners.removeAll { $0 === listener }
        end(listener)
        if hasRoom { onRoom?() }
    }

    /// The next element if there is one, or the end; `nil` if there is neither yet.
    func next(_ listener: Listener) -> Element?? {
        if let element = listener.take() {
            taken()
            return element
        }
        return listener.isFinished ? .some(nil) : nil
    }

    /// Tells one wait from the next, so that a cancellation that comes late finds its own or none.
    func newWaitID() -> UInt64 {
        lastWaitID += 1
        return lastWaitID
    }

    /// Gives the next element, or the end, as soon as it is there. One waits at a time: a second one gets the end.
    func wait(_ listener: Listener, _ waitID: UInt64, _ continuation: UnsafeContinuation<Element?, Never>) {
        guard listener.waiter == nil else { return continuation.resume(returning: nil) }
        if let next = next(listener) {
            continuation.resume(returning: next)
        } else {
            listener.waiter = (waitID, continuation)
        }
    }

    /// Ends a wait, unless it has ended.
    func cancel(_ waitID: UInt64) {
        guard let listener = listeners.first(where: { $0.waiter?.id == waitID }) else { return }
        listener.waiter?.continuation.resume(returning: nil)
        listener.waiter = nil
    }
}
