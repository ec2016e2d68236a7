/// The actions that are scheduled for later times, in a binary heap. Actions with equal times keep their order.
struct KernelEvents {
    private struct Entry {
        var time: Int64
        var number: UInt64
        var action: () -> Void
    }

    private var heap: [Entry] = []
    private var count: UInt64 = 0

    var next: Int64? { heap.first?.time }

    mutating func add(_ time: Int64, _ action: @escaping () -> Void) {
        count += 1
        heap.append(Entry(time: time, number: count, action: action))
        var child = heap.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            guard isEarlier(child, parent) else { return }
            heap.swapAt(child, parent)
            child = parent
        }
    }

    mutating func popDue(_ time: Int64) -> (() -> Void)? {
        guard let first = heap.first, first.time <= time else { return nil }
        let last = heap.removeLast()
        if !heap.isEmpty {
            heap[0] = last
            var parent = 0
            while true {
                var smallest = parent
                for child in (2 * parent + 1)...(2 * parent + 2) where child < heap.count && isEarlier(child, smallest)
                {
                    smallest = child
                }
                guard smallest != parent else { break }
                heap.swapAt(parent, smallest)
                parent = smallest
            }
        }
        return first.action
    }

    private func isEarlier(_ left: Int, _ right: Int) -> Bool {
        (heap[left].time, heap[left].number) < (heap[right].time, heap[right].number)
    }
}
