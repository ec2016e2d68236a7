/// A set of numbers, stored as ascending runs that do not touch.
struct NumberRanges: Sendable {
    private(set) var ranges: [ClosedRange<UInt64>] = []

    func contains(_ number: UInt64) -> Bool { contains(number...number) }

    /// Whether all numbers of a run are in the set.
    func contains(_ run: ClosedRange<UInt64>) -> Bool {
        let place = place(after: run.lowerBound)
        return place > 0 && ranges[place - 1].upperBound >= run.upperBound
    }

    /// Adds a number. Returns `false` if the set had it already.
    mutating func insert(_ number: UInt64) -> Bool { insert(number...number) > 0 }

    /// Adds a run of numbers. Returns how many of them are new.
    mutating func insert(_ run: ClosedRange<UInt64>) -> UInt64 {
        let below = run.lowerBound == 0 ? 0 : run.lowerBound - 1
        let above = run.upperBound == .max ? .max : run.upperBound + 1
        let end = place(after: above)
        var start = end
        var new = run.upperBound - run.lowerBound + 1
        while start > 0, ranges[start - 1].upperBound >= below {
            start -= 1
            let lower = max(ranges[start].lowerBound, run.lowerBound)
            let upper = min(ranges[start].upperBound, run.upperBound)
            if lower <= upper { new -= upper - lower + 1 }
        }
        guard start < end else {
            ranges.insert(run, at: start)
            return new
        }
        let upper = max(ranges[end - 1].upperBound, run.upperBound)
        ranges[start] = min(ranges[start].lowerBound, run.lowerBound)...upper
        if start + 1 < end { ranges.removeSubrange(start + 1..<end) }
        return new
    }

    /// Removes the lowest run.
    mutating func removeFirst() {
        if !ranges.isEmpty { ranges.removeFirst() }
    }

    /// How many runs begin at `number` or below it. New numbers are usually at the end.
    private func place(after number: UInt64) -> Int {
        guard let last = ranges.last, last.lowerBound > number else { return ranges.count }
        var (low, high) = (0, ranges.count - 1)
        while low < high {
            let middle = (low + high) / 2
            if ranges[middle].lowerBound > number { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
