extension Array {
    /// Makes room in an empty array for as many elements as sixty-four bytes hold, so that the few that most fields have cost
    /// one allocation, not one each time that one, two and four are too many.
    @inlinable @inline(__always)
    mutating func reserveFew() {
        if isEmpty { reserveCapacity(64 / MemoryLayout<Element>.stride) }
    }
}
