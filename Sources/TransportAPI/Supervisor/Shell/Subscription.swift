/// What a supervisor tells those who listen: any number may, each with a bounded buffer of its own. Listening begins when the
/// sequence is made and ends when it and its iterators are let go, or the task is cancelled. One task at a time may wait.
public struct Subscription<Element: Sendable>: AsyncSequence, Sendable {
    /// Keeps the listener's place for as long as anybody can ask for its elements.
    @usableFromInline final class Place: Sendable {
        fileprivate let broadcast: RuntimeBound<MulticastBuffer<Element>>
        fileprivate let listener: RuntimeBound<Listener>

        fileprivate init(
            _ broadcast: RuntimeBound<MulticastBuffer<Element>>,
            _ first: @escaping @Sendable () -> Element?
        ) {
            let listener = RuntimeBound(Listener(first), to: broadcast.runtime)
            self.broadcast = broadcast
            self.listener = listener
            if broadcast.runtime.isCurrent {
                _ = listener.value.entry(in: broadcast.value)
            } else {
                broadcast.runtime.execute { _ = listener.value.entry(in: broadcast.value) }
            }
        }

        deinit {
            broadcast.runtime.execute { [broadcast, listener] in
                broadcast.value.remove(listener.value.entry(in: broadcast.value))
            }
        }
    }

    /// The place of one listener, entered when the runtime first hears of it.
    fileprivate final class Listener {
        private var entered: MulticastBuffer<Element>.Listener?
        private var first: (@Sendable () -> Element?)?

        init(_ first: @escaping @Sendable () -> Element?) {
            self.first = first
        }

        func entry(in broadcast: MulticastBuffer<Element>) -> MulticastBuffer<Element>.Listener {
            if let entered { return entered }
            let new = broadcast.add(first: first?())
            entered = new
            first = nil
            return new
        }
    }

    private let place: Place

    package init(
        _ broadcast: RuntimeBound<MulticastBuffer<Element>>,
        first: @escaping @Sendable () -> Element? = { nil }
    ) {
        place = Place(broadcast, first)
    }

    /// Begins to read. All iterators of one sequence share its place: each element goes to one of them.
    public func makeAsyncIterator() -> Iterator {
        Iterator(place: place)
    }

    /// Reads a sequence.
    public struct Iterator: AsyncIteratorProtocol {
        @usableFromInline let place: Place

        /// The next element; `nil` at the end, or when the task is cancelled.
        @inlinable
        public mutating func next() async -> Element? {
            await next(isolation: #isolation)
        }

        /// As ``next()``, without leaving the caller's actor if that lives on the supervisor's loop.
        @inlinable
        public mutating func next(isolation actor: isolated (any Actor)?) async -> Element? {
            var element: Element?
            await place.next(into: &element, actor)
            return element
        }
    }
}

extension Subscription.Place {
    // Who calls is in another module, and what is not made for its type there looks up types at run time, for each
    // message: also the type of an optional that is returned, but not of one that is filled in by something that has it
    // made already.
    @specialized(where Element == Payload)
    @usableFromInline
    func next(into element: inout Element?, _ isolation: isolated (any Actor)?) async {
        await fill(&element, isolation)
    }

    @inline(never)
    private func fill(_ element: inout Element?, _ isolation: isolated (any Actor)?) async {
        guard let here = broadcast.here, let entry = listener.here?.entry(in: here) else {
            element = await nextElsewhere(isolation)
            return
        }
        if let next = here.next(entry) {
            element = next
            return
        }
        let waitID = here.newWaitID()
        element = await suspending(on: broadcast, as: waitID, isolation) {
            $0.wait(entry, waitID, $1)
        } onCancel: {
            $0.cancel($1)
        } elsewhere: {
            await nextElsewhere(isolation)
        }
    }

    private func nextElsewhere(_ isolation: isolated (any Actor)?) async -> Element? {
        let listener = listener
        if case let element?? = broadcast.runInlineIfIdle({ $0.next(listener.value.entry(in: $0)) }) { return element }
        return await suspendingElsewhere(on: broadcast, isolation) { (broadcast, continuation) -> UInt64 in
            let waitID = broadcast.newWaitID()
            broadcast.wait(listener.value.entry(in: broadcast), waitID, continuation)
            return waitID
        } onCancel: {
            $0.cancel($1)
        }
    }
}
