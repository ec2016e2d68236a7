import Primitives

/// The confirmations to a broker that wait until the store has the marks of their messages. Otherwise a message whose
/// confirmation is lost when the process is killed would be new to the next process.
struct HeldConfirmations: Sendable {
    /// How many marks the store was given.
    private var given: UInt64 = 0
    /// How many of them it has.
    private var stored: UInt64 = 0
    /// Confirmations in order, each with the number of marks that the store must have before.
    private var held = Deque<(given: UInt64, count: Int)>()

    /// The store is given the mark of one more message.
    mutating func give() { given += 1 }

    /// Adds this number of messages to those that can be confirmed once the store has all marks.
    ///
    /// - Returns: How many can be confirmed now.
    mutating func add(_ count: Int) -> Int {
        guard stored < given, count > 0 else { return count }
        if let last = held.last, last.given == given {
            held[held.count - 1].count += count
        } else {
            held.append((given, count))
        }
        return 0
    }

    /// The store has this number of further marks.
    ///
    /// - Returns: How many messages can be confirmed now.
    mutating func stored(_ count: Int) -> Int {
        stored += UInt64(count)
        var released = 0
        while let first = held.first, first.given <= stored {
            released += first.count
            _ = held.popFirst()
        }
        return released
    }

    /// Drops all confirmations, because their connection has ended.
    mutating func forget() { held = Deque() }
}
