/// A set of numbers, held as ascending runs that do not touch.
struct NumberRanges: Sendable {
    private(set) var ranges: [ClosedRange<UInt64>] = []

    func contains(_ number: UInt64) -> Bool {
        let place = place(of: number)
        return place > 0 && ranges[place - 1].upperBound >= number
    }

    /// Adds a number; `false` if it was there already.
    mutating func insert(_ number: UInt64) -> Bool {
        let next = place(of: number)
        guard next == 0 || ranges[next - 1].upperBound < number else { return false }
        let joinsLast = next > 0 && ranges[next - 1].upperBound == number - 1
        let joinsNext = next < ranges.count && ranges[next].lowerBound == number + 1
        switch (joinsLast, joinsNext) {
        case (true, true):
            ranges[next - 1] = ranges[next - 1].lowerBound...ranges[next].upperBound
            ranges.remove(at: next)
        case (true, false): ranges[next - 1] = ranges[next - 1].lowerBound...number
        case (false, true): ranges[next] = number...ranges[next].upperBound
        case (false, false): ranges.insert(number...number, at: next)
        }
        return true
    }

    /// Forgets the lowest run.
    mutating func removeFirst() {
        if !ranges.isEmpty { ranges.removeFirst() }
    }

    /// How many runs begin at `number` or below; new numbers are mostly at the end.
    private func place(of number: UInt64) -> Int {
        var place = ranges.count
        while place > 0, ranges[place - 1].lowerBound > number { place -= 1 }
        return place
    }
}
