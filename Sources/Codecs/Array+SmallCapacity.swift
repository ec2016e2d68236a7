extension Array {
    /// Reserves room for as many elements as 64 bytes hold if the array is empty. Without it, an array that grows to
    /// three elements is allocated three times.
    @inlinable @inline(__always)
    mutating func reserveFew() {
        if isEmpty { reserveCapacity(64 / MemoryLayout<Element>.stride) }
    }
}
