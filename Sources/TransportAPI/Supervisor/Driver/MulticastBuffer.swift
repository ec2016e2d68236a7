import Primitives

/// Gives each element to all listeners, each with a bounded buffer of its own. Lives on a runtime.
package final class MulticastBuffer<Element: Sendable> {
    /// What happens to an element that finds a listener's buffer full.
    package enum Bound {
        /// ``hasRoom`` turns false: the source is to pause until ``onRoom``.
        case pause
        /// The listener's oldest element is dropped.
        case dropOldest
    }

    /// The buffer of one sequence.
    final class Listener {
        // Unchecked exclusivity, because no other code runs while these change.
        @exclusivity(unchecked) private var buffer = Deque<Element>()
        @exclusivity(unchecked) fileprivate var waiters = Waiters<Element?>()
        @exclusivity(unchecked) fileprivate var isFinished = false
        /// How much memory its elements take.
        @exclusivity(unchecked) fileprivate var bytes = 0
        private let limit: Int
        private let byteLimit: Int
        private let size: (Element) -> Int

        init(limit: Int, byteLimit: Int, size: @escaping (Element) -> Int) {
            self.limit = limit
            self.byteLimit = byteLimit
            self.size = size
        }

        var count: Int { buffer.count }
        /// How many elements fit without more memory.
        var capacity: Int { buffer.capacity }
        var isFull: Bool { count >= limit || bytes >= byteLimit }

        func give(_ element: Element, _ bound: Bound) {
            if waiters.resumeFirst(returning: element) { return }
            let size = size(element)
            if bound == .dropOldest {
                while count > 0, count >= limit || size > byteLimit - bytes { _ = take() }
            }
            buffer.append(element)
            bytes += size
        }

        func take() -> Element? {
            guard let element = buffer.popFirst() else { return nil }
            bytes -= size(element)
            // A burst that is over must not cost memory for as long as the listener lives: there may be many of them.
            if buffer.isEmpty, buffer.capacity > 256 { buffer = Deque() }
            return element
        }

        fileprivate func discard() {
            (buffer, bytes) = (Deque(), 0)
        }
    }

    private let bound: Bound
    let limit: Int
    let byteLimit: Int
    private let size: (Element) -> Int
    // Unchecked exclusivity, for the same reason as a listener's.
    @exclusivity(unchecked) private var listeners: [Listener] = []
    /// What arrived while nobody listened, for the first who will.
    private let backlog: Listener?
    private let returnsUntaken: Bool
    private(set) var isFinished = false
    /// Called once every buffer is half empty, until it is taken away.
    package var onRoom: (() -> Void)?
    /// Called with ``bytes`` when an element has been taken, or a listener has gone.
    var onTaken: ((Int) -> Void)?

    /// - Parameters:
    ///   - limit: how many elements a listener's buffer holds.
    ///   - byteLimit: how much memory they may take together, in bytes; one element may pass it.
    ///   - keepsBacklog: whether elements that nobody listens to are kept, as many, for the next listener.
    ///   - returnsUntaken: whether what the last listener leaves behind is kept for the next one.
    ///   - size: how much memory an element takes, in bytes.
    package init(
        limit: Int,
        byteLimit: Int = .max,
        _ bound: Bound,
        keepsBacklog: Bool,
        returnsUntaken: Bool = false,
        size: @escaping (Element) -> Int = { _ in 0 }
    ) {
        self.returnsUntaken = returnsUntaken
        self.limit = max(1, limit)
        self.byteLimit = max(1, byteLimit)
        self.bound = bound
        self.size = size
        backlog = keepsBacklog ? Listener(limit: self.limit, byteLimit: self.byteLimit, size: size) : nil
    }

    /// How much memory all elements take, in bytes. Each listener's buffer is the end of one sequence, so that the
    /// longest of them holds all.
    var bytes: Int { listeners.isEmpty ? backlog?.bytes ?? 0 : listeners.reduce(0) { max($0, $1.bytes) } }

    /// Whether every buffer takes another element.
    package var hasRoom: Bool {
        if listeners.isEmpty { return backlog?.isFull != true }
        return !listeners.contains { $0.isFull }
    }

    var hasListeners: Bool { !listeners.isEmpty }

    /// Whether every listener's buffer is half empty at least.
    var isHalfEmpty: Bool { listeners.allSatisfy { $0.count <= limit / 2 && $0.bytes <= byteLimit / 2 } }

    /// Takes what is kept for the next listener.
    func takeBacklog() -> [Element] {
        var elements: [Element] = []
        while let element = backlog?.take() { elements.append(element) }
        return elements
    }

    /// Whether some buffer holds so many elements more than it should, or twice as many bytes.
    func isFull(beyond excess: Int) -> Bool {
        if listeners.isEmpty { return backlog.map { isFull($0, beyond: excess) } ?? false }
        return listeners.contains { isFull($0, beyond: excess) }
    }

    private func isFull(_ listener: Listener, beyond excess: Int) -> Bool {
        listener.count >= limit + excess || listener.bytes / 2 >= byteLimit
    }

    /// Tells the source when to go on: not for each element taken, but for half a buffer of them.
    private func taken() {
        if let onTaken { onTaken(bytes) }
        guard let onRoom, !listeners.isEmpty, isHalfEmpty else { return }
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

    /// Ends every listener's sequence at once, without what it still holds.
    func discard() {
        backlog?.discard()
        for listener in listeners { listener.discard() }
        onTaken?(0)
        finish()
    }

    private func end(_ listener: Listener) {
        listener.isFinished = true
        listener.waiters.resumeAll(returning: nil)
    }

    /// Somebody listens from now on, and is given `first` before all else.
    func add(first: Element?) -> Listener {
        let listener = Listener(limit: limit, byteLimit: byteLimit, size: size)
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
        if returnsUntaken, listeners.isEmpty, let backlog {
            while let element = listener.take() { backlog.give(element, bound) }
        }
        onTaken?(bytes)
        if hasRoom { onRoom?() }
    }

    /// The next element if there is one, or the end; `nil` if there is neither yet.
    @inline(__always)
    func next(_ listener: Listener) -> Element?? {
        if let element = listener.take() {
            taken()
            return element
        }
        return listener.isFinished ? .some(nil) : nil
    }

    /// Gives the next element, or the end, as soon as it is there. One waits at a time: a second one gets the end.
    func wait(_ listener: Listener, _ waitID: UInt64, _ continuation: UnsafeContinuation<Element?, Never>) {
        guard listener.waiters.isEmpty else { return continuation.resume(returning: nil) }
        if let next = next(listener) {
            continuation.resume(returning: next)
        } else {
            listener.waiters.append(waitID, continuation)
        }
    }

    /// Ends a wait, unless it has ended.
    func cancel(_ waitID: UInt64) {
        for listener in listeners { listener.waiters.resume(waitID, returning: nil) }
    }
}
