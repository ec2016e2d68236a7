/// Deadlines in order: a binary heap whose entries know their place, so that cancelling is as cheap as adding.
struct TimerQueue<Value> {
    /// Names a timer until it has fired or was cancelled.
    typealias ID = UInt64

    private struct Entry {
        var deadline: Int64
        var id: ID
        var value: Value
    }

    private var heap: [Entry] = []
    private var places: [ID: Int] = [:]
    private var nextID: ID = 0

    var isEmpty: Bool { heap.isEmpty }
    /// The earliest deadline.
    var next: Int64? { heap.first?.deadline }

    /// Adds a timer.
    mutating func add(_ deadline: Int64, _ value: Value) -> ID {
        nextID += 1
        heap.append(Entry(deadline: deadline, id: nextID, value: value))
        places[nextID] = heap.count - 1
        siftUp(heap.count - 1)
        return nextID
    }

    /// Takes a timer away and gives back what it held; `nil` if it has fired.
    @discardableResult
    mutating func cancel(_ id: ID) -> Value? {
        guard let place = places[id] else { return nil }
        return remove(at: place)
    }

    /// Takes the earliest timer if it is due.
    mutating func popDue(_ now: Int64) -> Value? {
        guard let first = heap.first, first.deadline <= now else { return nil }
        return remove(at: 0)
    }

    private mutating func remove(at place: Int) -> Value {
        let last = heap.count - 1
        if place != last { swap(place, last) }
        let entry = heap.removeLast()
        places[entry.id] = nil
        if place != last {
            siftDown(place)
            siftUp(place)
        }
        return entry.value
    }

    /// Equal deadlines fire in the order in which they were added.
    private func isEarlier(_ left: Int, _ right: Int) -> Bool {
        (heap[left].deadline, heap[left].id) < (heap[right].deadline, heap[right].id)
    }

    private mutating func swap(_ left: Int, _ right: Int) {
        heap.swapAt(left, right)
        places[heap[left].id] = left
        places[heap[right].id] = right
    }

    private mutating func siftUp(_ start: Int) {
        var child = start
        while child > 0 {
            let parent = (child - 1) / 2
            guard isEarlier(child, parent) else { return }
            swap(child, parent)
            child = parent
        }
    }

    private mutating func siftDown(_ start: Int) {
        var parent = start
        while true {
            var smallest = parent
            for child in (2 * parent + 1)...(2 * parent + 2) where child < heap.count && isEarlier(child, smallest) {
                smallest = child
            }
            guard smallest != parent else { return }
            swap(parent, smallest)
            parent = smallest
        }
    }
}
