import Primitives

/// Events of a supervisor for any number of listeners, each with its own bounded buffer. Listening begins when the
/// sequence is made. It ends when the sequence and its iterators are released. A cancelled task stops waiting. Only one
/// task can wait at a time.
public struct Subscription<Element: Sendable>: AsyncSequence, Sendable {
    /// Keeps the listener's place while the sequence or an iterator exists.
    @usableFromInline final class Place: Sendable {
        fileprivate let buffer: RuntimeBound<MulticastBuffer<Element>>
        fileprivate let listener: RuntimeBound<Listener>

        fileprivate init(
            _ buffer: RuntimeBound<MulticastBuffer<Element>>,
            _ first: @escaping @Sendable () -> Element?
        ) {
            let listener = RuntimeBound(Listener(first), to: buffer.runtime)
            self.buffer = buffer
            self.listener = listener
            if buffer.runtime.isCurrent {
                _ = listener.value.entry(in: buffer.value)
            } else {
                buffer.runtime.execute { _ = listener.value.entry(in: buffer.value) }
            }
        }

        deinit {
            // The next sequence gets what this one leaves. So on the runtime it is removed at once, because the next one
            // is entered at once there. The calls that follow come later, because the last reference can be released in
            // the middle of other work on the runtime.
            let here = buffer.here
            if let here { here.remove(listener.value.entry(in: here)) }
            let isRemoved = here != nil
            buffer.runtime.execute { [buffer, listener] in
                if !isRemoved { buffer.value.remove(listener.value.entry(in: buffer.value)) }
                buffer.value.noteRemoval()
            }
        }
    }

    /// The place of one listener, entered at its first use on the runtime.
    fileprivate final class Listener {
        private var entered: MulticastBuffer<Element>.Listener?
        private var first: (@Sendable () -> Element?)?

        init(_ first: @escaping @Sendable () -> Element?) {
            self.first = first
        }

        func entry(in buffer: MulticastBuffer<Element>) -> MulticastBuffer<Element>.Listener {
            if let entered { return entered }
            let new = buffer.add(first: first?())
            entered = new
            first = nil
            return new
        }
    }

    private let place: Place

    package init(
        _ buffer: RuntimeBound<MulticastBuffer<Element>>,
        first: @escaping @Sendable () -> Element? = { nil }
    ) {
        place = Place(buffer, first)
    }

    /// Makes an iterator. All iterators of one sequence share its place, so each element goes to one of them.
    public func makeAsyncIterator() -> Iterator {
        Iterator(place: place)
    }

    /// Iterates over a sequence.
    public struct Iterator: AsyncIteratorProtocol {
        @usableFromInline let place: Place

        /// Returns the next element, or `nil` at the end or when the task is cancelled.
        @inlinable
        public mutating func next() async -> Element? {
            await next(isolation: #isolation)
        }

        /// Like ``next()``, without leaving the caller's actor if that is on the supervisor's loop.
        @inlinable
        public mutating func next(isolation actor: isolated (any Actor)?) async -> Element? {
            var element: Element?
            await place.next(into: &element, actor)
            return element
        }
    }
}

extension Subscription.Place {
    // The caller is in another module. Code there that is not specialized for its type looks up types at run time for
    // each message. This includes the type of a returned optional, but not of an optional that is filled in by code
    // that is specialized already.
    @specialized(where Element == Payload)
    @usableFromInline
    func next(into element: inout Element?, _ isolation: isolated (any Actor)?) async {
        await fill(&element, isolation)
    }

    // Not a part of `next`: there the type of the optional would be looked up for each message.
    @inline(never)
    private func fill(_ element: inout Element?, _ isolation: isolated (any Actor)?) async {
        if let here = buffer.here, let next = here.next(listener.value.entry(in: here)) {
            element = next
        } else {
            element = await buffer.suspend(with: (listener, WaitID.next()), isolation) {
                $0.wait($1.0.value.entry(in: $0), $1.1, $2)
            } onCancel: {
                $0.cancel($1.1)
            }
        }
    }
}
