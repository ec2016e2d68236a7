import Primitives

/// Gives each element to all listeners, each of which has its own bounded buffer. Lives on a runtime.
package final class MulticastBuffer<Element: Sendable> {
    /// The handling of an element when a listener's buffer is full.
    package enum Bound {
        /// ``hasRoom`` becomes false, and the source pauses until ``onRoom``.
        case pause
        /// The listener's oldest element is dropped.
        case dropOldest
    }

    /// The buffer of one sequence.
    final class Listener {
        // Exclusivity is unchecked because no other code runs while these change.
        @exclusivity(unchecked) private var buffer = Deque<Element>()
        @exclusivity(unchecked) fileprivate var waiters = Waiters<Element?>()
        @exclusivity(unchecked) fileprivate var isFinished = false
        /// How much memory its elements take.
        @exclusivity(unchecked) fileprivate var bytes = 0
        /// How many elements were sent before those that it was given.
        fileprivate var start: UInt64 = 0
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
            // The memory of a burst is freed when it is over, because there can be many listeners and each can live
            // long.
            if buffer.isEmpty, buffer.capacity > 256 { buffer = Deque() }
            return element
        }

        /// Puts elements before its own.
        fileprivate func putFirst(_ elements: [Element]) {
            var own = buffer
            (buffer, bytes) = (Deque(), 0)
            for element in elements { give(element, .pause) }
            while let element = own.popFirst() { give(element, .pause) }
        }

        fileprivate func discard() {
            (buffer, bytes) = (Deque(), 0)
        }
    }

    private let bound: Bound
    let limit: Int
    let byteLimit: Int
    private let size: (Element) -> Int
    // Exclusivity is unchecked for the same reason as a listener's.
    @exclusivity(unchecked) private var listeners: [Listener] = []
    /// Elements for the next listener: those that arrived while there was none, after those that the last one left. Empty
    /// while there are listeners.
    private var backlog: Listener?
    private let passesOn: Bool
    /// How many elements were sent.
    @exclusivity(unchecked) private var sentCount: UInt64 = 0
    private(set) var isFinished = false
    /// Called when every buffer is at least half empty. Set it to `nil` to stop the calls.
    package var onRoom: (() -> Void)?
    /// Called with ``bytes`` when an element has been taken, or a listener was removed.
    var onTaken: ((Int) -> Void)?

    /// - Parameters:
    ///   - limit: How many elements a listener's buffer can contain.
    ///   - byteLimit: How much memory they may take together, in bytes. One element may exceed it.
    ///   - keepsBacklog: Whether elements that the last listener leaves, or that arrive without a listener, are kept for
    ///     the next one, within the same limits.
    ///   - passesOn: Whether the next one also gets them if it was made before the last one was removed, and has taken
    ///     later elements since. Otherwise it gets them only if it has taken none, so that their order is kept.
    ///   - size: How much memory an element takes, in bytes.
    package init(
        limit: Int,
        byteLimit: Int = .max,
        _ bound: Bound,
        keepsBacklog: Bool,
        passesOn: Bool = false,
        size: @escaping (Element) -> Int = { _ in 0 }
    ) {
        self.passesOn = passesOn
        self.limit = max(1, limit)
        self.byteLimit = max(1, byteLimit)
        self.bound = bound
        self.size = size
        backlog = keepsBacklog ? Listener(limit: self.limit, byteLimit: self.byteLimit, size: size) : nil
    }

    /// How much memory all elements take, in bytes. Each listener's buffer is the end of one sequence, so the longest
    /// of them contains all elements.
    var bytes: Int { listeners.isEmpty ? backlog?.bytes ?? 0 : listeners.reduce(0) { max($0, $1.bytes) } }

    /// Whether every buffer has room for another element.
    package var hasRoom: Bool {
        if listeners.isEmpty { return backlog?.isFull != true }
        return !listeners.contains { $0.isFull }
    }

    package var hasListeners: Bool { !listeners.isEmpty }
    var listenerCount: Int { listeners.count }

    /// Whether every listener's buffer is at least half empty.
    var isHalfEmpty: Bool { listeners.allSatisfy { $0.count <= limit / 2 && $0.bytes <= byteLimit / 2 } }

    /// Takes the elements that are kept for the next listener, and keeps none from now on.
    func endBacklog() -> [Element] {
        var elements: [Element] = []
        while let element = backlog?.take() { elements.append(element) }
        backlog = nil
        return elements
    }

    /// Whether a buffer exceeds its limit by `excess` or more elements, or contains twice its limit in bytes.
    func isFull(beyond excess: Int) -> Bool {
        if listeners.isEmpty { return backlog.map { isFull($0, beyond: excess) } ?? false }
        return listeners.contains { isFull($0, beyond: excess) }
    }

    private func isFull(_ listener: Listener, beyond excess: Int) -> Bool {
        listener.count - limit >= excess || listener.bytes / 2 >= byteLimit
    }

    /// Notifies the source when half of every buffer is free, and not for each element taken.
    private func taken() {
        if let onTaken { onTaken(bytes) }
        guard let onRoom, !listeners.isEmpty, isHalfEmpty else { return }
        onRoom()
    }

    package func send(_ element: Element) {
        guard !isFinished else { return }
        sentCount += 1
        if listeners.isEmpty { backlog?.give(element, bound) }
        for listener in listeners { listener.give(element, bound) }
    }

    /// Ends every listener's sequence after its buffered elements.
    package func finish() {
        isFinished = true
        onRoom = nil
        for listener in listeners { end(listener) }
    }

    /// Ends every listener's sequence at once, without its buffered elements.
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

    /// Adds a listener, which gets `first` before all other elements.
    func add(first: Element?) -> Listener {
        let listener = Listener(limit: limit, byteLimit: byteLimit, size: size)
        if let first { listener.give(first, bound) }
        listener.start = sentCount
        if listeners.isEmpty, let backlog {
            listener.start -= UInt64(backlog.count)
            while let element = backlog.take() { listener.give(element, bound) }
        }
        if isFinished { listener.isFinished = true }
        listeners.append(listener)
        return listener
    }

    /// Removes a listener, without a call of other code. ``noteRemoval()`` makes the calls.
    func remove(_ listener: Listener) {
        listeners.removeAll { $0 === listener }
        end(listener)
        guard let backlog else { return }
        guard let next = listeners.first else {
            while let element = listener.take() { backlog.give(element, bound) }
            return
        }
        // If the next listener was made before this one is removed, it gets the elements that were sent before that. If
        // there are others, the first of them was given the most.
        let isUnused = next.start + UInt64(next.count) == sentCount
        guard passesOn || isUnused else { return }
        var missing: [Element] = []
        while UInt64(listener.count) > sentCount - next.start, let element = listener.take() { missing.append(element) }
        guard !missing.isEmpty else { return }
        next.putFirst(missing)
        if isUnused { next.start -= UInt64(missing.count) }
    }

    /// Notifies the source after the removal of a listener.
    func noteRemoval() {
        onTaken?(bytes)
        if hasRoom { onRoom?() }
    }

    /// Returns the next element if there is one, or the end. Returns `nil` if there is neither yet.
    @inline(__always)
    func next(_ listener: Listener) -> Element?? {
        if let element = listener.take() {
            taken()
            return element
        }
        return listener.isFinished ? .some(nil) : nil
    }

    /// Resumes `continuation` with the next element, or with the end, as soon as it is there. Only one caller can wait
    /// at a time; a second one gets the end.
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
