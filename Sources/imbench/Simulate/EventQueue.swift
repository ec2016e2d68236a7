/// What is to happen when, in the order of time, and of arrival where the times are equal.
///
/// The heap holds numbers only; the events, which are larger, stay where they are put.
struct EventQueue<Event> {
    private struct Entry {
        var at: Int64
        var order: UInt32
        var slot: UInt32
    }

    private var heap: [Entry] = []
    private var slots: [Event?] = []
    private var free: [UInt32] = []
    private var pushed: UInt32 = 0

    var count: Int { heap.count }
    /// When the next event is; `nil` if there is none.
    var nextTime: Int64? { heap.first?.at }

    /// Plans an event.
    mutating func push(_ event: Event, at time: Int64) {
        let slot: UInt32
        if let used = free.popLast() {
            slot = used
            slots[Int(slot)] = event
        } else {
            slot = UInt32(slots.count)
            slots.append(event)
        }
        pushed += 1
        heap.append(Entry(at: time, order: pushed, slot: slot))
        var index = heap.count - 1
        while index > 0, isBefore(heap[index], heap[(index - 1) / 2]) {
            heap.swapAt(index, (index - 1) / 2)
            index = (index - 1) / 2
        }
    }

    /// Takes the next event out.
    mutating func pop() -> Event? {
        guard let first = heap.first, let last = heap.popLast() else { return nil }
        if !heap.isEmpty {
            heap[0] = last
            sink()
        }
        free.append(first.slot)
        let event = slots[Int(first.slot)]
        slots[Int(first.slot)] = nil
        return event
    }

    private mutating func sink() {
        var index = 0
        while true {
            var least = index
            for child in [2 * index + 1, 2 * index + 2] where child < heap.count && isBefore(heap[child], heap[least]) {
                least = child
            }
            guard least != index else { return }
            heap.swapAt(index, least)
            index = least
        }
    }

    private func isBefore(_ left: Entry, _ right: Entry) -> Bool {
        left.at != right.at ? left.at < right.at : left.order < right.order
    }
}
