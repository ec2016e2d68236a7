/// A queue, first in, first out. It is a ring that grows when it is full.
///
/// An empty queue releases a large ring if less than a quarter of it was used since the queue was last empty. A queue
/// that is filled again and again keeps its memory. All is inlinable, because otherwise other modules run it
/// unspecialized and several times slower.
@usableFromInline
package struct Deque<Element> {
    /// The places, a power of two of them. Free places are `nil`, so that an element is released as soon as it is
    /// taken.
    @usableFromInline var ring: [Element?] = []
    @usableFromInline var head = 0
    @usableFromInline package internal(set) var count = 0
    /// The largest count since the queue was empty.
    @usableFromInline var most = 0

    /// A ring with up to this many places is never released.
    @usableFromInline static var keptPlaces: Int { 64 }

    @inlinable package init() {}

    /// Creates a queue of these elements, the first one first.
    @inlinable package init(_ elements: some Sequence<Element>) {
        for element in elements { append(element) }
    }

    @inlinable package var isEmpty: Bool { count == 0 }
    /// How many elements fit without more memory.
    @inlinable package var capacity: Int { ring.count }
    @inlinable package var first: Element? { count == 0 ? nil : ring[head] }

    /// Adds an element at the end.
    @inlinable package mutating func append(_ element: consuming Element) {
        if count == ring.count { grow() }
        ring[(head &+ count) & (ring.count &- 1)] = element
        count &+= 1
        most = Swift.max(most, count)
    }

    /// Removes the first element and returns it; `nil` if there is none.
    @inlinable package mutating func popFirst() -> Element? {
        guard count > 0 else { return nil }
        let element = ring[head].take()
        head = (head &+ 1) & (ring.count &- 1)
        count &-= 1
        if count == 0 { becameEmpty() }
        return element
    }

    /// Removes the element at a distance from the first, which must be less than ``count``. Those after it move up.
    @inlinable package mutating func remove(at offset: Int) -> Element {
        var free = place(offset)
        let element = ring[free].take().unsafelyUnwrapped
        for later in (offset &+ 1)..<count {
            let next = place(later)
            ring[free] = ring[next].take()
            free = next
        }
        count &-= 1
        if count == 0 { becameEmpty() }
        return element
    }

    /// The element at a distance from the first, which must be less than ``count``.
    @inlinable package subscript(offset: Int) -> Element {
        get { ring[place(offset)].unsafelyUnwrapped }
        _modify {
            let place = place(offset)
            var element = ring[place].take().unsafelyUnwrapped
            defer { ring[place] = element }
            yield &element
        }
    }

    @inlinable mutating func becameEmpty() {
        if ring.count > Self.keptPlaces, most < ring.count / 4 { (ring, head) = ([], 0) }
        most = 0
    }

    @inlinable func place(_ offset: Int) -> Int {
        precondition(offset >= 0 && offset < count, "no element is there")
        return (head &+ offset) & (ring.count &- 1)
    }

    @inlinable mutating func grow() {
        let places = Swift.max(8, ring.count * 2)
        var larger = [Element?]()
        larger.reserveCapacity(places)
        larger.append(contentsOf: ring[head...])
        larger.append(contentsOf: ring[..<head])
        for _ in larger.count..<places { larger.append(nil) }
        (ring, head) = (larger, 0)
    }
}

extension Deque: RandomAccessCollection {
    @inlinable package var startIndex: Int { 0 }
    @inlinable package var endIndex: Int { count }
}

extension Deque: Sendable where Element: Sendable {}
