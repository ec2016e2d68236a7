/// First in, first out: a ring that grows when it is full and never shrinks. Every message passes several of them; memory of its
/// own spares them what an array pays for being shared.
package struct RingQueue<Element>: ~Copyable {
    /// A power of two.
    private var capacity = 64
    private var ring = UnsafeMutablePointer<Element>.allocate(capacity: 64)
    private var head = 0
    private(set) var count = 0

    init() {}

    deinit {
        for offset in 0..<count { (ring + (head + offset) & (capacity - 1)).deinitialize(count: 1) }
        ring.deallocate()
    }

    var isEmpty: Bool { count == 0 }

    /// Adds an element at the end.
    package mutating func append(_ element: consuming Element) {
        if count == capacity { grow() }
        (ring + (head + count) & (capacity - 1)).initialize(to: element)
        count += 1
    }

    mutating func popFirst() -> Element? {
        guard count > 0 else { return nil }
        let place = ring + head
        head = (head + 1) & (capacity - 1)
        count -= 1
        return place.move()
    }

    private mutating func grow() {
        let larger = UnsafeMutablePointer<Element>.allocate(capacity: capacity * 2)
        larger.moveInitialize(from: ring + head, count: capacity - head)
        (larger + (capacity - head)).moveInitialize(from: ring, count: head)
        ring.deallocate()
        (ring, head, capacity) = (larger, 0, capacity * 2)
    }
}
