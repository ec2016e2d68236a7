/// A queue of values in the order of their deadlines. Equal deadlines keep the order of arrival. It is a binary heap
/// (J. W. J. Williams, "Algorithm 232: Heapsort", 1964) that tracks the place of each entry, so cancelling costs as
/// little as adding.
@usableFromInline
package struct TimerQueue<Value> {
    /// Identifies an entry until it has been removed or cancelled. It is never 0.
    @usableFromInline package typealias ID = UInt64

    @usableFromInline
    struct Entry {
        @usableFromInline var deadline: Int64
        @usableFromInline var order: UInt64
        @usableFromInline var slot: UInt32
        @usableFromInline var value: Value

        @inlinable
        init(deadline: Int64, order: UInt64, slot: UInt32, value: Value) {
            (self.deadline, self.order, self.slot, self.value) = (deadline, order, slot, value)
        }
    }

    /// The place in the heap of a slot's entry. The generation distinguishes successive IDs of the same slot.
    @usableFromInline
    struct Slot: Sendable {
        @usableFromInline var place = 0
        @usableFromInline var generation: UInt32 = 1

        @inlinable init() {}
    }

    @usableFromInline var heap: [Entry] = []
    @usableFromInline var slots: [Slot] = []
    @usableFromInline var freeSlots: [UInt32] = []
    @usableFromInline var added: UInt64 = 0

    @inlinable package init() {}

    @inlinable package var isEmpty: Bool { heap.isEmpty }
    @inlinable package var count: Int { heap.count }
    /// The earliest deadline.
    @inlinable package var next: Int64? { heap.first?.deadline }

    /// Adds a value.
    @discardableResult @inlinable
    package mutating func add(_ value: Value, at deadline: Int64) -> ID {
        let slot: UInt32
        if let free = freeSlots.popLast() {
            slot = free
        } else {
            slot = UInt32(slots.count)
            slots.append(Slot())
        }
        added += 1
        slots[Int(slot)].place = heap.count
        heap.append(Entry(deadline: deadline, order: added, slot: slot, value: value))
        siftUp(heap.count - 1)
        return ID(slots[Int(slot)].generation) << 32 | ID(slot)
    }

    /// Removes a value before its deadline and returns it; `nil` if it has been removed already.
    @discardableResult @inlinable
    package mutating func cancel(_ id: ID) -> Value? {
        let slot = Int(id & 0xffff_ffff)
        guard slot < slots.count, slots[slot].generation == UInt32(id >> 32) else { return nil }
        return remove(at: slots[slot].place)
    }

    /// Removes the earliest value and returns it; `nil` if there is none.
    @inlinable package mutating func popFirst() -> Value? {
        heap.isEmpty ? nil : remove(at: 0)
    }

    /// Removes the earliest value and returns it, if it is due.
    @inlinable package mutating func popDue(_ now: Int64) -> Value? {
        guard let first = heap.first, first.deadline <= now else { return nil }
        return remove(at: 0)
    }

    @inlinable mutating func remove(at place: Int) -> Value {
        let last = heap.count - 1
        if place != last { swap(place, last) }
        let entry = heap.removeLast()
        // The ID is invalid from now on. Generation 0 is skipped, so that no ID is 0.
        slots[Int(entry.slot)].generation &+= slots[Int(entry.slot)].generation == .max ? 2 : 1
        freeSlots.append(entry.slot)
        if place != last {
            siftDown(place)
            siftUp(place)
        }
        return entry.value
    }

    @inlinable func isEarlier(_ left: Int, _ right: Int) -> Bool {
        (heap[left].deadline, heap[left].order) < (heap[right].deadline, heap[right].order)
    }

    @inlinable mutating func swap(_ left: Int, _ right: Int) {
        heap.swapAt(left, right)
        slots[Int(heap[left].slot)].place = left
        slots[Int(heap[right].slot)].place = right
    }

    @inlinable mutating func siftUp(_ start: Int) {
        var child = start
        while child > 0 {
            let parent = (child - 1) / 2
            guard isEarlier(child, parent) else { return }
            swap(child, parent)
            child = parent
        }
    }

    @inlinable mutating func siftDown(_ start: Int) {
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

extension TimerQueue: Sendable where Value: Sendable {}
extension TimerQueue.Entry: Sendable where Value: Sendable {}
