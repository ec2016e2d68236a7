/// First in, first out: a ring that grows when it is full and never shrinks.
struct RingQueue<Element> {
    private var ring: [Element?] = Array(repeating: nil, count: 64)
    private var head = 0
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    mutating func append(_ element: Element) {
        if count == ring.count {
            ring = Array(ring[head...] + ring[..<head]) + Array(repeating: nil, count: count)
            head = 0
        }
        ring[(head + count) & (ring.count - 1)] = element
        count += 1
    }

    mutating func popFirst() -> Element? {
        guard count > 0 else { return nil }
        let element = ring[head]
        ring[head] = nil
        head = (head + 1) & (ring.count - 1)
        count -= 1
        return element
    }
}
