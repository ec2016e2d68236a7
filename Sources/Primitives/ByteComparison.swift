extension UnsafeRawBufferPointer {
    /// Whether both buffers have the same bytes, compared eight at a time.
    @inlinable package func hasSameBytes(as other: UnsafeRawBufferPointer) -> Bool {
        guard count == other.count else { return false }
        // The last word overlaps the one before it, unless the length is a multiple of eight.
        guard count >= 8 else { return hasSameFewBytes(as: other) }
        let last = count &- 8
        var index = 0
        while index < last {
            guard hasSameWord(as: other, at: index) else { return false }
            index &+= 8
        }
        return hasSameWord(as: other, at: last)
    }

    @inlinable func hasSameWord(as other: UnsafeRawBufferPointer, at index: Int) -> Bool {
        loadUnaligned(fromByteOffset: index, as: UInt64.self)
            == other.loadUnaligned(fromByteOffset: index, as: UInt64.self)
    }

    @inlinable func hasSameFewBytes(as other: UnsafeRawBufferPointer) -> Bool {
        var index = 0
        while index < count {
            guard self[index] == other[index] else { return false }
            index &+= 1
        }
        return true
    }
}
