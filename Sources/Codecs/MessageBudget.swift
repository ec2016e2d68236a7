/// The part of its limits that a message has not used yet. Readers and writers count alike, so that a codec writes nothing that a codec with
/// the same limits would refuse to read.
@usableFromInline
struct MessageBudget: Sendable {
    @usableFromInline let maximumDepth: Int
    @usableFromInline let maximumCount: Int
    @usableFromInline let maximumKeyLength: Int
    /// The number of messages, groups, objects and arrays around the current place.
    @usableFromInline var depth = 0
    /// How many more elements the message may have.
    @usableFromInline var elementsLeft: Int

    /// The budget of a new message.
    @inlinable @inline(__always)
    init(_ limits: CodecLimits) {
        maximumDepth = limits.maximumDepth
        maximumCount = max(limits.maximumCount, 0)
        maximumKeyLength = max(limits.maximumKeyLength, 0)
        elementsLeft = max(limits.maximumElements, 0)
    }

    /// Enters a message, a group, an object or an array. Returns `false` if it is nested too deep.
    @inlinable @inline(__always)
    mutating func enter() -> Bool {
        depth &+= 1
        return depth <= maximumDepth
    }

    /// Leaves what ``enter()`` has entered.
    @inlinable @inline(__always)
    mutating func leave() { depth &-= 1 }

    /// Counts one more element of a field that has `count` of them. Returns `false` if that is one too many.
    @inlinable @inline(__always)
    mutating func addElement(to count: Int) -> Bool {
        guard count < maximumCount, elementsLeft > 0 else { return false }
        elementsLeft &-= 1
        return true
    }

    /// Counts `new` more elements of a field that has `count` of them. Returns `false` if those are too many.
    @inlinable @inline(__always)
    mutating func addElements(_ new: Int, to count: Int = 0) -> Bool {
        guard new <= min(maximumCount &- count, elementsLeft) else { return false }
        elementsLeft &-= new
        return true
    }

    /// Whether a key or an identifier may have this length in bytes.
    @inlinable @inline(__always)
    func allowsKey(ofLength length: Int) -> Bool { length <= maximumKeyLength }
}
