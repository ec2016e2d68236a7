/// Records which of the last 1024 sequence numbers have arrived. Numbers wrap around at 2³² and are compared as in RFC
/// 1982.
package struct SequenceWindow: Sendable {
    /// The result of adding a number.
    package enum Verdict: Equatable {
        /// The number is later than all before it.
        case new
        /// The number is earlier than another that has arrived, and has not arrived before.
        case late
        /// The number has arrived already, or is too old to be known.
        case duplicate
    }

    /// The number of remembered numbers.
    package static let size: UInt32 = 1024

    private var seen = [UInt64](repeating: 0, count: Int(size / 64))
    private var highest: UInt32?

    /// Creates an empty window.
    package init() {}

    /// Adds `number`, and returns whether it has arrived before.
    package mutating func insert(_ number: UInt32) -> Verdict {
        guard let highest else {
            highest = number
            mark(number)
            return .new
        }
        let distance = Int32(bitPattern: number &- highest)
        if distance > 0 {
            forget(after: highest, through: number)
            self.highest = number
            mark(number)
            return .new
        }
        guard highest &- number < Self.size, !isMarked(number) else { return .duplicate }
        mark(number)
        return .late
    }

    /// Clears the slots of the numbers that enter the window. They are the slots of the numbers that leave it.
    private mutating func forget(after highest: UInt32, through number: UInt32) {
        guard number &- highest < Self.size else {
            for index in seen.indices { seen[index] = 0 }
            return
        }
        var next = highest
        while next != number {
            next &+= 1
            seen[word(next)] &= ~bit(next)
        }
    }

    private mutating func mark(_ number: UInt32) { seen[word(number)] |= bit(number) }
    private func isMarked(_ number: UInt32) -> Bool { seen[word(number)] & bit(number) != 0 }
    private func word(_ number: UInt32) -> Int { Int(number % Self.size / 64) }
    private func bit(_ number: UInt32) -> UInt64 { 1 &<< UInt64(number & 63) }
}
