import Synchronization

/// Identifies a suspended caller, so that a cancellation finds its own caller and no other.
package enum WaitID {
    private static let last = Atomic<UInt64>(0)

    /// An identifier that no other caller in this process has.
    package static func next() -> UInt64 {
        last.wrappingAdd(1, ordering: .relaxed).newValue
    }
}

/// Suspended callers that wait for the same event. Each waits under an identifier of its own and is resumed exactly once,
/// because its continuation is removed before it is resumed.
///
/// The continuations are unsafe ones, because a check would allocate memory for each message.
@usableFromInline
package struct Waiters<Value: Sendable> {
    @usableFromInline typealias Waiter = (id: UInt64, continuation: UnsafeContinuation<Value, Never>)

    /// The first caller. As a rule there is no other, and then an array would only cost memory.
    @usableFromInline var first: Waiter?
    @usableFromInline var others: [Waiter] = []

    @inlinable package init() {}

    @inlinable package var isEmpty: Bool { first == nil }

    /// Stores a caller.
    @inlinable
    package mutating func append(_ id: UInt64, _ continuation: UnsafeContinuation<Value, Never>) {
        if first == nil { first = (id, continuation) } else { others.append((id, continuation)) }
    }

    /// Resumes the caller that has waited longest; `false` if there is none.
    @inlinable
    @discardableResult
    package mutating func resumeFirst(returning value: Value) -> Bool {
        guard let waiter = first else { return false }
        first = others.isEmpty ? nil : others.removeFirst()
        waiter.continuation.resume(returning: value)
        return true
    }

    /// Resumes this caller, if it still waits.
    @inlinable
    package mutating func resume(_ id: UInt64, returning value: Value) {
        if first?.id == id {
            resumeFirst(returning: value)
        } else if let index = others.firstIndex(where: { $0.id == id }) {
            others.remove(at: index).continuation.resume(returning: value)
        }
    }

    /// Resumes all callers.
    @inlinable
    package mutating func resumeAll(returning value: Value) {
        guard let waiter = first else { return }
        let rest = others
        (first, others) = (nil, [])
        waiter.continuation.resume(returning: value)
        for waiter in rest { waiter.continuation.resume(returning: value) }
    }
}
