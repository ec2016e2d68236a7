/// A connection on its way to the server.
struct Arrival: Sendable, Hashable, Comparable {
    /// When it arrives, in nanoseconds of virtual time.
    var time: Int64
    var client: Int32

    /// Orders by time; at the same time by client, so that a simulation has one course only.
    static func < (left: Arrival, right: Arrival) -> Bool {
        left.time != right.time ? left.time < right.time : left.client < right.client
    }
}

/// Arrivals, the earliest first: a binary heap (J. W. J. Williams, "Algorithm 232: Heapsort", 1964). A client has at most one
/// connection under way, so there are never more entries than clients.
struct ArrivalQueue: Sendable {
    private var heap: [Arrival] = []

    init(capacity: Int) {
        heap.reserveCapacity(capacity)
    }

    mutating func push(_ arrival: Arrival) {
        var index = heap.count
        heap.append(arrival)
        while index > 0 {
            let parent = (index - 1) / 2
            guard arrival < heap[parent] else { break }
            heap[index] = heap[parent]
            index = parent
        }
        heap[index] = arrival
    }

    mutating func pop() -> Arrival? {
        guard let first = heap.first, let moved = heap.popLast() else { return nil }
        guard !heap.isEmpty else { return first }
        var index = 0
        while true {
            var child = 2 * index + 1
            guard child < heap.count else { break }
            if child + 1 < heap.count, heap[child + 1] < heap[child] { child += 1 }
            guard heap[child] < moved else { break }
            heap[index] = heap[child]
            index = child
        }
        heap[index] = moved
        return first
    }
}
